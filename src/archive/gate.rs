//! The rules and budgets of a whole archive: which entries may stand beside each other, and how many.

use std::collections::HashMap;

use super::entry::{Entry, EntryKind, EntryPath, SymlinkRule};
use super::error::{ArchiveError, Refusal};
use crate::limits::{MAX_ARCHIVE_BYTES, MAX_ARCHIVE_ENTRIES, MAX_ARCHIVE_FILE_BYTES};

/// Budgets of one archive. Each is checked before the entry that would pass it is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
  /// Entries of every type, directories that are only implied included.
  pub max_entries: u64,
  /// Bytes of one file; never more than 8 GiB − 1.
  pub max_file_bytes: u64,
  /// Bytes of all files together.
  pub max_total_bytes: u64,
  /// Where symbolic links may lead.
  pub symlinks: SymlinkRule,
}

impl Default for ArchiveLimits {
  /// The largest that this package accepts anywhere.
  fn default() -> Self {
    Self {
      max_entries: MAX_ARCHIVE_ENTRIES,
      max_file_bytes: MAX_ARCHIVE_BYTES,
      max_total_bytes: MAX_ARCHIVE_BYTES,
      symlinks: SymlinkRule::Inside,
    }
  }
}

/// Vets the entries of one archive in their order.
#[derive(Debug)]
pub struct Gate {
  limits: ArchiveLimits,
  names: Names,
  entries: u64,
  bytes: u64,
}

impl Gate {
  /// A gate that nothing has passed.
  pub fn new(limits: ArchiveLimits) -> Self {
    let max_file_bytes = limits.max_file_bytes.min(MAX_ARCHIVE_FILE_BYTES);
    Self { limits: ArchiveLimits { max_file_bytes, ..limits }, names: Names::default(), entries: 0, bytes: 0 }
  }

  /// Entries let through so far, implied directories included.
  pub const fn entries(&self) -> u64 {
    self.entries
  }

  /// Bytes of the files let through so far.
  pub const fn bytes(&self) -> u64 {
    self.bytes
  }

  /// Lets `entry` through or refuses it. Returns the directories above it that no entry has named before, outermost
  /// first: whoever writes the entry writes them too.
  pub fn admit(&mut self, entry: &Entry) -> Result<Vec<EntryPath>, ArchiveError> {
    let name = entry.path.as_bytes();
    self.check_alone(entry).map_err(|why| ArchiveError::refused(name, why))?;
    self.check_size(entry)?;
    self.count(name, 1)?;
    let fresh = self.names.insert(entry).map_err(|why| ArchiveError::refused(name, why))?;
    self.count(name, fresh as u64)?;
    self.bytes = self.bytes.saturating_add(entry.size);
    let parents = entry.path.parents();
    let known = entry.path.components().count().saturating_sub(1).saturating_sub(fresh);
    Ok(if fresh == 0 { Vec::new() } else { parents.skip(known).collect() })
  }

  /// Counts `more` entries, or things that cost as much as one.
  pub fn count(&mut self, name: &[u8], more: u64) -> Result<(), ArchiveError> {
    self.entries = self.entries.saturating_add(more);
    if self.entries > self.limits.max_entries {
      return Err(ArchiveError::limit(name, "entries", self.limits.max_entries));
    }
    Ok(())
  }

  fn check_alone(&self, entry: &Entry) -> Result<(), Refusal> {
    if entry.path.is_root() && entry.kind != EntryKind::Directory {
      return Err(Refusal::Root);
    }
    if entry.size > 0 && entry.kind != EntryKind::File {
      return Err(Refusal::Contents);
    }
    match &entry.kind {
      EntryKind::Symlink { target } => self.limits.symlinks.check(&entry.path, target),
      // To itself, it would take away what it leads to.
      EntryKind::HardLink { target } if *target == entry.path || !self.names.is_file(target) => {
        Err(Refusal::HardLink)
      }
      _ => Ok(()),
    }
  }

  fn check_size(&self, entry: &Entry) -> Result<(), ArchiveError> {
    let name = entry.path.as_bytes();
    if entry.size > self.limits.max_file_bytes {
      return Err(ArchiveError::limit(name, "bytes in one file", self.limits.max_file_bytes));
    }
    if self.bytes.saturating_add(entry.size) > self.limits.max_total_bytes {
      return Err(ArchiveError::limit(name, "bytes in all files", self.limits.max_total_bytes));
    }
    Ok(())
  }
}

/// What stands at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
  Directory,
  File,
  Symlink,
  HardLink,
}

impl From<&EntryKind> for Place {
  fn from(kind: &EntryKind) -> Self {
    match kind {
      EntryKind::File => Self::File,
      EntryKind::Directory => Self::Directory,
      EntryKind::Symlink { .. } => Self::Symlink,
      EntryKind::HardLink { .. } => Self::HardLink,
    }
  }
}

/// The names so far, as a tree: memory grows by components (255 bytes at most), not by whole paths. Names are compared
/// byte by byte, as the container's file system does; there is no folding of case or Unicode that could make two one.
#[derive(Debug)]
struct Names(Vec<Node>);

#[derive(Debug)]
struct Node {
  place: Place,
  children: HashMap<Box<[u8]>, usize>,
}

impl Default for Names {
  fn default() -> Self {
    Self(vec![Node { place: Place::Directory, children: HashMap::new() }])
  }
}

impl Names {
  /// Adds an entry; how many directories above it are new.
  fn insert(&mut self, entry: &Entry) -> Result<usize, Refusal> {
    let place = Place::from(&entry.kind);
    let mut parts = entry.path.components().peekable();
    let mut at = 0;
    let mut fresh = 0;
    while let Some(part) = parts.next() {
      let wanted = if parts.peek().is_some() { Place::Directory } else { place };
      at = match self.child(at, part) {
        Some((_, found)) if found != wanted => {
          return Err(if parts.peek().is_some() { Refusal::BelowOther } else { Refusal::OtherType });
        }
        Some((child, _)) => child,
        None => {
          fresh += usize::from(parts.peek().is_some());
          self.add(at, part, wanted)
        }
      };
    }
    Ok(fresh)
  }

  fn is_file(&self, path: &EntryPath) -> bool {
    let mut at = (0, Place::Directory);
    for part in path.components() {
      match self.child(at.0, part) {
        Some(child) => at = child,
        None => return false,
      }
    }
    matches!(at.1, Place::File | Place::HardLink)
  }

  fn child(&self, at: usize, part: &[u8]) -> Option<(usize, Place)> {
    let child = *self.0.get(at)?.children.get(part)?;
    Some((child, self.0.get(child)?.place))
  }

  fn add(&mut self, at: usize, part: &[u8], place: Place) -> usize {
    let child = self.0.len();
    self.0.push(Node { place, children: HashMap::new() });
    if let Some(node) = self.0.get_mut(at) {
      node.children.insert(part.into(), child);
    }
    child
  }
}

#[cfg(test)]
mod tests;
