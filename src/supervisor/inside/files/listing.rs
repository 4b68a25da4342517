//! Listing a directory.

use rustix::fs::{AtFlags, FileType};

use super::super::operations::{Context, Step};
use super::walk::{Walk, Walked};
use super::{MODE_MASK, refused, size};
use crate::supervisor::wire::{Entry, EntryKind, List, Listed, MAX_DATA, Reply, SendWindow, Stream, ToHost};

/// Pieces of the walk in one turn: a fraction of a millisecond.
const STEPS_A_TURN: usize = 256;

/// A directory that is being listed.
pub struct Listing {
  op: u64,
  walk: Walk,
  limit: u32,
  entries: u32,
  waiting: Vec<u8>,
  window: SendWindow,
  over: Option<Listed>,
}

impl Listing {
  /// Opens it.
  pub fn open(op: u64, request: &List<'_>, context: &mut Context<'_>) -> Result<Self, Reply> {
    let walk = Walk::new(context.workspace, request.path, request.depth).map_err(refused)?;
    Ok(Self {
      op,
      walk,
      limit: request.limit,
      entries: 0,
      waiting: Vec::new(),
      window: SendWindow::new(request.window.into()),
      over: None,
    })
  }

  /// Bytes that were sent.
  pub const fn sent(&self) -> u64 {
    self.window.sent()
  }

  /// The host takes bytes up to this offset.
  pub const fn raise(&mut self, limit: u64) {
    self.window.raise(limit);
  }

  /// One turn.
  pub fn step(&mut self, context: &mut Context<'_>) -> Step {
    for _ in 0..STEPS_A_TURN {
      if self.over.is_some() || self.waiting.len() >= MAX_DATA {
        break;
      }
      match self.walk.step(context.workspace) {
        Ok(Walked::Busy) => {}
        Ok(Walked::Entry(name)) => self.add(&name),
        Ok(Walked::End) => self.over = Some(Listed { entries: self.entries, truncated: false }),
        Err(error) => return Step::Done(refused(error)),
      }
    }
    self.send(context);
    match self.over {
      Some(listed) if self.waiting.is_empty() => {
        context.link.say(self.op, &ToHost::End(Stream::Output));
        Step::Done(Reply::Listed(listed))
      }
      _ if self.window.room() == 0 && (self.over.is_some() || self.waiting.len() >= MAX_DATA) => Step::Wait,
      _ => Step::Again,
    }
  }

  fn add(&mut self, name: &[u8]) {
    if self.entries >= self.limit {
      self.over = Some(Listed { entries: self.entries, truncated: true });
      return;
    }
    let Some((directory, parents)) = self.walk.directory() else { return };
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let kind = stat.map_or(EntryKind::Unknown, |stat| match FileType::from_raw_mode(stat.st_mode) {
      FileType::RegularFile => EntryKind::File,
      FileType::Directory => EntryKind::Directory,
      FileType::Symlink => EntryKind::Link,
      _ => EntryKind::Other,
    });
    let path = [parents, name].concat();
    let size = stat.filter(|_| kind == EntryKind::File).map_or(0, |stat| size(&stat));
    let mode = stat.map_or(0, |stat| stat.st_mode & MODE_MASK);
    Entry { kind, mode, size, path: &path }.write(&mut self.waiting);
    if kind != EntryKind::Directory {
      self.walk.pass_over(name);
    }
    self.entries += 1;
  }

  fn send(&mut self, context: &mut Context<'_>) {
    let full = self.over.is_some() || self.waiting.len() >= MAX_DATA;
    if full && context.link.has_room() {
      let count = context.link.pour(self.op, &mut self.window, &self.waiting);
      self.waiting.drain(..count);
    }
  }
}
