//! Leases: who holds which run, and what it has.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;

pub use super::memory_lease::MemoryLeaseStore;
pub use super::run_key::{Scope, run_key};

/// What is known of the snapshot of a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotState {
  /// There is none.
  #[default]
  None,
  /// It is the workspace as it was left.
  Current,
  /// The workspace may have changed since.
  Stale,
}

/// The process that has a run open. Times are in milliseconds since 1970 unless said otherwise.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
  /// Random, new at every acquire.
  pub id: String,
  /// The machine.
  pub host_id: String,
  /// This start of the machine.
  pub boot_id: String,
  /// The process.
  pub pid: u32,
  /// When the process began, in the kernel's clock ticks since boot: a pid alone is used again.
  pub start_time: u64,
  /// The last sign of life.
  pub heartbeat_at: u64,
}

/// All that must be known to go on with a run: the public `LeaseRecord`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseRecord {
  /// Hash of scope and run id, see [`run_key`].
  pub key: String,
  /// The run.
  pub run_id: String,
  /// The environment that it was started with.
  pub environment_id: String,
  /// Its workspace's name.
  pub workspace_id: String,
  /// Fingerprint of that environment's manifest.
  pub fingerprint: String,
  /// Whose `sweep` looks after it.
  pub owner_id: String,
  /// The engine's id of its container.
  pub container_id: String,
  /// The container's name.
  pub container_name: String,
  /// Its network, where it has one.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub network_id: Option<String>,
  /// Images made of it that are not deleted yet.
  pub image_ids: Vec<String>,
  /// Secret of this run; whoever has the record may take it over.
  pub token: String,
  /// Grows at every take-over; stores compare it before they write.
  pub fence: u64,
  /// Who has it open; nobody while it waits.
  pub holder: Option<Holder>,
  /// When it ends unless it is renewed.
  pub expires_at: u64,
  /// The runtime's status of the run.
  pub status: String,
  /// Whether it could be rebuilt.
  pub snapshot_state: SnapshotState,
}

/// Keeps leases. Writes are compare-and-set, so that of two processes one wins.
#[async_trait]
pub trait LeaseStore: Send + Sync {
  /// The record of `key`, if there is one.
  async fn load(&self, key: &str) -> Result<Option<LeaseRecord>>;
  /// Writes `record` if the stored one has the fence `expected_fence`, or with `None` if there is none. False: it was
  /// not so, and nothing was written.
  async fn save(&self, record: &LeaseRecord, expected_fence: Option<u64>) -> Result<bool>;
  /// Removes the record of `key` if it has this fence. False: it was not so.
  async fn remove(&self, key: &str, expected_fence: u64) -> Result<bool>;
  /// All records of `owner_id`, ordered by key.
  async fn list(&self, owner_id: &str) -> Result<Vec<LeaseRecord>>;
}
