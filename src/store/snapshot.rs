//! Snapshots: the workspaces of runs that wait, as tar streams.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use serde::{Deserialize, Serialize};

use crate::error::Result;

pub use super::memory_snapshot::MemorySnapshotStore;

/// A tar, piece by piece.
pub type TarStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// What is known of a snapshot beside its contents.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMeta {
  /// The run.
  pub run_id: String,
  /// Fingerprint of the manifest that the run was started with.
  pub fingerprint: String,
  /// When it was taken, in milliseconds since 1970.
  pub created_at: u64,
}

/// A stored snapshot.
pub struct Snapshot {
  /// What is known of it.
  pub meta: SnapshotMeta,
  /// The tar of the workspace.
  pub tar: TarStream,
}

/// Keeps snapshots, one for each run.
#[async_trait]
pub trait SnapshotStore: Send + Sync {
  /// The snapshot of `key`, if there is one.
  async fn load(&self, key: &str) -> Result<Option<Snapshot>>;
  /// Replaces the snapshot of `key`. All or nothing: if `tar` fails, or there is no room, the one before stays.
  async fn save(&self, key: &str, meta: SnapshotMeta, tar: TarStream) -> Result<()>;
  /// Removes the snapshot of `key`; one that is not there is fine.
  async fn remove(&self, key: &str) -> Result<()>;
}
