//! Snapshots in memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use super::snapshot::{Snapshot, SnapshotMeta, SnapshotStore};
use crate::error::{Result, fail};
use crate::limits::{MAX_ARCHIVE_BYTES, MAX_MEMORY_SNAPSHOTS_BYTES};
use crate::stream::ByteStream;

/// Pieces are copied together to this size: a piece that a stream gave may be a small part of a large buffer, all of
/// which it would keep.
const PIECE_BYTES: usize = 64 * 1024;

/// Snapshots in memory: for one process, gone with it.
#[derive(Debug)]
pub struct MemorySnapshotStore {
  snapshots: Mutex<HashMap<String, Kept>>,
  used: Arc<AtomicU64>,
  max_total: u64,
}

#[derive(Clone, Debug)]
struct Kept {
  meta: SnapshotMeta,
  pieces: Vec<Bytes>,
  /// Given back when neither the store nor a reader has the pieces any more.
  _share: Arc<Share>,
}

/// Bytes of one snapshot that count towards the store's sum.
#[derive(Debug)]
struct Share {
  used: Arc<AtomicU64>,
  size: u64,
}

impl Share {
  /// False: the sum would pass `max`.
  fn grow(&mut self, by: u64, max: u64) -> bool {
    let within = |used: u64| used.checked_add(by).filter(|sum| *sum <= max);
    let grown = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, within).is_ok();
    if grown {
      self.size += by;
    }
    grown
  }
}

impl Drop for Share {
  fn drop(&mut self) {
    self.used.fetch_sub(self.size, Ordering::AcqRel);
  }
}

impl Default for MemorySnapshotStore {
  fn default() -> Self {
    Self::with_max_total(MAX_MEMORY_SNAPSHOTS_BYTES)
  }
}

impl MemorySnapshotStore {
  /// A store that keeps at most so many bytes in all.
  pub fn with_max_total(max_total: u64) -> Self {
    Self { snapshots: Mutex::default(), used: Arc::default(), max_total }
  }

  fn snapshots(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
    // No code panics while it holds the lock, and a map is whole between two changes.
    self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn count(&self, share: &mut Share, by: u64, run: &str) -> Result<()> {
    if share.size.saturating_add(by) > MAX_ARCHIVE_BYTES {
      return Err(fail!(
        Limit,
        "The snapshot of run {run} is longer than {MAX_ARCHIVE_BYTES} bytes, too much for memory. Use a file snapshot store."
      ));
    }
    if share.grow(by, self.max_total) {
      return Ok(());
    }
    Err(fail!(
      Limit,
      "The snapshot of run {run} does not fit: a memory snapshot store keeps at most {} bytes of all runs together. Use a file snapshot store, or end runs that wait.",
      self.max_total
    ))
  }
}

#[async_trait]
impl SnapshotStore for MemorySnapshotStore {
  async fn load(&self, key: &str) -> Result<Option<Snapshot>> {
    // The pieces are shared, not copied.
    let found = self.snapshots().get(key).cloned();
    Ok(found.map(|Kept { meta, pieces, _share }| {
      let pieces = futures_util::stream::iter(pieces);
      let tar = pieces
        .map(move |piece| {
          let _until_it_is_read = &_share;
          Ok(piece)
        })
        .boxed();
      Snapshot { meta, tar }
    }))
  }

  async fn save(&self, key: &str, meta: SnapshotMeta, mut tar: ByteStream) -> Result<()> {
    let mut share = Share { used: Arc::clone(&self.used), size: 0 };
    let (mut pieces, mut filling) = (Vec::new(), BytesMut::new());
    while let Some(piece) = tar.next().await {
      let piece = piece?;
      self.count(&mut share, piece.len() as u64, &meta.run_id)?;
      filling.extend_from_slice(&piece);
      if filling.len() >= PIECE_BYTES {
        pieces.push(filling.split().freeze());
      }
    }
    if !filling.is_empty() {
      pieces.push(filling.freeze());
    }
    self.snapshots().insert(key.to_owned(), Kept { meta, pieces, _share: Arc::new(share) });
    Ok(())
  }

  async fn remove(&self, key: &str) -> Result<()> {
    self.snapshots().remove(key);
    Ok(())
  }
}

#[cfg(test)]
mod tests;
