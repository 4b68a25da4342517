//! Leases: one record for each run, changed only by compare-and-set on its fence.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Result, fail};

/// Longest part of a run's name in bytes.
pub const MAX_ID_BYTES: usize = 512;

/// Whose run it is. The same run id in two scopes is two runs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
  /// The tenant.
  pub tenant_id: String,
  /// The user within the tenant.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub user_id: Option<String>,
  /// A name space within both.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub namespace: Option<String>,
}

/// The key of a run: a SHA-256 in hexadecimal over scope and run id, each with its length before it, so that no two
/// differ only in where one part ends. Absent parts are unlike empty ones.
pub fn run_key(scope: Option<&Scope>, run_id: &str) -> Result<String> {
  if run_id.is_empty() {
    return Err(fail!(ConfigInvalid, "runId was empty; it may be any text of up to {MAX_ID_BYTES} bytes."));
  }
  let parts = [
    ("scope.tenantId", scope.map(|scope| scope.tenant_id.as_str())),
    ("scope.userId", scope.and_then(|scope| scope.user_id.as_deref())),
    ("scope.namespace", scope.and_then(|scope| scope.namespace.as_deref())),
    ("runId", Some(run_id)),
  ];
  let mut hash = Sha256::new();
  for (name, part) in parts {
    match part {
      None => hash.update(u64::MAX.to_be_bytes()),
      Some(text) if text.len() > MAX_ID_BYTES => {
        return Err(fail!(
          ConfigInvalid,
          "{name} has {} bytes; at most {MAX_ID_BYTES} are possible.",
          text.len()
        ));
      }
      Some(text) => {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
      }
    }
  }
  Ok(hex::encode(hash.finalize()))
}

/// Who holds a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
  /// Random for each acquire.
  pub id: String,
  /// The machine, empty where it has no id.
  pub host_id: String,
  /// This start of the machine, empty where it is not known.
  pub boot_id: String,
  /// Process id.
  pub pid: u32,
  /// Start of the process in clock ticks since the boot; 0 where it is not known.
  pub start_time: u64,
  /// Last sign of life, milliseconds since 1970.
  pub heartbeat_at: u64,
}

/// What is known of a run's snapshot.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotState {
  /// There is none.
  #[default]
  None,
  /// It holds the workspace as it is.
  Current,
  /// The workspace has or may have changed since.
  Stale,
}

/// What a run has used of its network budgets, over all its holders.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkUsed {
  /// Requests.
  pub requests: u64,
  /// Bytes in both directions.
  pub bytes: u64,
}

/// The record of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseRecord {
  /// See [`run_key`].
  pub key: String,
  /// The run's id within its scope.
  pub run_id: String,
  /// Id of the environment that started it.
  pub environment_id: String,
  /// Id of the workspace.
  pub workspace_id: String,
  /// Fingerprint of the manifest that it was started with.
  pub fingerprint: String,
  /// Whose `sweep` looks after it.
  pub owner_id: String,
  /// The engine's id of the container.
  pub container_id: String,
  /// The container's name.
  pub container_name: String,
  /// The run's network, if it has one.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub network_id: Option<String>,
  /// Committed images that are not deleted yet.
  pub image_ids: Vec<String>,
  /// A secret of 256 bits that proves a holder to the container.
  pub token: String,
  /// Grows at every take-over; the version of compare-and-set.
  pub fence: u64,
  /// Who holds the run now.
  pub holder: Option<Holder>,
  /// End of the lease, milliseconds since 1970.
  pub expires_at: u64,
  /// What the run has used of its network budgets, where it has any; as of the last heartbeat or release.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub network_used: Option<NetworkUsed>,
  /// The runtime's status as of the last act.
  pub status: String,
  /// The run's snapshot.
  pub snapshot_state: SnapshotState,
  /// When the snapshot was taken that `snapshot_state` is about: the `createdAt` of its meta data, by which it is known.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub snapshot_at: Option<u64>,
  /// Fields that a store, or a later version of this package, has added. They are written back as they were read.
  #[serde(flatten)]
  pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Keeps lease records. Every change is atomic.
#[async_trait]
pub trait LeaseStore: Send + Sync {
  /// The record of a run, if there is one.
  async fn load(&self, key: &str) -> Result<Option<LeaseRecord>>;
  /// Writes `record` if the stored one has the fence `expected`, or, for `None`, if there is none. False: it lost.
  async fn save(&self, record: &LeaseRecord, expected: Option<u64>) -> Result<bool>;
  /// Removes the record if it has the fence `expected`. False: it lost, or there is none.
  async fn remove(&self, key: &str, expected: u64) -> Result<bool>;
  /// All records of an owner.
  async fn list(&self, owner_id: &str) -> Result<Vec<LeaseRecord>>;
  /// Removes what processes left that died while they wrote; their names. None where there can be nothing of that kind.
  async fn collect(&self) -> Result<Vec<String>> {
    Ok(Vec::new())
  }
}

/// Records in memory: for one process, gone with it.
#[derive(Debug, Default)]
pub struct MemoryLeaseStore {
  records: Mutex<HashMap<String, LeaseRecord>>,
}

impl MemoryLeaseStore {
  fn records(&self) -> MutexGuard<'_, HashMap<String, LeaseRecord>> {
    // No code panics while it holds the lock, and a map is whole between two changes.
    self.records.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

#[async_trait]
impl LeaseStore for MemoryLeaseStore {
  async fn load(&self, key: &str) -> Result<Option<LeaseRecord>> {
    Ok(self.records().get(key).cloned())
  }

  async fn save(&self, record: &LeaseRecord, expected: Option<u64>) -> Result<bool> {
    let mut records = self.records();
    if records.get(&record.key).map(|found| found.fence) != expected {
      return Ok(false);
    }
    records.insert(record.key.clone(), record.clone());
    Ok(true)
  }

  async fn remove(&self, key: &str, expected: u64) -> Result<bool> {
    let mut records = self.records();
    let wins = records.get(key).is_some_and(|found| found.fence == expected);
    if wins {
      records.remove(key);
    }
    Ok(wins)
  }

  async fn list(&self, owner_id: &str) -> Result<Vec<LeaseRecord>> {
    let mut found: Vec<_> =
      self.records().values().filter(|record| record.owner_id == owner_id).cloned().collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
  }
}

#[cfg(test)]
mod tests;
