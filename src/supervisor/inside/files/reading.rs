//! Reading a part of a file.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::link::Link;
use super::super::operations::{Context, Step, failed};
use super::{MODE_MASK, refused, regular, size};
use crate::supervisor::wire::{MAX_DATA, Read, ReadFile, Reply, SendWindow, Started, Stream, ToHost};

/// A file that is being read, up to the size that it had when it was opened.
pub struct Reading {
  op: u64,
  fd: OwnedFd,
  offset: u64,
  left: u64,
  window: SendWindow,
  size: u64,
  mode: u32,
}

impl Reading {
  /// Opens it.
  pub fn open(op: u64, request: &ReadFile<'_>, context: &mut Context<'_>) -> Result<Self, Reply> {
    let fd = context.workspace.file(request.path, OFlags::RDONLY).map_err(refused)?;
    let stat = rustix::fs::fstat(&fd).map_err(refused)?;
    regular(&stat).map_err(|failure| failed(failure, 0))?;
    let (size, mode) = (size(&stat), stat.st_mode & MODE_MASK);
    context.link.say(op, &ToHost::Started(Started::File { size, mode }));
    let left = size.saturating_sub(request.offset).min(request.limit);
    let window = SendWindow::new(request.window.into());
    Ok(Self { op, fd, offset: request.offset, left, window, size, mode })
  }

  /// Bytes that were sent.
  pub const fn sent(&self) -> u64 {
    self.window.sent()
  }

  /// The host takes bytes up to this offset.
  pub const fn raise(&mut self, limit: u64) {
    self.window.raise(limit);
  }

  /// One turn: at most one piece.
  pub fn step(&mut self, context: &mut Context<'_>) -> Step {
    if self.left > 0 {
      match self.piece(context.link) {
        Some(Ok(count @ 1..)) => {
          self.window.advance(count as u64);
          self.left = self.left.saturating_sub(count as u64);
        }
        // It was made shorter meanwhile.
        Some(Ok(0)) => self.left = 0,
        Some(Err(error)) => return Step::Done(refused(error)),
        None if self.window.room() == 0 => return Step::Wait,
        None => return Step::Again,
      }
    }
    if self.left > 0 {
      return Step::Again;
    }
    context.link.say(self.op, &ToHost::End(Stream::Output));
    Step::Done(Reply::Read(Read { size: self.size, mode: self.mode, sent: self.sent() }))
  }

  fn piece(&self, link: &mut Link) -> Option<Result<usize, Errno>> {
    let most = usize::try_from(self.left.min(self.window.room())).unwrap_or(MAX_DATA).min(MAX_DATA);
    if most == 0 || !link.has_room() {
      return None;
    }
    let at = self.offset.saturating_add(self.sent());
    Some(link.piece(self.op, Stream::Output, self.sent(), most, |room| rustix::io::pread(&self.fd, room, at)))
  }
}
