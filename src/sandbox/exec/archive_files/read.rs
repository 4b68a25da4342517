//! Reading a part of a file.

use bytes::{Bytes, BytesMut};

use super::Site;
use super::reader::{Kind, Reader, archive_name, hostile, unasked};
use crate::archive::{ArchiveError, Event, Refusal};
use crate::cancel::Cancel;
use crate::docker::Engine;
use crate::error::{Error, Result};
use crate::sandbox::FileRange;
use crate::workspace::path::WorkspacePath;

/// Reads `limit` bytes from `offset` of a regular file. The whole file passes, the part is kept.
///
/// `NOT_FOUND`; `PATH_INVALID` for a link on the way or in its place, a directory, a pipe; `LIMIT` for a file of more
/// than 256 MiB; `DOCKER_API` for an archive that is cut, holds something else, or nothing.
pub async fn read_file(
  engine: &dyn Engine,
  container: &str,
  path: &WorkspacePath,
  offset: u64,
  limit: u64,
  cancel: &Cancel,
) -> Result<FileRange> {
  let site = Site { engine, container, path, verb: "read" };
  if path.is_root() {
    return Err(site.directory());
  }
  site
    .guard(cancel, async {
      site.check_plain().await?;
      let mut wanted =
        Wanted { name: archive_name(path), offset, limit, at: 0, found: None, data: BytesMut::new() };
      match wanted.read(&site).await {
        Ok(Ok(())) => wanted.into_range(&site),
        Ok(Err(error)) => Err(wanted.explain(&site, error)),
        Err(error) if error.is_not_found() => Err(site.missing()),
        Err(error) => Err(site.engine_failed(error)),
      }
    })
    .await
}

struct Wanted {
  name: String,
  offset: u64,
  limit: u64,
  /// Where in the file the next piece begins.
  at: u64,
  found: Option<(Kind, u64, u32)>,
  data: BytesMut,
}

impl Wanted {
  async fn read(&mut self, site: &Site<'_>) -> Result<Result<(), ArchiveError>> {
    let mut reader = Reader::open(site, site.path).await?;
    loop {
      match reader.step(&mut |event| self.take(event)).await? {
        Ok(true) => {}
        Ok(false) => return Ok(reader.finish()),
        Err(error) => return Ok(Err(error)),
      }
    }
  }

  fn take(&mut self, event: Event) -> Result<(), ArchiveError> {
    match event {
      Event::Entry(entry) => {
        if entry.path.as_bytes() != self.name.as_bytes() || self.found.is_some() {
          return Err(unasked(&entry.path));
        }
        let kind = Kind::from(&entry.kind);
        self.found = Some((kind, entry.size, entry.mode));
        // A directory would go on with all that is in it.
        if kind == Kind::File { Ok(()) } else { Err(unasked(&entry.path)) }
      }
      Event::Data(piece) => {
        self.keep(&piece);
        Ok(())
      }
      Event::End => Ok(()),
    }
  }

  fn keep(&mut self, piece: &Bytes) {
    let length = piece.len() as u64;
    let end = self.offset.saturating_add(self.limit);
    let from = self.offset.saturating_sub(self.at).min(length);
    let to = end.saturating_sub(self.at).min(length);
    self.at = self.at.saturating_add(length);
    let part =
      usize::try_from(from).ok().zip(usize::try_from(to).ok()).and_then(|(from, to)| piece.get(from..to));
    self.data.extend_from_slice(part.unwrap_or_default());
  }

  fn explain(&self, site: &Site<'_>, error: ArchiveError) -> Error {
    match (self.found, &error) {
      (Some((Kind::Directory, ..)), _) => site.directory(),
      (Some((Kind::Symlink, ..)), _) => site.link(),
      (None, ArchiveError::Refused { why: Refusal::Type(_), .. }) => site.special(),
      _ => hostile(site, error),
    }
  }

  fn into_range(self, site: &Site<'_>) -> Result<FileRange> {
    match self.found {
      Some((_, size, mode)) => Ok(FileRange { data: self.data.freeze(), size, mode }),
      None => Err(hostile(site, ArchiveError::Missing { name: format!("{:?}", self.name) })),
    }
  }
}
