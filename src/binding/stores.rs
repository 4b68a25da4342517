//! Stores as handles that an environment takes, and that applications call: the core's, in memory and in files, and
//! those that the application wrote.

use std::sync::Arc;

use napi::bindgen_prelude::Env;
use napi_derive::napi;
use serde_json::{Value, json};

use super::archive::{ArchiveDownload, ArchiveUpload};
use super::convert::{integer, optional_integer, parse};
use super::docker::nothing;
use super::js_stores::{JsLeaseStore, JsSnapshotStore};
use super::outcome::{Outcome, Promised, outcome, spawn};
use super::own_calls::{Callbacks, Dispatch};
use crate::error::{Result, fail, shown};
use crate::store::file::{FileLeaseStore, FileSnapshotStore};
use crate::store::lease::{LeaseRecord, LeaseStore, MemoryLeaseStore};
use crate::store::record::{lease_record, snapshot_meta};
use crate::store::snapshot::{MemorySnapshotStore, SnapshotMeta, SnapshotStore};

/// A lease store.
#[napi]
pub struct LeaseStoreHandle {
  store: Arc<dyn LeaseStore>,
}

/// A snapshot store.
#[napi]
pub struct SnapshotStoreHandle {
  store: Arc<dyn SnapshotStore>,
}

/// A snapshot that is being read.
#[napi(object, object_from_js = false)]
pub struct LoadedSnapshot {
  /// What is known of it, as JSON.
  pub meta_json: String,
  /// The tar.
  pub tar: ArchiveDownload,
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

/// Leases in the files of a directory.
#[napi(catch_unwind)]
pub fn file_lease_store(directory: String) -> Outcome<LeaseStoreHandle> {
  outcome(FileLeaseStore::open(&directory).map(|store| LeaseStoreHandle { store: Arc::new(store) }))
}

/// Snapshots in the files of a directory.
#[napi(catch_unwind)]
pub fn file_snapshot_store(directory: String) -> Outcome<SnapshotStoreHandle> {
  outcome(FileSnapshotStore::open(&directory).map(|store| SnapshotStoreHandle { store: Arc::new(store) }))
}

/// Leases in a store that the application wrote.
#[napi(catch_unwind, ts_args_type = "dispatch: (call: OwnCall) => void")]
pub fn js_lease_store(dispatch: Dispatch) -> LeaseStoreHandle {
  LeaseStoreHandle { store: Arc::new(JsLeaseStore::new(Callbacks::new(dispatch, "leaseStore", "store"))) }
}

/// Snapshots in a store that the application wrote.
#[napi(catch_unwind, ts_args_type = "dispatch: (call: OwnCall) => void")]
pub fn js_snapshot_store(dispatch: Dispatch) -> SnapshotStoreHandle {
  SnapshotStoreHandle {
    store: Arc::new(JsSnapshotStore::new(Callbacks::new(dispatch, "snapshotStore", "store"))),
  }
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
    let fence = optional_integer(expected_fence, "expectedFence");
    spawn(env, async move { store.save(&parse_record(&record_json)?, fence?).await })
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
  /// The snapshot of a key, or null.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | LoadedSnapshot | null>")]
  pub fn load<'env>(&self, env: &'env Env, key: String) -> Promised<'env, Option<LoadedSnapshot>> {
    let store = self.store();
    spawn(env, async move {
      let found = store.load(&key).await?;
      Ok(found.map(|found| LoadedSnapshot {
        meta_json: json!(found.meta).to_string(),
        tar: ArchiveDownload::of(found.tar),
      }))
    })
  }

  /// Begins to save a snapshot, whose tar is then written.
  #[napi(catch_unwind, ts_return_type = "Failure | ArchiveUpload")]
  pub fn save(&self, key: String, meta_json: String) -> Outcome<ArchiveUpload> {
    let store = self.store();
    outcome(parse_meta(&meta_json).map(|meta| {
      ArchiveUpload::start("Saving a snapshot", |tar| async move { store.save(&key, meta, tar).await })
    }))
  }

  /// Removes the snapshot of a key, if there is one.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn remove<'env>(&self, env: &'env Env, key: String) -> Promised<'env, Option<u32>> {
    let store = self.store();
    spawn(env, async move { store.remove(&key).await.map(nothing) })
  }
}

fn parse_record(json: &str) -> Result<LeaseRecord> {
  let value: Value = parse(json, "The lease record")?;
  lease_record(value).map_err(|why| fail!(ConfigInvalid, "The lease record: {}.", shown(&why)))
}

fn parse_meta(json: &str) -> Result<SnapshotMeta> {
  let value: Value = parse(json, "The meta data of the snapshot")?;
  snapshot_meta(value).map_err(|why| fail!(ConfigInvalid, "The meta data of the snapshot: {}.", shown(&why)))
}
