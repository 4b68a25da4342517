//! What a command reads.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::super::link::Link;
use super::super::system::poll::{PollSet, WRITE};
use crate::supervisor::wire::{Data, FlowError, INITIAL_WINDOW, ReceiveWindow};

/// The writing end of a command's standard input, and what did not fit into the pipe yet: at most the window.
pub struct Input {
  fd: Option<OwnedFd>,
  waiting: VecDeque<u8>,
  window: ReceiveWindow,
  ended: bool,
}

impl Input {
  /// Input by way of this pipe; `None`: the command has none, and what comes is dropped.
  pub fn new(fd: Option<OwnedFd>) -> Self {
    Self { fd, waiting: VecDeque::new(), window: ReceiveWindow::new(INITIAL_WINDOW), ended: false }
  }

  /// Bytes that came from the host.
  pub const fn received(&self) -> u64 {
    self.window.received()
  }

  /// A piece arrived.
  pub fn take(&mut self, op: u64, data: &Data<'_>, link: &mut Link) -> Result<(), FlowError> {
    self.window.receive(data.offset, data.bytes.len() as u64)?;
    let written = if self.waiting.is_empty() { self.write(data.bytes) } else { 0 };
    if self.fd.is_some() {
      self.waiting.extend(data.bytes.get(written..).unwrap_or_default());
      link.used(op, &mut self.window, written as u64);
    } else {
      link.used(op, &mut self.window, data.bytes.len() as u64);
    }
    Ok(())
  }

  /// The host said that there is no more.
  pub fn end(&mut self) {
    self.ended = true;
    self.close_if_over();
  }

  /// Nobody reads any more: what waits is dropped, and what comes.
  pub fn close(&mut self) {
    self.fd = None;
    self.waiting = VecDeque::new();
  }

  /// Writes what can be written now.
  pub fn pump(&mut self, op: u64, link: &mut Link) {
    while !self.waiting.is_empty() {
      let waiting = std::mem::take(&mut self.waiting);
      let before = waiting.len();
      let written = self.write(waiting.as_slices().0);
      if self.fd.is_none() {
        link.used(op, &mut self.window, before as u64);
        return;
      }
      self.waiting = waiting;
      self.waiting.drain(..written);
      link.used(op, &mut self.window, written as u64);
      if written == 0 {
        return;
      }
    }
    self.close_if_over();
  }

  /// Waits for room in the pipe where something is left for it.
  pub fn wait(&self, set: &mut PollSet, owner: usize) {
    if let Some(fd) = self.fd.as_ref().filter(|_| !self.waiting.is_empty()) {
      set.add(fd.as_fd(), WRITE, owner);
    }
  }

  fn close_if_over(&mut self) {
    if self.ended && self.waiting.is_empty() {
      self.fd = None;
    }
  }

  /// How many bytes the pipe took. Where nobody reads any more it is closed.
  fn write(&mut self, bytes: &[u8]) -> usize {
    let Some(fd) = &self.fd else { return 0 };
    match rustix::io::write(fd, bytes) {
      Ok(count) => count,
      Err(Errno::AGAIN | Errno::INTR) => 0,
      Err(_) => {
        self.close();
        0
      }
    }
  }
}
