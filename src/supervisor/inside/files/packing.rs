//! A tar of the workspace.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use bytes::{Buf, Bytes};
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::super::operations::{Context, Step, failed};
use super::temporary::Temporary;
use super::walk::{Walk, Walked};
use super::{MODE_MASK, force, refused, size};
use crate::archive::write::Writer;
use crate::archive::{Entry, EntryKind, EntryPath, Owner};
use crate::limits::{MAX_ARCHIVE_FILE_BYTES, MAX_PATH_DEPTH};
use crate::supervisor::wire::{
  Failure, MAX_DATA, RelativePath, Reply, SendWindow, Stream, TarDone, TarOut, ToHost,
};

/// Pieces of the walk, or of files, in one turn.
const STEPS_A_TURN: usize = 128;

/// The workspace on its way out.
pub struct Packing {
  op: u64,
  walk: Walk,
  writer: Writer,
  file: Option<Body>,
  /// Files with more than one name that are in the tar already.
  links: HashMap<(u64, u64), EntryPath>,
  waiting: Bytes,
  window: SendWindow,
  max_entries: u32,
  /// Bytes that may still go into it.
  budget: u64,
  done: TarDone,
  over: bool,
}

struct Body {
  fd: OwnedFd,
  left: u64,
}

impl Packing {
  /// Begins.
  pub fn open(op: u64, request: &TarOut, context: &mut Context<'_>) -> Result<Self, Reply> {
    let depth = MAX_PATH_DEPTH as u32 + 1;
    let walk = Walk::new(context.workspace, RelativePath::WORKSPACE, depth).map_err(refused)?;
    let owner = Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
    Ok(Self {
      op,
      walk: walk.forced(),
      writer: Writer::new(owner),
      file: None,
      links: HashMap::new(),
      waiting: Bytes::new(),
      window: SendWindow::new(request.window.into()),
      max_entries: request.max_entries,
      budget: request.max_bytes,
      done: TarDone { bytes: 0, entries: 0, skipped: 0 },
      over: false,
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
      if self.waiting.is_empty() {
        self.waiting = self.writer.pop().unwrap_or_default();
      }
      if self.over || !self.waiting.is_empty() {
        break;
      }
      if let Err(reply) = self.advance(context) {
        return Step::Done(reply);
      }
    }
    if self.waiting.is_empty() {
      return if self.over { self.finish(context) } else { Step::Again };
    }
    self.send(context)
  }

  fn advance(&mut self, context: &mut Context<'_>) -> Result<(), Reply> {
    if self.file.is_some() {
      return self.copy().map_err(refused);
    }
    match self.walk.step(context.workspace).map_err(refused)? {
      Walked::Busy => Ok(()),
      Walked::Entry(name) => self.add(&name, context),
      Walked::End => {
        self.writer.end_archive();
        self.over = true;
        Ok(())
      }
    }
  }

  // An entry that is gone or closed is left out and counted; it must not end the whole.
  fn add(&mut self, name: &[u8], context: &mut Context<'_>) -> Result<(), Reply> {
    let described = self.describe(name, context);
    if !matches!(&described, Ok(Some((entry, _))) if entry.kind == EntryKind::Directory) {
      self.walk.pass_over(name);
    }
    match described {
      Ok(Some((entry, body))) => {
        self.done.entries += 1;
        let cost = entry.size.saturating_add(3 * 512);
        // A file that no archive of ours may hold is refused, as one beyond the budget is: a snapshot that lacks it would
        // pass for whole.
        let is_giant = entry.size > MAX_ARCHIVE_FILE_BYTES;
        if is_giant || self.done.entries > self.max_entries || cost > self.budget {
          return Err(failed(Failure::TooLarge, 0));
        }
        self.budget -= cost;
        self.writer.entry(&entry);
        self.file = body.map(|fd| Body { fd, left: entry.size });
        if self.file.is_none() {
          self.writer.end_entry();
        }
      }
      Ok(None) => self.done.skipped += 1,
      Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return Err(refused(error)),
      Err(_) => self.done.skipped += 1,
    }
    Ok(())
  }

  fn describe(
    &mut self,
    name: &[u8],
    context: &Context<'_>,
  ) -> Result<Option<(Entry, Option<OwnedFd>)>, Errno> {
    let Some((directory, parents)) = self.walk.directory() else { return Ok(None) };
    let path = EntryPath::parse(&[parents, name].concat()).map_err(|_| Errno::FBIG)?;
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let (kind, stat, body) = match FileType::from_raw_mode(stat.st_mode) {
      FileType::Directory => (EntryKind::Directory, stat, None),
      FileType::Symlink => {
        let target = rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes();
        (EntryKind::Symlink { target }, stat, None)
      }
      FileType::RegularFile if !Temporary::is_name(name) => {
        let (fd, _) = force(context.workspace, directory, name, OFlags::RDONLY)?;
        let stat = rustix::fs::fstat(&fd)?;
        match self.first_name(&path, &stat) {
          _ if !FileType::from_raw_mode(stat.st_mode).is_file() => return Ok(None),
          Some(target) => (EntryKind::HardLink { target }, stat, None),
          None => (EntryKind::File, stat, Some(fd)),
        }
      }
      _ => return Ok(None),
    };
    let size = if body.is_some() { size(&stat) } else { 0 };
    let mode = stat.st_mode & MODE_MASK;
    Ok(Some((Entry { path, kind, mode, mtime: stat.st_mtime, size, implied: false }, body)))
  }

  /// The name under which a file is in the tar already.
  fn first_name(&mut self, path: &EntryPath, stat: &Stat) -> Option<EntryPath> {
    if stat.st_nlink < 2 {
      return None;
    }
    match self.links.entry((stat.st_dev, stat.st_ino)) {
      std::collections::hash_map::Entry::Occupied(first) => Some(first.get().clone()),
      std::collections::hash_map::Entry::Vacant(free) => {
        free.insert(path.clone());
        None
      }
    }
  }

  // The header has said how long it is: what was cut off meanwhile becomes zeros, what was added stays out.
  fn copy(&mut self) -> Result<(), Errno> {
    let Some(body) = &mut self.file else { return Ok(()) };
    let most = usize::try_from(body.left).unwrap_or(MAX_DATA).min(MAX_DATA);
    let mut contents = vec![0; most];
    let count = match rustix::io::read(&body.fd, &mut contents)? {
      0 => most,
      count => count,
    };
    body.left -= count as u64;
    contents.truncate(count);
    let is_over = body.left == 0;
    self.writer.data(contents.into());
    if is_over {
      self.writer.end_entry();
      self.file = None;
    }
    Ok(())
  }

  fn send(&mut self, context: &mut Context<'_>) -> Step {
    if self.waiting.is_empty() || self.window.room() == 0 {
      return Step::Wait;
    }
    if context.link.has_room() {
      let count = context.link.pour(self.op, &mut self.window, &self.waiting);
      self.waiting.advance(count);
      self.done.bytes += count as u64;
    }
    Step::Again
  }

  fn finish(&mut self, context: &mut Context<'_>) -> Step {
    context.link.say(self.op, &ToHost::End(Stream::Output));
    Step::Done(Reply::Tar(self.done))
  }
}
