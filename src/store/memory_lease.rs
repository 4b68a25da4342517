//! Leases in this process's memory: for one process, and for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::lease::{LeaseRecord, LeaseStore};
use crate::error::Result;

/// A lease store that ends with the process.
#[derive(Debug, Default)]
pub struct MemoryLeaseStore(Mutex<BTreeMap<String, LeaseRecord>>);

impl MemoryLeaseStore {
  /// An empty one.
  pub fn new() -> Self {
    Self::default()
  }

  fn records(&self) -> MutexGuard<'_, BTreeMap<String, LeaseRecord>> {
    // Every change is one insertion or removal: a panic elsewhere leaves no half of one.
    self.0.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

#[async_trait]
impl LeaseStore for MemoryLeaseStore {
  async fn load(&self, key: &str) -> Result<Option<LeaseRecord>> {
    Ok(self.records().get(key).cloned())
  }

  async fn save(&self, record: &LeaseRecord, expected_fence: Option<u64>) -> Result<bool> {
    let mut records = self.records();
    if records.get(&record.key).map(|found| found.fence) != expected_fence {
      return Ok(false);
    }
    records.insert(record.key.clone(), record.clone());
    Ok(true)
  }

  async fn remove(&self, key: &str, expected_fence: u64) -> Result<bool> {
    let mut records = self.records();
    let same = records.get(key).is_some_and(|found| found.fence == expected_fence);
    Ok(same && records.remove(key).is_some())
  }

  async fn list(&self, owner_id: &str) -> Result<Vec<LeaseRecord>> {
    Ok(self.records().values().filter(|record| record.owner_id == owner_id).cloned().collect())
  }
}

#[cfg(test)]
mod tests {
  use serde_json::json;

  use super::super::lease::{Holder, SnapshotState};
  use super::*;

  fn record(key: &str, owner: &str, fence: u64) -> LeaseRecord {
    LeaseRecord {
      key: key.into(),
      run_id: "run-1".into(),
      environment_id: "docker-sandbox".into(),
      workspace_id: "repo".into(),
      fingerprint: "sha256:00".into(),
      owner_id: owner.into(),
      container_id: "c1".into(),
      container_name: "zhivex-sandbox-00".into(),
      network_id: None,
      image_ids: Vec::new(),
      token: "t".into(),
      fence,
      holder: None,
      expires_at: 1_000,
      status: "running".into(),
      snapshot_state: SnapshotState::None,
    }
  }

  #[tokio::test]
  async fn only_the_expected_fence_writes() {
    let store = MemoryLeaseStore::new();
    assert!(!store.save(&record("k", "o", 1), Some(0)).await.unwrap());
    assert!(store.save(&record("k", "o", 1), None).await.unwrap());
    assert!(!store.save(&record("k", "o", 9), None).await.unwrap());
    assert!(store.save(&record("k", "o", 2), Some(1)).await.unwrap());
    assert!(!store.save(&record("k", "o", 9), Some(1)).await.unwrap());
    assert_eq!(store.load("k").await.unwrap(), Some(record("k", "o", 2)));
    assert!(!store.remove("k", 1).await.unwrap());
    assert!(store.remove("k", 2).await.unwrap());
    assert!(!store.remove("k", 2).await.unwrap());
    assert_eq!(store.load("k").await.unwrap(), None);
  }

  #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
  async fn of_many_one_wins() {
    let store = std::sync::Arc::new(MemoryLeaseStore::new());
    let tries: Vec<_> = (0..20)
      .map(|fence| {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move { store.save(&record("k", "o", fence), None).await.unwrap() })
      })
      .collect();
    let mut winners = 0;
    for attempt in tries {
      winners += usize::from(attempt.await.unwrap());
    }
    assert_eq!(winners, 1);
  }

  #[tokio::test]
  async fn lists_one_owner_in_order() {
    let store = MemoryLeaseStore::new();
    for (key, owner) in [("b", "me"), ("c", "you"), ("a", "me")] {
      assert!(store.save(&record(key, owner, 1), None).await.unwrap());
    }
    let keys: Vec<String> = store.list("me").await.unwrap().into_iter().map(|record| record.key).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(store.list("nobody").await.unwrap(), []);
  }

  #[test]
  fn the_record_is_the_public_one() {
    let mut lease = record("k", "o", 3);
    let mut shown = json!({
      "key": "k", "runId": "run-1", "environmentId": "docker-sandbox", "workspaceId": "repo", "fingerprint": "sha256:00",
      "ownerId": "o", "containerId": "c1", "containerName": "zhivex-sandbox-00", "imageIds": [], "token": "t", "fence": 3,
      "holder": null, "expiresAt": 1000, "status": "running", "snapshotState": "none",
    });
    assert_eq!(serde_json::to_value(&lease).unwrap(), shown);
    lease.network_id = Some("n".into());
    lease.snapshot_state = SnapshotState::Stale;
    lease.holder = Some(Holder {
      id: "h".into(),
      host_id: "m".into(),
      boot_id: "b".into(),
      pid: 7,
      start_time: 8,
      heartbeat_at: 9,
    });
    shown["networkId"] = json!("n");
    shown["snapshotState"] = json!("stale");
    shown["holder"] =
      json!({ "id": "h", "hostId": "m", "bootId": "b", "pid": 7, "startTime": 8, "heartbeatAt": 9 });
    assert_eq!(serde_json::to_value(&lease).unwrap(), shown);
    shown["_id"] = json!("a store's own");
    assert_eq!(serde_json::from_value::<LeaseRecord>(shown).unwrap(), lease);
  }
}
