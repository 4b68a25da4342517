//! Snapshots: a vetted tar of a run's workspace, as a stream both ways.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::stream::ByteStream;

pub use super::memory_snapshot::MemorySnapshotStore;

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
  /// Fields that a store, or a later version of this package, has added.
  #[serde(flatten)]
  pub extra: serde_json::Map<String, serde_json::Value>,
}

/// A snapshot that is being read.
pub struct Snapshot {
  /// What is known of it.
  pub meta: SnapshotMeta,
  /// The tar. It is whole only if it ends without an error.
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
  /// Removes what processes left that died while they saved; their names. None where there can be nothing of that kind.
  async fn collect(&self) -> Result<Vec<String>> {
    Ok(Vec::new())
  }
}
