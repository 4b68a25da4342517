//! The end of a session: keep the run for later, or remove all that it had.

use std::time::Duration;

use tokio::time::timeout;

use super::acquire::held;
use super::core::Core;
use super::create::remove_ours;
use super::heartbeat::beating;
use super::host::now_ms;
use super::session::Session;
use super::status;
use crate::archive::{ArchiveLimits, ReemitOptions, SymlinkRule, reemit};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorCode, Result};
use crate::limits::MAX_ARCHIVE_ENTRIES;
use crate::sandbox::{Export, Sandbox};
use crate::store::lease::{LeaseRecord, SnapshotState};
use crate::store::snapshot::SnapshotMeta;

/// How long operations that are being cancelled may take to end before the container goes without them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Ends the session's operations and does what `status` asks for.
pub async fn release(session: &Session, status: &str) -> Result<()> {
  session.life().cancel();
  session.running().close();
  let mut record = session.record().lock().await;
  let core = session.core();
  if !session.is_holder().await? {
    // Somebody else holds the run, or it is gone: nothing here is ours any more.
    let _drained = timeout(DRAIN_TIMEOUT, session.running().wait()).await;
    return Ok(());
  }
  let _drained = beating(core, &record, timeout(DRAIN_TIMEOUT, session.running().wait())).await;
  if status::is_terminal(status) {
    record.status = status.to_owned();
    remove_everything(core, &mut record).await
  } else {
    keep(session, &mut record, status).await
  }
}

async fn keep(session: &Session, record: &mut LeaseRecord, status: &str) -> Result<()> {
  let core = session.core();
  let saved = beating(core, record, save_snapshot(core, session.sandbox().as_ref(), record)).await;
  record.snapshot_state = match (&saved, record.snapshot_state) {
    (Ok(()), _) => SnapshotState::Current,
    (Err(_), SnapshotState::None) => SnapshotState::None,
    (Err(_), _) => SnapshotState::Stale,
  };
  status.clone_into(&mut record.status);
  record.holder = None;
  record.expires_at = core.expiry();
  core.leases.save(record, Some(record.fence)).await?;
  saved
}

/// A vetted tar of the workspace goes to the store, as it is read.
async fn save_snapshot(core: &Core, sandbox: &dyn Sandbox, record: &LeaseRecord) -> Result<()> {
  let limits = &core.options.limits;
  let Export { tar, base } = sandbox.export(archive_cap(limits.max_workspace_bytes), &Cancel::new()).await?;
  let tar = reemit(
    tar,
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
    },
  );
  let meta = SnapshotMeta {
    run_id: record.run_id.clone(),
    fingerprint: record.fingerprint.clone(),
    created_at: now_ms(),
    extra: serde_json::Map::new(),
  };
  core.snapshots.save(&record.key, meta, tar).await
}

/// Headers and padding of many small files can be as long as the files themselves.
const fn archive_cap(workspace: u64) -> u64 {
  workspace.saturating_mul(2).saturating_add(64 * 1024 * 1024)
}

/// Removes container, network, images, snapshot and lease, in this order: the lease goes last, so that what is left
/// when the host dies half way is still on record. On failure the record stays, held by nobody. `CONFLICT`, and nothing is
/// removed, where somebody else has the lease by now.
pub async fn remove_everything(core: &Core, record: &mut LeaseRecord) -> Result<()> {
  if !status::is_terminal(&record.status) {
    "failed".clone_into(&mut record.status);
  }
  // First of all it is on record that this run has ended; a new holder finishes it instead of resuming it.
  if !core.leases.save(record, Some(record.fence)).await? {
    return Err(held(&record.run_id));
  }
  match beating(core, record, remove_resources(core, record)).await {
    Ok(()) => core.leases.remove(&record.key, record.fence).await.map(drop),
    Err(error) => {
      record.holder = None;
      core.leases.save(record, Some(record.fence)).await.ok();
      Err(error)
    }
  }
}

/// Makes sure that nobody else holds a run that has ended, then removes all that it had, a container included that an
/// acquire made and had no time to put on record.
pub async fn claim_and_remove(core: &Core, mut record: LeaseRecord) -> Result<()> {
  let fence = record.fence;
  record.fence += 1;
  record.holder = Some(core.host.holder()?);
  if !core.leases.save(&record, Some(fence)).await? {
    return Err(held(&record.run_id));
  }
  remove_ours(core, &record.container_name, &record.token).await;
  remove_everything(core, &mut record).await
}

async fn remove_resources(core: &Core, record: &LeaseRecord) -> Result<()> {
  core.engine.remove_container(&record.container_id).await.or_else(absent_is_fine)?;
  if let Some(network) = &record.network_id {
    core.engine.remove_network(network).await.or_else(absent_is_fine)?;
  }
  for image in &record.image_ids {
    core.engine.remove_image(image).await.or_else(absent_is_fine)?;
  }
  core.snapshots.remove(&record.key).await
}

fn absent_is_fine(error: Error) -> Result<()> {
  if error.is_not_found() { Ok(()) } else { Err(error) }
}
