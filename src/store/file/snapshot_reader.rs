//! Reading a snapshot file, piece by piece and with its digest checked.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use super::directory::{Directory, failure};
use super::joined;
use super::snapshot_format::{DIGEST_BYTES, Head, HeadError, LENGTH_BYTES, read_head, take};
use crate::error::{Error, Result, fail};
use crate::limits::SNAPSHOT_FILE_CHUNK_BYTES;
use crate::store::snapshot::SnapshotMeta;
use crate::stream::ByteStream;

/// A snapshot file behind its head.
pub(super) struct Reader {
  file: File,
  path: PathBuf,
  hash: Sha256,
  /// Bytes of the tar that are still to come.
  left: u64,
  length: [u8; LENGTH_BYTES],
  digest: [u8; DIGEST_BYTES],
}

/// Opens the snapshot of a key, if there is one, and makes sure that nothing of it is missing.
pub(super) fn open(directory: &Directory, name: &str, key: &str) -> Result<Option<(SnapshotMeta, Reader)>> {
  let path = directory.join(name);
  let Some((mut file, found)) = directory.read(name)? else { return Ok(None) };
  let head = read_head(&mut file).map_err(|error| match error {
    HeadError::Io(error) => failure("Cannot read", &path, error),
    HeadError::Damaged(why) => invalid(&path, &why),
  })?;
  if head.key != key {
    return Err(invalid(&path, "it is the snapshot of another run"));
  }
  let Head { meta, bytes, .. } = head;
  let trailer = (LENGTH_BYTES + DIGEST_BYTES) as u64;
  let left = found.len().checked_sub(bytes.len() as u64 + trailer);
  let left = left.ok_or_else(|| invalid(&path, "it was cut"))?;
  let (length, digest) = read_trailer(&mut file, bytes.len() as u64, left, &path)?;
  if u64::from_le_bytes(length) != left {
    return Err(invalid(&path, "it was cut, or something was added"));
  }
  let hash = Sha256::new_with_prefix(&bytes);
  Ok(Some((meta, Reader { file, path, hash, left, length, digest })))
}

fn read_trailer(
  file: &mut File,
  head: u64,
  tar: u64,
  path: &Path,
) -> Result<([u8; LENGTH_BYTES], [u8; DIGEST_BYTES])> {
  let mut bytes = [0; LENGTH_BYTES + DIGEST_BYTES];
  let read = file
    .seek(SeekFrom::Start(head.saturating_add(tar)))
    .and_then(|_| file.read_exact(&mut bytes))
    .and_then(|()| file.seek(SeekFrom::Start(head)));
  read.map_err(|error| failure("Cannot read", path, error))?;
  let mut rest = bytes.as_slice();
  Ok((take(&mut rest), take(&mut rest)))
}

impl Reader {
  /// The tar. Its last piece comes only when the digest is right, so nobody gets an altered tar whole.
  pub(super) fn stream(self) -> ByteStream {
    // One piece is read ahead of whoever takes them.
    let pieces = futures_util::stream::unfold(Some(ahead(self)), |reading| async {
      match joined(reading?).await {
        Ok((Some(piece), reader)) => Some((Ok(piece), Some(ahead(reader)))),
        Ok((None, _)) => None,
        Err(error) => Some((Err(error), None)),
      }
    });
    pieces.boxed()
  }

  fn next(&mut self) -> Result<Option<Bytes>> {
    let size = self.left.min(SNAPSHOT_FILE_CHUNK_BYTES as u64);
    let mut piece = vec![0; usize::try_from(size).unwrap_or(SNAPSHOT_FILE_CHUNK_BYTES)];
    self.file.read_exact(&mut piece).map_err(|error| match error.kind() {
      ErrorKind::UnexpectedEof => invalid(&self.path, "it was cut while it was read"),
      _ => failure("Cannot read", &self.path, error),
    })?;
    self.hash.update(&piece);
    self.left -= size;
    if self.left == 0 {
      self.check_digest()?;
    }
    Ok((!piece.is_empty()).then(|| piece.into()))
  }

  fn check_digest(&self) -> Result<()> {
    let hash = self.hash.clone().chain_update(self.length);
    if hash.finalize().as_slice() == self.digest {
      Ok(())
    } else {
      Err(invalid(&self.path, "it was altered"))
    }
  }
}

/// Reads the next piece, from now on.
fn ahead(mut reader: Reader) -> JoinHandle<Result<(Option<Bytes>, Reader)>> {
  tokio::task::spawn_blocking(move || reader.next().map(|piece| (piece, reader)))
}

fn invalid(path: &Path, why: &str) -> Error {
  fail!(
    SnapshotInvalid,
    "The snapshot file {} is damaged or not ours: {why}. Restore it, or remove it and start a new run.",
    path.display()
  )
}
