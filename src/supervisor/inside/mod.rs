//! The program that is process 1 in the container.
//!
//! Everything else in the container is the adversary and runs as the same user. One thread, one loop ([`looping`]),
//! no descriptor that blocks. [`start`] makes it untouchable before anything runs; [`link`] is the control stream,
//! [`wires`] where it runs, [`bridge`] how it gets another place to run; [`operations`] the table of what goes on, [`channels`] that of connections to the proxy;
//! [`command`] and [`files`] do the work; [`memory`] and [`system`] are the kernel.

mod bridge;
mod channels;
mod command;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod link;
mod looping;
mod memory;
mod operations;
mod self_test;
mod start;
mod system;
mod wires;

use std::process::ExitCode;

/// Runs until the host ends it, its time runs out, or nobody can reach it any more. The end of process 1 is the end of
/// the container.
pub fn main() -> ExitCode {
  match start::start() {
    Ok(supervisor) => supervisor.run(),
    Err(code) => ExitCode::from(code),
  }
}
