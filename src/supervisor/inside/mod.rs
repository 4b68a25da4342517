//! The program that is process 1 in the container.
//!
//! Everything else in the container is the adversary and runs as the same user. One thread, one loop ([`looping`]),
//! no descriptor that blocks. [`start`] makes it untouchable before anything runs; [`link`] is the control stream;
//! [`operations`] the table of what goes on; [`command`] and [`files`] do the work; [`system`] is the kernel.

mod command;
mod files;
mod link;
mod looping;
mod operations;
mod self_test;
mod start;
mod system;

use std::process::ExitCode;

/// Runs until the host ends it, its time runs out, or nobody can reach it any more. The end of process 1 is the end of
/// the container.
pub fn main() -> ExitCode {
  match start::start() {
    Ok(supervisor) => supervisor.run(),
    Err(code) => ExitCode::from(code),
  }
}
