//! Stores of the core, as handles that an environment takes. Applications may call them too.

use std::sync::Arc;

use napi::bindgen_prelude::Env;
use napi_derive::napi;
use serde_json::json;

use super::convert::{integer, optional_integer, parse};
use super::docker::nothing;
use super::outcome::{Promised, spawn};
use crate::store::lease::{LeaseRecord, LeaseStore, MemoryLeaseStore};
use crate::store::snapshot::{MemorySnapshotStore, SnapshotStore};

/// A lease store of the core.
#[napi]
pub struct LeaseStoreHandle {
  store: Arc<dyn LeaseStore>,
}

/// A snapshot store of the core.
#[napi]
pub struct SnapshotStoreHandle {
  store: Arc<dyn SnapshotStore>,
}

/// Leases in this process's memory.
#[napi(catch_unwind)]
pub fn memory_lease_store() -> LeaseStoreHandle {
  LeaseStoreHandle { store: Arc::new(MemoryLeaseStore::default()) }
}

/// Snapshots in this process's memory.
#[napi(catch_unwind)]
pub fn memory_snapshot_store() -> SnapshotStoreHandle {
  SnapshotStoreHandle { store: Arc::new(MemorySnapshotStore::default()) }
}

impl LeaseStoreHandle {
  pub(super) fn store(&self) -> Arc<dyn LeaseStore> {
    Arc::clone(&self.store)
  }
}

impl SnapshotStoreHandle {
  pub(super) fn store(&self) -> Arc<dyn SnapshotStore> {
    Arc::clone(&self.store)
  }
}

#[napi]
impl LeaseStoreHandle {
  /// The record of a key as JSON, or null.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string | null>")]
  pub fn load<'env>(&self, env: &'env Env, key: String) -> Promised<'env, Option<String>> {
    let store = self.store();
    spawn(env, async move { Ok(store.load(&key).await?.map(|record| json!(record).to_string())) })
  }

  /// Compare-and-set on the fence; null: there must be no record.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | boolean>")]
  pub fn save<'env>(
    &self,
    env: &'env Env,
    record_json: String,
    expected_fence: Option<f64>,
  ) -> Promised<'env, bool> {
    let store = self.store();
    let record = parse::<LeaseRecord>(&record_json, "The lease record");
    let fence = optional_integer(expected_fence, "expectedFence");
    spawn(env, async move { store.save(&record?, fence?).await })
  }

  /// Removes a record of this fence.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | boolean>")]
  pub fn remove<'env>(&self, env: &'env Env, key: String, fence: f64) -> Promised<'env, bool> {
    let (store, fence) = (self.store(), integer(fence, "expectedFence"));
    spawn(env, async move { store.remove(&key, fence?).await })
  }

  /// All records of an owner as JSON.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn list<'env>(&self, env: &'env Env, owner_id: String) -> Promised<'env, String> {
    let store = self.store();
    spawn(env, async move { Ok(json!(store.list(&owner_id).await?).to_string()) })
  }
}

#[napi]
impl SnapshotStoreHandle {
  /// Removes the snapshot of a key, if there is one.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn remove<'env>(&self, env: &'env Env, key: String) -> Promised<'env, Option<u32>> {
    let store = self.store();
    spawn(env, async move { store.remove(&key).await.map(nothing) })
  }
}
