//! Takes one file out of an archive that the container's own `tar` made. That program may be the attacker: it may send
//! another file, a link, too much, nothing, or never stop.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use super::TarStream;
use super::entry::{EntryKind, EntryPath, SymlinkRule};
use super::error::{ArchiveError, Refusal};
use super::gate::ArchiveLimits;
use super::unpack::{Event, Unpacker};
use crate::error::{ErrorCode, Result};
use crate::limits::MAX_PATH_DEPTH;

/// The file that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneFile {
  /// All of it.
  pub contents: Bytes,
  /// Permission bits, at most 0o777.
  pub mode: u32,
}

impl OneFile {
  /// Bytes of contents.
  pub const fn size(&self) -> usize {
    self.contents.len()
  }
}

/// Reads an archive that must hold exactly one entry: the regular file that was asked for.
#[derive(Debug)]
pub struct SingleFile {
  reader: Unpacker,
  found: Found,
}

#[derive(Debug)]
struct Found {
  wanted: EntryPath,
  mode: Option<u32>,
  contents: BytesMut,
}

impl SingleFile {
  /// Expects the file `wanted` of at most `max_bytes`.
  pub fn new(wanted: EntryPath, max_bytes: u64) -> Self {
    let limits = ArchiveLimits {
      // The file and the directories above it.
      max_entries: MAX_PATH_DEPTH as u64,
      max_file_bytes: max_bytes,
      max_total_bytes: max_bytes,
      symlinks: SymlinkRule::Inside,
    };
    let found = Found { wanted, mode: None, contents: BytesMut::new() };
    Self { reader: Unpacker::new(limits), found }
  }

  /// Reads the next bytes of the archive.
  pub fn push(&mut self, chunk: Bytes) -> Result<(), ArchiveError> {
    let found = &mut self.found;
    self.reader.push(chunk, &mut |event| found.take(event))
  }

  /// The file, now that the archive ended.
  pub fn finish(self) -> Result<OneFile, ArchiveError> {
    let Self { reader, found } = self;
    reader.finish()?;
    match found.mode {
      Some(mode) => Ok(OneFile { contents: found.contents.freeze(), mode }),
      None => Err(ArchiveError::Missing { name: found.wanted.to_string() }),
    }
  }
}

impl Found {
  fn take(&mut self, event: Event) -> Result<(), ArchiveError> {
    match event {
      Event::Entry(entry) if entry.implied => {}
      Event::Entry(entry) => {
        if entry.path != self.wanted || self.mode.is_some() {
          return Err(ArchiveError::Unasked { name: entry.path.to_string() });
        }
        if entry.kind != EntryKind::File {
          return Err(ArchiveError::refused(entry.path.as_bytes(), Refusal::NotFile));
        }
        self.mode = Some(entry.mode);
      }
      Event::Data(data) => self.contents.extend_from_slice(&data),
      Event::End => {}
    }
    Ok(())
  }
}

/// Reads the file `wanted` of at most `max_bytes` out of `archive`. An archive that is refused is an error with `code`,
/// one that is too large is `LIMIT`.
pub async fn single_file(
  mut archive: TarStream,
  wanted: EntryPath,
  max_bytes: u64,
  code: ErrorCode,
) -> Result<OneFile> {
  let mut reader = SingleFile::new(wanted, max_bytes);
  while let Some(chunk) = archive.next().await {
    reader.push(chunk?).map_err(|error| error.into_error(code))?;
  }
  reader.finish().map_err(|error| error.into_error(code))
}

#[cfg(test)]
mod tests;
