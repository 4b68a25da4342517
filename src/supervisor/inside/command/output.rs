//! What a command writes.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;

use super::super::link::Link;
use super::super::system::poll::{PollSet, READ};
use crate::supervisor::wire::{MAX_DATA, SendWindow, Stream, ToHost};

/// One of a command's output streams.
pub struct Output {
  stream: Stream,
  fd: Option<OwnedFd>,
  window: SendWindow,
  cap: u64,
  /// After the command is gone: how much is left in the pipe. Somebody else may hold its other end, so its end is not
  /// waited for.
  left: Option<u64>,
  /// More than the cap was written.
  over: bool,
  ended: bool,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pumped {
  /// Nothing to do until the pipe or the host says something.
  Idle,
  /// There may be more right now.
  More,
  /// The command wrote more than it may.
  OverCap,
}

impl Output {
  /// A stream that may send `window` bytes at first and `cap` in all.
  pub const fn new(stream: Stream, fd: OwnedFd, window: u32, cap: u64) -> Self {
    Self {
      stream,
      fd: Some(fd),
      window: SendWindow::new(window as u64),
      cap,
      left: None,
      ended: false,
      over: false,
    }
  }

  /// Bytes that were sent.
  pub const fn sent(&self) -> u64 {
    self.window.sent()
  }

  /// The host takes bytes up to this offset.
  pub const fn raise(&mut self, limit: u64) {
    self.window.raise(limit);
  }

  /// Its end was said.
  pub const fn has_ended(&self) -> bool {
    self.ended
  }

  /// One turn: sends at most one piece.
  pub fn pump(&mut self, op: u64, link: &mut Link, now: Instant) -> Pumped {
    let Some(fd) = &self.fd else { return self.end(op, link, now) };
    if self.left == Some(0) {
      return self.end(op, link, now);
    }
    if self.sent() >= self.cap {
      return self.probe(op, link, now);
    }
    let most = self.window.room().min(self.cap - self.sent()).min(self.left.unwrap_or(u64::MAX));
    let most = usize::try_from(most).unwrap_or(MAX_DATA).min(MAX_DATA);
    if most == 0 {
      return Pumped::Idle;
    }
    if !link.has_room() {
      return Pumped::More;
    }
    // No more room than the pipe can fill: making it costs a page fault for each page after every fork. An empty pipe is
    // read from all the same, since that tells its end.
    let held =
      rustix::io::ioctl_fionread(fd).map_or(MAX_DATA, |held| usize::try_from(held).unwrap_or(MAX_DATA));
    let room = most.min(held.max(1));
    match link.piece(op, self.stream, self.window.sent(), room, |room| rustix::io::read(fd, room)) {
      Ok(count @ 1..) => self.sent_some(count, most),
      Err(Errno::AGAIN) if self.left.is_none() => Pumped::Idle,
      Err(Errno::INTR) => Pumped::More,
      _ => self.end(op, link, now),
    }
  }

  /// The command is gone; what its pipe holds now is its output. `true`: that is more than it may write.
  pub fn drain(&mut self) -> bool {
    let held = self.fd.as_ref().and_then(|fd| rustix::io::ioctl_fionread(fd).ok()).unwrap_or(0);
    let room = self.cap - self.sent();
    self.left = Some(held.min(room));
    // The byte that was too many may have been read before the end of the command was known.
    self.over || held > room
  }

  /// Waits for the command to write, where it would be of use.
  pub fn wait(&self, set: &mut PollSet, owner: usize, link: &Link) {
    let of_use = self.sent() >= self.cap || (self.window.room() > 0 && link.has_room());
    if let Some(fd) = self.fd.as_ref().filter(|_| of_use) {
      set.add(fd.as_fd(), READ, owner);
    }
  }

  const fn sent_some(&mut self, count: usize, most: usize) -> Pumped {
    self.window.advance(count as u64);
    if let Some(left) = self.left {
      self.left = Some(left.saturating_sub(count as u64));
      return Pumped::More;
    }
    // A read that was not filled emptied the pipe.
    if count == most { Pumped::More } else { Pumped::Idle }
  }

  /// At the cap: whether it ended there, or goes on.
  fn probe(&mut self, op: u64, link: &mut Link, now: Instant) -> Pumped {
    let Some(fd) = &self.fd else { return Pumped::Idle };
    match rustix::io::read(fd, &mut [0; 1]) {
      Ok(1..) => {
        self.over = true;
        Pumped::OverCap
      }
      Err(Errno::AGAIN | Errno::INTR) => Pumped::Idle,
      _ => self.end(op, link, now),
    }
  }

  fn end(&mut self, op: u64, link: &mut Link, now: Instant) -> Pumped {
    self.fd = None;
    if !self.ended {
      self.ended = true;
      // The end of the command is hardly ever far behind.
      link.hint(op, &ToHost::End(self.stream), now);
    }
    Pumped::Idle
  }
}
