//! Snapshots: a vetted tar of a run's workspace, as a stream both ways.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use crate::error::{Result, fail};
use crate::limits::MAX_ARCHIVE_BYTES;
use crate::stream::ByteStream;

/// What is known of a snapshot without reading it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMeta {
  /// The run's id within its scope.
  pub run_id: String,
  /// Fingerprint of the manifest at that time.
  pub fingerprint: String,
  /// Milliseconds since 1970.
  pub created_at: u64,
}

/// A snapshot that is being read.
pub struct Snapshot {
  /// What is known of it.
  pub meta: SnapshotMeta,
  /// The tar.
  pub tar: ByteStream,
}

/// Keeps snapshots by run key.
#[async_trait]
pub trait SnapshotStore: Send + Sync {
  /// The snapshot of a run, if there is one.
  async fn load(&self, key: &str) -> Result<Option<Snapshot>>;
  /// Replaces the snapshot of a run, all or nothing: a stream that fails leaves the one before.
  async fn save(&self, key: &str, meta: SnapshotMeta, tar: ByteStream) -> Result<()>;
  /// Removes the snapshot of a run; one that is not there is fine.
  async fn remove(&self, key: &str) -> Result<()>;
}

/// Snapshots in memory: for one process, gone with it.
#[derive(Debug, Default)]
pub struct MemorySnapshotStore {
  snapshots: Mutex<HashMap<String, (SnapshotMeta, Vec<Bytes>)>>,
}

impl MemorySnapshotStore {
  fn snapshots(&self) -> MutexGuard<'_, HashMap<String, (SnapshotMeta, Vec<Bytes>)>> {
    // No code panics while it holds the lock, and a map is whole between two changes.
    self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

#[async_trait]
impl SnapshotStore for MemorySnapshotStore {
  async fn load(&self, key: &str) -> Result<Option<Snapshot>> {
    // The pieces are shared, not copied.
    let found = self.snapshots().get(key).cloned();
    Ok(found.map(|(meta, pieces)| {
      let tar = futures_util::stream::iter(pieces.into_iter().map(Ok)).boxed();
      Snapshot { meta, tar }
    }))
  }

  async fn save(&self, key: &str, meta: SnapshotMeta, mut tar: ByteStream) -> Result<()> {
    let (mut pieces, mut size) = (Vec::new(), 0);
    while let Some(piece) = tar.next().await {
      let piece = piece?;
      size += piece.len() as u64;
      if size > MAX_ARCHIVE_BYTES {
        return Err(fail!(
          Limit,
          "The snapshot of run {} is longer than {MAX_ARCHIVE_BYTES} bytes, too much for memory. Use a file snapshot store.",
          meta.run_id
        ));
      }
      pieces.push(piece);
    }
    self.snapshots().insert(key.to_owned(), (meta, pieces));
    Ok(())
  }

  async fn remove(&self, key: &str) -> Result<()> {
    self.snapshots().remove(key);
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn meta() -> SnapshotMeta {
    SnapshotMeta { run_id: "run".to_owned(), fingerprint: "sha256:0".to_owned(), created_at: 1 }
  }

  fn stream(pieces: Vec<Result<Bytes>>) -> ByteStream {
    futures_util::stream::iter(pieces).boxed()
  }

  async fn bytes(store: &MemorySnapshotStore) -> Option<Vec<u8>> {
    let mut tar = store.load("k").await.unwrap()?.tar;
    let mut all = Vec::new();
    while let Some(piece) = tar.next().await {
      all.extend(piece.unwrap());
    }
    Some(all)
  }

  #[tokio::test]
  async fn a_snapshot_is_saved_whole_or_not_at_all() {
    let store = MemorySnapshotStore::default();
    store.save("k", meta(), stream(vec![Ok("ab".into()), Ok("c".into())])).await.unwrap();
    let cut = stream(vec![Ok("x".into()), Err(fail!(DockerApi, "cut"))]);
    assert!(store.save("k", meta(), cut).await.is_err());
    assert_eq!(bytes(&store).await.unwrap(), b"abc");
    store.remove("k").await.unwrap();
    store.remove("k").await.unwrap();
    assert_eq!(bytes(&store).await, None);
  }
}
