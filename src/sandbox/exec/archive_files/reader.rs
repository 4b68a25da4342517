//! Reads an archive from the container entry by entry, and believes nothing of it.

use bytes::Bytes;
use futures_util::StreamExt;

use super::Site;
use crate::archive::{
  ArchiveError, ArchiveLimits, Entry, EntryKind, EntryPath, Event, Refusal, SymlinkRule, Unpacker,
};
use crate::docker::ByteStream;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::limits::{MAX_ARCHIVE_BYTES, MAX_ARCHIVE_ENTRIES};
use crate::workspace::path::WorkspacePath;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
  /// A regular file, or another name of one.
  File,
  /// A directory.
  Directory,
  /// A symbolic link.
  Symlink,
  /// A pipe, a socket, a device.
  Other,
}

impl From<&EntryKind> for Kind {
  fn from(kind: &EntryKind) -> Self {
    match kind {
      EntryKind::File | EntryKind::HardLink { .. } => Self::File,
      EntryKind::Directory => Self::Directory,
      EntryKind::Symlink { .. } => Self::Symlink,
    }
  }
}

/// An archive that is being read.
pub struct Reader {
  stream: ByteStream,
  unpacker: Unpacker,
  bytes: u64,
}

impl Reader {
  /// Asks for the archive of `path`. `NOT_FOUND` may come now or when it is read.
  pub async fn open(site: &Site<'_>, path: &WorkspacePath) -> Result<Self> {
    let stream = site.engine.get_archive(site.container, &path.absolute(), MAX_ARCHIVE_BYTES).await?;
    let limits = ArchiveLimits {
      max_entries: MAX_ARCHIVE_ENTRIES,
      max_file_bytes: MAX_ARCHIVE_BYTES,
      max_total_bytes: MAX_ARCHIVE_BYTES,
      // They are looked at, never followed and never written.
      symlinks: SymlinkRule::Anywhere,
    };
    Ok(Self { stream, unpacker: Unpacker::new(limits), bytes: 0 })
  }

  /// Reads the next piece; false at the end of the stream. The engine's error is the outer one.
  pub async fn step(
    &mut self,
    sink: &mut impl FnMut(Event) -> Result<(), ArchiveError>,
  ) -> Result<Result<bool, ArchiveError>> {
    let Some(piece) = self.stream.next().await else { return Ok(Ok(false)) };
    let piece: Bytes = piece?;
    // A user's engine may not keep to the bound that it was given.
    self.bytes = self.bytes.saturating_add(piece.len() as u64);
    if self.bytes > MAX_ARCHIVE_BYTES {
      return Err(fail!(
        Limit,
        "The archive from the container is longer than {MAX_ARCHIVE_BYTES} bytes; ask for a smaller part."
      ));
    }
    Ok(self.unpacker.push(piece, sink).map(|()| true))
  }

  /// Checks that the archive had its end.
  pub fn finish(self) -> Result<(), ArchiveError> {
    self.unpacker.finish().map(drop)
  }
}

/// The name under which an archive of `path` holds it.
pub fn archive_name(path: &WorkspacePath) -> String {
  let absolute = path.absolute();
  absolute.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The first component of an entry's path, and the rest of it.
pub fn below<'e>(entry: &'e EntryPath, name: &str) -> Result<Option<&'e [u8]>, ArchiveError> {
  let rest = entry.as_bytes().strip_prefix(name.as_bytes());
  match rest.map(|rest| (rest, rest.strip_prefix(b"/"))) {
    Some(([], _)) => Ok(None),
    Some((_, Some(rest))) => Ok(Some(rest)),
    _ => Err(unasked(entry)),
  }
}

/// The error for an entry that nobody asked for.
pub fn unasked(entry: &EntryPath) -> ArchiveError {
  ArchiveError::Unasked { name: entry.to_string() }
}

/// What is at `path`, by the first header of its archive; `None` where nothing is.
pub async fn head(site: &Site<'_>, path: &WorkspacePath) -> Result<Option<Kind>> {
  match first_entry(site, path).await {
    Ok(Ok(kind)) => Ok(Some(kind)),
    Ok(Err(ArchiveError::Refused { why: Refusal::Type(_), .. })) => Ok(Some(Kind::Other)),
    Ok(Err(error)) => Err(hostile(site, error)),
    Err(error) if error.is_not_found() => Ok(None),
    Err(error) => Err(site.engine_failed(error)),
  }
}

async fn first_entry(site: &Site<'_>, path: &WorkspacePath) -> Result<Result<Kind, ArchiveError>> {
  let name = archive_name(path);
  let mut reader = Reader::open(site, path).await?;
  let mut first: Option<Entry> = None;
  loop {
    let mut sink = |event| {
      if let Event::Entry(entry) = event {
        first.get_or_insert(entry);
      }
      Ok(())
    };
    let step = reader.step(&mut sink).await?;
    // What follows the first entry is another reader's matter.
    if let Some(entry) = &first {
      return Ok(match entry.path.as_bytes() == name.as_bytes() {
        true => Ok(Kind::from(&entry.kind)),
        false => Err(unasked(&entry.path)),
      });
    }
    match step {
      Ok(true) => {}
      Ok(false) => return Ok(Err(ArchiveError::Missing { name: format!("{name:?}") })),
      Err(error) => return Ok(Err(error)),
    }
  }
}

/// The error for an archive that no honest `tar` would have made, or that is too large.
pub fn hostile(site: &Site<'_>, error: ArchiveError) -> Error {
  error.into_error(ErrorCode::DockerApi).context(format!("{} by the container's tar failed", site.what()))
}
