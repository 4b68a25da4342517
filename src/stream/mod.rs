//! What comes out of an engine or a command, piece by piece: text, JSON values.

pub mod json_lines;
pub mod utf8;
