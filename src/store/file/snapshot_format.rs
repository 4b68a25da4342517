//! The format of a snapshot file: what comes before the tar and after it. Integers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 16 | `zhivex-snapshot\n` |
//! | 4  | version of the format |
//! | 4  | length of the head |
//! | …  | head: JSON, `{ "key", "meta" }` |
//! | 32 | SHA-256 of everything before it |
//! | …  | the tar |
//! | 8  | length of the tar |
//! | 32 | SHA-256 of everything before it |
//!
//! The length finds a file that was cut before a byte of it is used, the digests one that was altered.

use std::io::{self, Read};

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::{Result, fail};
use crate::limits::MAX_SNAPSHOT_HEAD_BYTES;
use crate::store::record::snapshot_meta;
use crate::store::snapshot::SnapshotMeta;

const MAGIC: &[u8; 16] = b"zhivex-snapshot\n";
/// Grows when an older reader would take a file for something that it is not.
const VERSION: u32 = 1;
/// Bytes before the head.
const FIXED_BYTES: usize = 24;
/// Bytes of the length behind the tar.
pub(super) const LENGTH_BYTES: usize = 8;
/// Bytes of the digest.
pub(super) const DIGEST_BYTES: usize = 32;

/// What stands before the tar.
pub(super) fn head(key: &str, meta: &SnapshotMeta) -> Result<Vec<u8>> {
  let text = json!({ "key": key, "meta": meta }).to_string();
  let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
  if length > MAX_SNAPSHOT_HEAD_BYTES {
    return Err(fail!(
      Limit,
      "The key and meta data of a snapshot take {} bytes; a file store keeps at most {MAX_SNAPSHOT_HEAD_BYTES}.",
      text.len()
    ));
  }
  let mut bytes = MAGIC.to_vec();
  bytes.extend_from_slice(&VERSION.to_le_bytes());
  bytes.extend_from_slice(&length.to_le_bytes());
  bytes.extend_from_slice(text.as_bytes());
  let digest = Sha256::digest(&bytes);
  bytes.extend_from_slice(&digest);
  Ok(bytes)
}

/// A head that was read.
#[derive(Debug)]
pub(super) struct Head {
  pub(super) key: String,
  pub(super) meta: SnapshotMeta,
  /// The bytes that it was read from: the digest covers them.
  pub(super) bytes: Vec<u8>,
}

/// Why a head cannot be read.
#[derive(Debug)]
pub(super) enum HeadError {
  /// The system's word.
  Io(io::Error),
  /// It is damaged, or no snapshot: why.
  Damaged(String),
}

#[derive(Deserialize)]
struct HeadJson {
  key: String,
  meta: Value,
}

/// Reads the head; the tar follows.
pub(super) fn read_head(file: &mut impl Read) -> std::result::Result<Head, HeadError> {
  let mut bytes = vec![0; FIXED_BYTES];
  fill(file, &mut bytes)?;
  let mut fixed = bytes.as_slice();
  let (magic, version, length) = (take::<16>(&mut fixed), take::<4>(&mut fixed), take::<4>(&mut fixed));
  if magic != *MAGIC {
    return Err(damaged("it does not begin as a snapshot"));
  }
  let (version, length) = (u32::from_le_bytes(version), u32::from_le_bytes(length));
  if version != VERSION {
    return Err(damaged(format_args!(
      "its version is {version} and this package reads {VERSION}; where a later package wrote it, update this one"
    )));
  }
  if length > MAX_SNAPSHOT_HEAD_BYTES {
    return Err(damaged("its head is too long"));
  }
  let mut text = vec![0; length as usize];
  fill(file, &mut text)?;
  let mut digest = [0; DIGEST_BYTES];
  fill(file, &mut digest)?;
  bytes.extend_from_slice(&text);
  if Sha256::digest(&bytes).as_slice() != digest {
    return Err(damaged("its head was altered"));
  }
  bytes.extend_from_slice(&digest);
  // The parser's words quote what it found.
  let HeadJson { key, meta } =
    serde_json::from_slice(&text).map_err(|_| damaged("its head is no whole JSON"))?;
  let meta = snapshot_meta(meta).map_err(damaged)?;
  Ok(Head { key, meta, bytes })
}

fn fill(file: &mut impl Read, bytes: &mut [u8]) -> std::result::Result<(), HeadError> {
  file.read_exact(bytes).map_err(|error| match error.kind() {
    io::ErrorKind::UnexpectedEof => damaged("it ends in its head"),
    _ => HeadError::Io(error),
  })
}

/// The next bytes; zeros where there are not so many, which the caller has made sure of.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
  let Some((first, rest)) = bytes.split_first_chunk::<N>() else { return [0; N] };
  *bytes = rest;
  *first
}

fn damaged(why: impl std::fmt::Display) -> HeadError {
  HeadError::Damaged(why.to_string())
}
