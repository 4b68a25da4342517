//! Listing a directory by the headers of its archive.

use std::collections::{BTreeMap, HashMap};

use super::Site;
use super::reader::{Kind, Reader, archive_name, below, hostile};
use crate::archive::{ArchiveError, Entry, EntryKind, EntryPath, Event, Refusal};
use crate::cancel::Cancel;
use crate::docker::Engine;
use crate::error::{Error, Result, fail};
use crate::sandbox::{EntryType, ListEntry, Listing};
use crate::workspace::path::WorkspacePath;

/// Lists a directory, `depth` levels deep (1: its own entries), at most `limit` entries, the first ones by path.
///
/// `NOT_FOUND`; `PATH_INVALID` for a link on the way or in its place and for what is no directory; `UNSUPPORTED` where a
/// pipe, socket or device is in it, since no archive of such is accepted; `LIMIT` where the archive of the directory,
/// contents included, is longer than 256 MiB or holds more than 100,000 entries; `DOCKER_API` for an archive that is
/// cut or holds something else.
pub async fn list(
  engine: &dyn Engine,
  container: &str,
  path: &WorkspacePath,
  depth: u32,
  limit: usize,
  cancel: &Cancel,
) -> Result<Listing> {
  let site = Site { engine, container, path, verb: "list" };
  site
    .guard(cancel, async {
      site.check_plain().await?;
      let mut listed = Collected {
        name: archive_name(path),
        path,
        depth,
        limit,
        top: None,
        entries: BTreeMap::new(),
        seen: 0,
        sizes: HashMap::new(),
        truncated: false,
      };
      match listed.read(&site).await {
        Ok(Ok(())) => listed.into_listing(&site),
        Ok(Err(error)) => Err(listed.explain(&site, error)),
        Err(error) if error.is_not_found() => Err(site.missing()),
        Err(error) => Err(site.engine_failed(error)),
      }
    })
    .await
}

struct Collected<'a> {
  name: String,
  path: &'a WorkspacePath,
  depth: u32,
  limit: usize,
  /// What the path itself is.
  top: Option<Kind>,
  /// By path, and by order of coming where two names became one path.
  entries: BTreeMap<(String, u64), ListEntry>,
  seen: u64,
  /// Of the files so far: an archive says a file's size once, under its first name.
  sizes: HashMap<EntryPath, u64>,
  truncated: bool,
}

impl Collected<'_> {
  async fn read(&mut self, site: &Site<'_>) -> Result<Result<(), ArchiveError>> {
    let mut reader = Reader::open(site, site.path).await?;
    loop {
      let mut sink = |event| match event {
        Event::Entry(entry) => self.take(&entry),
        Event::Data(_) | Event::End => Ok(()),
      };
      match reader.step(&mut sink).await? {
        Ok(true) => {}
        Ok(false) => return Ok(reader.finish()),
        Err(error) => return Ok(Err(error)),
      }
    }
  }

  fn take(&mut self, entry: &Entry) -> Result<(), ArchiveError> {
    let kind = Kind::from(&entry.kind);
    let Some(rest) = below(&entry.path, &self.name)? else {
      self.top.get_or_insert(kind);
      // Only a directory is followed by more.
      return if kind == Kind::Directory { Ok(()) } else { Err(super::reader::unasked(&entry.path)) };
    };
    let size = self.size_of(entry);
    let level = rest.split(|byte| *byte == b'/').count();
    if level > usize::try_from(self.depth).unwrap_or(usize::MAX) {
      return Ok(());
    }
    let rest = String::from_utf8_lossy(rest);
    let path = if self.path.is_root() { rest.into_owned() } else { format!("{}/{rest}", self.path.as_str()) };
    let listed = ListEntry { path: path.clone(), kind: kind.into(), size, mode: entry.mode };
    self.seen = self.seen.saturating_add(1);
    self.entries.insert((path, self.seen), listed);
    // Memory is bounded by what is asked for, not by what the container holds.
    if self.entries.len() > self.limit {
      self.entries.pop_last();
      self.truncated = true;
    }
    Ok(())
  }

  fn size_of(&mut self, entry: &Entry) -> u64 {
    match &entry.kind {
      EntryKind::File => {
        self.sizes.insert(entry.path.clone(), entry.size);
        entry.size
      }
      EntryKind::HardLink { target } => self.sizes.get(target).copied().unwrap_or(entry.size),
      EntryKind::Directory | EntryKind::Symlink { .. } => 0,
    }
  }

  fn explain(&self, site: &Site<'_>, error: ArchiveError) -> Error {
    match (self.top, &error) {
      (Some(Kind::Symlink), _) => site.link(),
      (Some(Kind::File | Kind::Other), _) | (None, ArchiveError::Refused { why: Refusal::Type(_), .. }) => {
        site.not_a_directory()
      }
      (Some(_), ArchiveError::Refused { why: Refusal::Type(_), .. }) => {
        fail!(Unsupported, "Cannot list {}: {error}. List a directory without it, or remove it.", site.path)
      }
      _ => hostile(site, error),
    }
  }

  fn into_listing(self, site: &Site<'_>) -> Result<Listing> {
    if self.top.is_none() {
      return Err(hostile(site, ArchiveError::Missing { name: format!("{:?}", self.name) }));
    }
    Ok(Listing { entries: self.entries.into_values().collect(), truncated: self.truncated })
  }
}

impl From<Kind> for EntryType {
  fn from(kind: Kind) -> Self {
    match kind {
      Kind::File => Self::File,
      Kind::Directory => Self::Directory,
      Kind::Symlink => Self::Symlink,
      Kind::Other => Self::Other,
    }
  }
}
