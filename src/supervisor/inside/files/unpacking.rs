//! A tar into the workspace.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{AtFlags, Mode, Timespec, Timestamps};
use rustix::io::Errno;

use super::super::link::Link;
use super::super::operations::{Context, Step, failed};
use super::holes::Filling;
use super::temporary::Temporary;
use super::{Workspace, failure, wide_window};
use crate::archive::{
  ArchiveError, ArchiveLimits, Entry, EntryKind, EntryPath, Event, SymlinkRule, Unpacker,
};
use crate::limits::MAX_ARCHIVE_FILE_BYTES;
use crate::supervisor::wire::{Data, Failure, ReceiveWindow, RelativePath, Reply, TarDone, TarIn};

/// Bits that a directory keeps for its owner, who must be able to fill it.
const OWNER_ACCESS: u32 = 0o700;

/// The workspace on its way in.
pub struct Unpacking {
  op: u64,
  window: ReceiveWindow,
  unpacker: Unpacker,
  max_bytes: u64,
  file: Option<(Filling, Entry)>,
  open: OpenDirectories,
  ended: bool,
  entries: u32,
}

impl Unpacking {
  /// Begins. Whoever sends the archive has vetted it; it is vetted again.
  pub fn open(op: u64, request: &TarIn, link: &mut Link) -> Self {
    let limits = ArchiveLimits {
      max_entries: request.max_entries.into(),
      max_file_bytes: MAX_ARCHIVE_FILE_BYTES,
      max_total_bytes: request.max_bytes,
      symlinks: SymlinkRule::Anywhere,
    };
    Self {
      op,
      window: wide_window(op, true, link),
      unpacker: Unpacker::new(limits),
      max_bytes: request.max_bytes,
      file: None,
      open: OpenDirectories::default(),
      ended: false,
      entries: 0,
    }
  }

  /// Bytes that came.
  pub const fn received(&self) -> u64 {
    self.window.received()
  }

  /// A piece arrived.
  pub fn take(&mut self, data: &Data<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
    let count = data.bytes.len() as u64;
    self.window.receive(data.offset, count).map_err(|_| Failure::Flow)?;
    if self.received() > self.max_bytes || self.ended {
      return Err(Failure::TooLarge);
    }
    let (file, open, entries) = (&mut self.file, &mut self.open, &mut self.entries);
    let mut stopped = None;
    let pushed = self.unpacker.push(Bytes::copy_from_slice(data.bytes), &mut |event| {
      apply(event, file, open, entries, context.workspace).map_err(|error| {
        stopped = Some(failure(error));
        ArchiveError::Cut { at: 0 }
      })
    });
    if pushed.is_err() {
      return Err(stopped.unwrap_or(Failure::BadArchive));
    }
    context.link.used(self.op, &mut self.window, count);
    Ok(())
  }

  /// The host said that there is no more.
  pub const fn end(&mut self) {
    self.ended = true;
  }

  /// Whether all of it was there.
  pub fn step(&mut self, context: &mut Context<'_>) -> Step {
    if !self.ended {
      return Step::Wait;
    }
    let unpacker = std::mem::replace(&mut self.unpacker, Unpacker::new(ArchiveLimits::default()));
    let closed = self.open.close(None, context.workspace);
    Step::Done(match unpacker.finish() {
      Ok(_) if closed.is_err() => failed(closed.err().map_or(Failure::BadArchive, failure), 0),
      Ok(_) => Reply::Tar(TarDone { bytes: self.received(), entries: self.entries, skipped: 0 }),
      Err(_) => failed(Failure::BadArchive, 0),
    })
  }
}

/// Directories whose contents are still coming, the outermost first: a directory gets its time when it is full. An archive
/// has what is in a directory right behind it; so these are as many as a path is deep.
#[derive(Default)]
struct OpenDirectories(Vec<(EntryPath, i64)>);

impl OpenDirectories {
  /// The next entry is this one, or there is none: what it is not in is full.
  fn close(&mut self, next: Option<&EntryPath>, workspace: &Workspace) -> Result<(), Errno> {
    while let Some((path, mtime)) = self.0.pop_if(|(path, _)| !next.is_some_and(|next| is_in(next, path))) {
      let directory = workspace.directory(relative(&path)?)?;
      // That is a handle only; this is a descriptor of the same directory.
      let directory = workspace.entry(std::os::fd::AsFd::as_fd(&directory), b".", super::READ_DIRECTORY)?;
      rustix::fs::futimens(directory, &time(mtime))?;
    }
    Ok(())
  }

  fn open(&mut self, entry: &Entry) {
    self.0.push((entry.path.clone(), entry.mtime));
  }
}

fn is_in(path: &EntryPath, directory: &EntryPath) -> bool {
  path.as_bytes().strip_prefix(directory.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

fn apply(
  event: Event,
  file: &mut Option<(Filling, Entry)>,
  open: &mut OpenDirectories,
  entries: &mut u32,
  workspace: &Workspace,
) -> Result<(), Errno> {
  match event {
    Event::Entry(entry) => {
      *entries += 1;
      open.close(Some(&entry.path), workspace)?;
      let is_directory = entry.kind == EntryKind::Directory && !entry.implied && !entry.path.is_root();
      if is_directory {
        open.open(&entry);
      }
      *file = make(entry, workspace)?;
      Ok(())
    }
    Event::Data(bytes) => file.as_mut().map_or(Ok(()), |(file, _)| file.write(&bytes)),
    Event::End => match file.take() {
      Some((file, entry)) => {
        let (_, name) = relative(&entry.path)?.split().ok_or(Errno::ISDIR)?;
        file.place(name, entry.mode, &time(entry.mtime))
      }
      None => Ok(()),
    },
  }
}

/// Makes what has no contents; of a file, the temporary one that gets them.
fn make(entry: Entry, workspace: &Workspace) -> Result<Option<(Filling, Entry)>, Errno> {
  let path = relative(&entry.path)?;
  if entry.kind == EntryKind::Directory {
    let made = workspace.make_directory(path)?;
    if !entry.implied && !entry.path.is_root() {
      let mode = Mode::from_raw_mode(entry.mode | OWNER_ACCESS);
      // `made` is a handle only; this is the descriptor of the same directory.
      rustix::fs::fchmod(
        workspace.entry(std::os::fd::AsFd::as_fd(&made), b".", super::READ_DIRECTORY)?,
        mode,
      )?;
    }
    return Ok(None);
  }
  let (parents, name) = path.split().ok_or(Errno::ISDIR)?;
  let directory = workspace.make_directory(parents)?;
  match &entry.kind {
    EntryKind::Symlink { target } => {
      remove(&directory, name)?;
      rustix::fs::symlinkat(target.as_slice(), &directory, name)?;
      rustix::fs::utimensat(&directory, name, &time(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)?;
      Ok(None)
    }
    EntryKind::HardLink { target } => {
      let (from, first) = relative(target)?.split().ok_or(Errno::ISDIR)?;
      let from = workspace.directory(from)?;
      remove(&directory, name)?;
      rustix::fs::linkat(&from, first, &directory, name, AtFlags::empty())?;
      Ok(None)
    }
    _ => Ok(Some((Filling::new(Temporary::new(directory)?), entry))),
  }
}

fn remove(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
  match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
    Err(Errno::NOENT) => Ok(()),
    removed => removed,
  }
}

fn relative(path: &EntryPath) -> Result<RelativePath<'_>, Errno> {
  RelativePath::new(path.as_bytes()).map_err(|_| Errno::INVAL)
}

fn time(seconds: i64) -> Timestamps {
  let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
  Timestamps { last_access: time, last_modification: time }
}
