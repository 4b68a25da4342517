//! The loop of process 1 in a process that is not: turn by turn, over any pair of descriptors, on any directory.
//! For `fuzz/` alone.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::command::{Launcher, Processes};
use super::files::Workspace;
use super::link::Link;
use super::looping::{Parts, Supervisor};
use super::memory::MemoryKills;
use super::wires::Wires;

/// A supervisor that whoever drives it keeps from making processes, and so from killing any.
pub struct Driven {
  supervisor: Supervisor,
  /// Stands for the signal of a child's end, which never comes: it keeps a turn from waiting.
  wake: OwnedFd,
}

impl Driven {
  /// On the directory `workspace`; `input` and `output` must never block. It has heard nobody, and its self-test came to
  /// nothing.
  pub fn new(workspace: &OsStr, input: OwnedFd, output: OwnedFd) -> Result<Self, Errno> {
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut supervisor = Supervisor::new(Parts {
      wires: Wires::pair(input, output),
      link: Link::new([0; 32]),
      door: None,
      workspace: Workspace::open(workspace)?,
      launcher: Launcher::new(null),
      processes: Processes::open()?,
      memory_kills: MemoryKills::open(),
      children: rustix::io::dup(&wake)?,
      capabilities: 0,
    });
    supervisor.begin();
    Ok(Self { supervisor, wake })
  }

  /// One turn of the loop, which never waits. The error is the code with which process 1 would end.
  pub fn turn(&mut self) -> Result<(), u8> {
    // It is empty: every turn reads it.
    rustix::io::write(&self.wake, &1u64.to_ne_bytes()).map_err(|_| u8::MAX)?;
    self.supervisor.turn().map_err(|end| end as u8)
  }
}
