//! The resident supervisor: our own process 1 of a sandbox, and how a host talks to it.
//!
//! [`wire`] is the language, shared by both ends and pure. `inside` is the program in the container; on the host
//! [`embedded`] holds it, [`volume`] brings it in, and [`link`] speaks with it.

pub mod embedded;
pub mod link;
pub mod volume;
pub mod wire;
