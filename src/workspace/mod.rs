//! The workspace from the host's side: which paths and commands are allowed, which host files are copied in.

pub mod path;
#[cfg(feature = "host")]
pub mod policy;
#[cfg(feature = "host")]
pub mod source;
