//! The workspace of a run that waits: to the store and back, vetted both ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;

use super::core::Core;
use crate::archive::{ArchiveLimits, ReemitOptions, SymlinkRule, reemit};
use crate::cancel::Cancel;
use crate::clock::now_ms;
use crate::docker::ByteStream;
use crate::error::{ErrorCode, Result, fail};
use crate::limits::MAX_ARCHIVE_ENTRIES;
use crate::sandbox::{Export, Sandbox};
use crate::store::lease::LeaseRecord;
use crate::store::snapshot::SnapshotMeta;

/// A vetted tar of the workspace goes to the store, as it is read. Returns its size.
pub async fn save(core: &Core, sandbox: &dyn Sandbox, record: &LeaseRecord) -> Result<u64> {
  let cap = archive_cap(core.options.limits.max_workspace_bytes);
  let Export { tar, base } = sandbox.export(cap, &Cancel::new()).await?;
  let meta = SnapshotMeta {
    run_id: record.run_id.clone(),
    fingerprint: record.fingerprint.clone(),
    created_at: now_ms(),
    extra: serde_json::Map::new(),
  };
  let size = Arc::new(AtomicU64::new(0));
  let counter = Arc::clone(&size);
  let counted = reemit(tar, vetting(core, base)).inspect(move |piece| {
    let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
    counter.fetch_add(bytes, Ordering::Relaxed);
  });
  core.snapshots.save(&record.key, meta, counted.boxed()).await?;
  Ok(size.load(Ordering::Relaxed))
}

/// The tar that a run's snapshot holds, vetted again while it is read: a store may be files or code of the application.
/// `why` says what became of the run's container, for messages.
pub async fn load(core: &Core, record: &LeaseRecord, why: &str) -> Result<ByteStream> {
  let run = &record.run_id;
  let snapshot = core.snapshots.load(&record.key).await?.ok_or_else(|| {
    fail!(
      SnapshotInvalid,
      "The container of run {run} {why}, and the snapshot that its lease speaks of is gone too."
    )
  })?;
  if (&snapshot.meta.run_id, &snapshot.meta.fingerprint) != (run, &record.fingerprint) {
    return Err(fail!(
      SnapshotInvalid,
      "The container of run {run} {why}, and the snapshot in its place is of another run or environment. Check what else writes to this snapshot store."
    ));
  }
  Ok(reemit(snapshot.tar, vetting(core, None)))
}

/// How a tar of a workspace is written afresh, whoever wrote it.
fn vetting(core: &Core, base: Option<&'static str>) -> ReemitOptions {
  let limits = &core.options.limits;
  ReemitOptions {
    base,
    owner: core.options.user.into(),
    limits: ArchiveLimits {
      max_entries: MAX_ARCHIVE_ENTRIES,
      max_file_bytes: limits.max_workspace_bytes,
      max_total_bytes: limits.max_workspace_bytes,
      symlinks: SymlinkRule::Anywhere,
    },
    code: ErrorCode::SnapshotInvalid,
  }
}

/// Headers and padding of many small files can be as long as the files themselves.
const fn archive_cap(workspace: u64) -> u64 {
  workspace.saturating_mul(2).saturating_add(64 * 1024 * 1024)
}
