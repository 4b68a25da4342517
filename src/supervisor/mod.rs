//! The resident supervisor: our own process 1 of a sandbox, and how a host talks to it.
//!
//! [`wire`] is the language, shared by both ends and pure. `inside` is the program in the container.

pub mod wire;
