//! The workspace from the host's side: which paths and commands are allowed, which host files are copied in.

pub mod path;
pub mod policy;
pub mod source;
