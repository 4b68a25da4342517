//! Makes an archive of ours from what it shall hold.

use bytes::Bytes;
use bytes::BytesMut;

use super::entry::{Entry, EntryKind, EntryPath, MODE_MASK};
use super::error::ArchiveError;
use super::gate::{ArchiveLimits, Gate};
use super::write::Writer;
use super::{BLOCK, TarStream, padding};
use crate::workspace::path::WorkspacePath;

/// Mode of a directory that an entry needs and nobody gave.
const PARENT_MODE: u32 = 0o755;

/// Who owns every entry. Numeric only: names of users would win over numbers in some programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
  /// User id.
  pub uid: u32,
  /// Group id.
  pub gid: u32,
}

/// Something to put into an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackEntry {
  /// A directory; those above it need not be given.
  Directory {
    /// Where.
    path: EntryPath,
    /// Permission bits; others are dropped.
    mode: u32,
  },
  /// A regular file.
  File {
    /// Where.
    path: EntryPath,
    /// What.
    contents: Bytes,
    /// Permission bits; others are dropped.
    mode: u32,
  },
  /// A symbolic link.
  Symlink {
    /// Where.
    path: EntryPath,
    /// Where it leads; see [`super::SymlinkRule::check`].
    target: Vec<u8>,
  },
}

impl PackEntry {
  /// A directory of the workspace.
  pub fn directory(path: &WorkspacePath, mode: u32) -> Self {
    Self::Directory { path: path.into(), mode }
  }

  /// A file of the workspace.
  pub fn file(path: &WorkspacePath, contents: Bytes, mode: u32) -> Self {
    Self::File { path: path.into(), contents, mode }
  }

  /// Where it goes.
  pub const fn path(&self) -> &EntryPath {
    match self {
      Self::Directory { path, .. } | Self::File { path, .. } | Self::Symlink { path, .. } => path,
    }
  }

  fn split(self, mtime: i64) -> (Entry, Bytes) {
    let (path, kind, mode, contents) = match self {
      Self::Directory { path, mode } => (path, EntryKind::Directory, mode, Bytes::new()),
      Self::File { path, contents, mode } => (path, EntryKind::File, mode, contents),
      Self::Symlink { path, target } => (path, EntryKind::Symlink { target }, MODE_MASK, Bytes::new()),
    };
    let size = contents.len() as u64;
    (Entry { path, kind, mode: mode & MODE_MASK, mtime, size, implied: false }, contents)
  }
}

/// What all entries have in common, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackOptions {
  /// Who owns them.
  pub owner: Owner,
  /// Their time, seconds since 1970.
  pub mtime: i64,
  /// Their budgets.
  pub limits: ArchiveLimits,
}

/// The archive as one buffer. Directories above an entry are added where nobody gave them, owned like the rest: a
/// program that has to invent them may give them to root. Errors as for an archive that is read: the same rules hold.
pub fn pack(entries: Vec<PackEntry>, options: &PackOptions) -> Result<Bytes, ArchiveError> {
  let packer = Packer::new(entries, options)?;
  let contents: u64 = packer.plan.as_slice().iter().map(|(entry, _)| entry.size + padding(entry.size)).sum();
  let headers = (packer.plan.as_slice().len() + 2) * BLOCK;
  let mut archive = BytesMut::with_capacity(headers + usize::try_from(contents).unwrap_or_default());
  packer.for_each(|chunk| archive.extend_from_slice(&chunk));
  Ok(archive.freeze())
}

/// The archive piece by piece, made as it is read; contents are not copied. All entries are checked before the first
/// piece. Errors as for [`pack`].
pub fn pack_stream(entries: Vec<PackEntry>, options: &PackOptions) -> Result<TarStream, ArchiveError> {
  let packer = Packer::new(entries, options)?;
  Ok(Box::pin(futures_util::stream::iter(packer.map(Ok))))
}

struct Packer {
  plan: std::vec::IntoIter<(Entry, Bytes)>,
  writer: Writer,
  ended: bool,
}

impl Packer {
  fn new(entries: Vec<PackEntry>, options: &PackOptions) -> Result<Self, ArchiveError> {
    let mut gate = Gate::new(options.limits);
    let mut plan = Vec::new();
    for entry in entries {
      let (entry, contents) = entry.split(options.mtime);
      for path in gate.admit(&entry)? {
        plan.push(PackEntry::Directory { path, mode: PARENT_MODE }.split(options.mtime));
      }
      plan.push((entry, contents));
    }
    Ok(Self { plan: plan.into_iter(), writer: Writer::new(options.owner), ended: false })
  }
}

impl Iterator for Packer {
  type Item = Bytes;

  fn next(&mut self) -> Option<Bytes> {
    loop {
      if let Some(chunk) = self.writer.pop() {
        return Some(chunk);
      }
      match self.plan.next() {
        Some((entry, contents)) => {
          self.writer.entry(&entry);
          self.writer.data(contents);
          self.writer.end_entry();
        }
        None if self.ended => return None,
        None => {
          self.writer.end_archive();
          self.ended = true;
        }
      }
    }
  }
}

#[cfg(test)]
mod tests;
