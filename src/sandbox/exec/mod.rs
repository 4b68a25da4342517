//! The engine-only transport.

pub mod archive_files;
