//! The workspace of a run: to the store and back, vetted both ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, future, stream};

use super::acquire::held;
use super::claim::Claim;
use super::core::Core;
use crate::archive::{ArchiveLimits, ReemitOptions, SymlinkRule, reemit};
use crate::cancel::Cancel;
use crate::clock::now_ms;
use crate::docker::ByteStream;
use crate::error::{ErrorCode, Result, fail};
use crate::limits::MAX_ARCHIVE_ENTRIES;
use crate::sandbox::{Export, Sandbox};
use crate::store::lease::{LeaseRecord, SnapshotState};
use crate::store::snapshot::{Snapshot, SnapshotMeta};

/// What is under way, for messages.
const WHAT: &str = "Saving the workspace";

/// A vetted tar of the workspace goes to the store, as it is read. Returns what is known of it, and its size. Where the
/// run is another holder's by the time that the tar ends, the store gets an error in place of its end, and keeps what it has.
pub async fn save(
  core: &Core,
  sandbox: &dyn Sandbox,
  claim: &Claim,
  run: &str,
  key: &str,
  cancel: &Cancel,
) -> Result<(SnapshotMeta, u64)> {
  let meta = SnapshotMeta {
    run_id: run.to_owned(),
    fingerprint: core.fingerprint()?.to_owned(),
    created_at: now_ms(),
    extra: serde_json::Map::new(),
  };
  let cap = archive_cap(core.options.limits.max_workspace_bytes);
  let Export { tar, base } = sandbox.export(cap, cancel).await?;
  let size = Arc::new(AtomicU64::new(0));
  let counter = Arc::clone(&size);
  let counted = reemit(tar, vetting(core, base)).inspect(move |piece| {
    let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
    counter.fetch_add(bytes, Ordering::Relaxed);
  });
  let (claim, of) = (claim.clone(), run.to_owned());
  let still_held =
    stream::once(async move { if claim.is_held().await? { Ok(Bytes::new()) } else { Err(held(&of)) } });
  let tar = counted.chain(still_held).try_filter(|piece| future::ready(!piece.is_empty())).boxed();
  // The store is left with an error where this is cancelled, and not alone: what it saved then might come after the next.
  core.snapshots.save(key, meta.clone(), cancelled_by(cancel, tar)).await?;
  Ok((meta, size.load(Ordering::Relaxed)))
}

fn cancelled_by(cancel: &Cancel, tar: ByteStream) -> ByteStream {
  let pieces = stream::unfold(Some((tar, cancel.clone())), |state| async {
    let (mut tar, cancel) = state?;
    let piece = cancel.guard(WHAT, async { tar.next().await.transpose() }).await;
    match piece.transpose()? {
      Ok(piece) => Some((Ok(piece), Some((tar, cancel)))),
      Err(error) => Some((Err(error), None)),
    }
  });
  pieces.boxed()
}

/// A snapshot in place of a container that was lost.
pub enum Found {
  /// It is the workspace as it was. Its tar is vetted again while it is read: a store may be files or code of the
  /// application.
  Current(ByteStream),
  /// It is older than the run's last work, or nobody can tell; when it was taken.
  Older(u64),
}

/// The snapshot of a run whose container was lost. `why` says what became of that, for messages.
pub async fn find(core: &Core, record: &LeaseRecord, why: &str) -> Result<Found> {
  let run = &record.run_id;
  let Some(Snapshot { meta, tar }) = core.snapshots.load(&record.key).await? else {
    return Err(match record.snapshot_state {
      SnapshotState::None => fail!(
        ContainerLost,
        "The container of run {run} {why} and it has no snapshot. Its workspace cannot be restored; start a new run."
      ),
      SnapshotState::Current | SnapshotState::Stale => fail!(
        SnapshotInvalid,
        "The container of run {run} {why}, and the snapshot that its lease speaks of is gone too."
      ),
    });
  };
  if (&meta.run_id, &meta.fingerprint) != (run, &record.fingerprint) {
    return Err(fail!(
      SnapshotInvalid,
      "The container of run {run} {why}, and the snapshot in its place is of another run or environment. Check what else writes to this snapshot store."
    ));
  }
  // Another one than the lease speaks of: that of a holder that went on after it had lost the run.
  let named = record.snapshot_at.is_none_or(|at| at == meta.created_at);
  if record.snapshot_state == SnapshotState::Current && named {
    return Ok(Found::Current(reemit(tar, vetting(core, None))));
  }
  Ok(Found::Older(meta.created_at))
}

/// Whether the store still has the snapshot that a lease speaks of.
pub async fn is_kept(core: &Core, record: &LeaseRecord) -> Result<Option<SnapshotMeta>> {
  let found = core.snapshots.load(&record.key).await?.map(|found| found.meta);
  Ok(found.filter(|meta| {
    meta.run_id == record.run_id
      && meta.fingerprint == record.fingerprint
      && record.snapshot_at == Some(meta.created_at)
  }))
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
