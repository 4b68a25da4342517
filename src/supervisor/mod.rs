//! The resident supervisor: our own process 1 of a sandbox, and how a host talks to it.
//!
//! [`wire`] is the language, shared by both ends and pure. `inside` is the program in the container, built with the
//! feature `supervisor` for Linux on x86-64 and 64-bit ARM. On the host [`embedded`] holds it, [`volume`] brings it in,
//! and [`link`] speaks with it.

#[cfg(feature = "host")]
pub mod embedded;
#[cfg(feature = "host")]
pub mod link;
#[cfg(feature = "host")]
pub mod volume;
pub mod wire;

#[cfg(all(
  feature = "supervisor",
  target_os = "linux",
  any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod inside;
