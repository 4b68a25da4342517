//! Commands: starting them, their streams, and ending all that came from them.

mod child;
mod input;
mod output;
mod running;
mod sweep;

use std::os::fd::OwnedFd;

pub use child::{Launcher, Pipes};
pub use running::Command;
pub use sweep::{Processes, Sweep, Swept};

/// A new pipe whose ends close on exec: what is read from, what is written to.
fn pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
  rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
}

/// Makes our end of a new pipe one that never blocks; the other end is a description of its own and stays as it is.
fn never_block(fd: &OwnedFd) -> rustix::io::Result<()> {
  rustix::fs::fcntl_setfl(fd, rustix::fs::OFlags::NONBLOCK)
}
