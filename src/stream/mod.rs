//! Byte streams of commands: the engine's frames taken apart, output kept within its cap. Pure: no sockets, no clock.

pub mod frame;
pub mod json_lines;
pub mod output;
