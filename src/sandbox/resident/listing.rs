//! What a listing brought: names from inside the container, which reach the application only as paths beneath the
//! directory that was listed.

use super::unexpected;
use crate::error::Result;
use crate::sandbox::{EntryType, ListEntry};
use crate::supervisor::wire::{Entry, EntryKind, RelativePath};
use crate::workspace::path::WorkspacePath;

/// The entries of the listing of `directory`, at most `limit` and `depth` levels deep. `CONTAINER_LOST`: no supervisor of
/// ours sends such a list. It checks names and keeps the order itself, since a name that is no path here is one for
/// whoever joins it to a path of the host.
pub fn parse(
  mut bytes: &[u8],
  directory: &WorkspacePath,
  depth: u32,
  limit: usize,
) -> Result<Vec<ListEntry>> {
  let mut entries = Vec::new();
  let mut last: &[u8] = b"";
  while !bytes.is_empty() {
    let (entry, length) = match Entry::read(bytes) {
      Ok(Some(read)) if entries.len() < limit => read,
      _ => return Err(unexpected("a listing")),
    };
    if entry.path <= last || !is_beneath(entry.path, directory.as_str().as_bytes(), depth) {
      return Err(unexpected("a listing"));
    }
    entries.push(listed(&entry));
    last = entry.path;
    bytes = bytes.get(length..).unwrap_or_default();
  }
  Ok(entries)
}

fn is_beneath(path: &[u8], directory: &[u8], depth: u32) -> bool {
  let beneath = match directory {
    b"" => Some(path),
    directory => path.strip_prefix(directory).and_then(|rest| rest.strip_prefix(b"/")),
  };
  let levels = beneath.map(|rest| rest.split(|byte| *byte == b'/').count());
  RelativePath::new(path).is_ok() && levels.is_some_and(|levels| levels <= depth as usize)
}

fn listed(entry: &Entry<'_>) -> ListEntry {
  let kind = match entry.kind {
    EntryKind::File => EntryType::File,
    EntryKind::Directory => EntryType::Directory,
    EntryKind::Link => EntryType::Symlink,
    EntryKind::Other | EntryKind::Unknown => EntryType::Other,
  };
  let path = String::from_utf8_lossy(entry.path).into_owned();
  ListEntry { path, kind, size: entry.size, mode: entry.mode }
}
