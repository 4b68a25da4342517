//! Stores in files, for the processes of one machine. A key's file is named after the key's SHA-256, so no key can
//! leave the directory, be too long, or share a file with another where letters of either case are the same.

mod directory;
mod flushing;
mod leases;
mod lock;
mod snapshot_format;
mod snapshot_reader;
mod snapshot_writer;
mod snapshots;

pub use leases::FileLeaseStore;
pub use snapshots::FileSnapshotStore;

use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use crate::error::{Result, fail};

/// Digits of a file name before its ending.
const STEM_DIGITS: usize = 64;

/// The name of a key's file without its ending.
fn stem(key: &str) -> String {
  hex::encode(Sha256::digest(key.as_bytes()))
}

/// The stem of a name with this ending, where the name can be one of ours.
fn stem_of<'name>(name: &'name str, ending: &str) -> Option<&'name str> {
  let stem = name.strip_suffix(ending)?;
  let digits = stem.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
  (stem.len() == STEM_DIGITS && digits).then_some(stem)
}

/// Runs work that waits for a disk where it holds nothing else up.
async fn blocking<T, F>(work: F) -> Result<T>
where
  T: Send + 'static,
  F: FnOnce() -> Result<T> + Send + 'static,
{
  joined(tokio::task::spawn_blocking(work)).await
}

async fn joined<T>(work: JoinHandle<Result<T>>) -> Result<T> {
  work
    .await
    .unwrap_or_else(|error| Err(fail!(Internal, "The work of a file store ended early.").with_source(error)))
}

#[cfg(test)]
mod tests;
