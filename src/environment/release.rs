//! The end of a session: keep the run for later, or remove all that it had.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::acquire::held;
use super::checkpoint;
use super::claim::Claim;
use super::core::Core;
use super::event::{Resource, Undone};
use super::heartbeat::{beating, beating_session};
use super::images;
use super::leftovers;
use super::session::Session;
use super::status;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorCode, Result};
use crate::store::lease::{LeaseRecord, SnapshotState};

/// How long operations that are being cancelled may take to end before the container goes without them.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// What a release did.
pub enum Ended {
  /// Nothing: another holder has the run.
  Lost,
  /// All that the run had is removed.
  Removed,
  /// The run waits.
  Kept {
    /// Size of the snapshot that was saved, where one was.
    bytes: Option<u64>,
  },
}

/// What a release could not do, and why.
pub struct Failed {
  /// What.
  pub undone: Undone,
  /// Why.
  pub error: Error,
}

impl Undone {
  const fn because(self, error: Error) -> Failed {
    Failed { undone: self, error }
  }
}

/// Ends the session's operations and does what `status` asks for.
pub async fn release(session: &Session, status: &str) -> Result<Ended, Failed> {
  session.life().cancel();
  session.running().close();
  let used = session.end_network().await;
  session.record().lock().await.network_used = used;
  let found = session.lease().await;
  if matches!(found, Ok(None)) {
    // Somebody else holds the run, or it is gone: nothing here is ours any more.
    let _drained = timeout(DRAIN_TIMEOUT, session.running().wait()).await;
    session.lost_lease();
    return Ok(Ended::Lost);
  }
  let core = session.core();
  let _drained = beating_session(session, timeout(DRAIN_TIMEOUT, session.running().wait())).await;
  if status::is_terminal(status) {
    let mut record = session.record().lock().await;
    // What others wrote into it is theirs. A store that failed just now is asked again by what comes next, which compares
    // fences too: nothing would come after a release that ends here.
    if let Ok(Some(found)) = found {
      record.extra = found.extra;
    }
    record.status = status.to_owned();
    match remove_everything(core, &mut record).await {
      Ok(()) => Ok(Ended::Removed),
      Err(error) => {
        if error.code() == ErrorCode::Conflict {
          session.lost_lease();
        }
        Err(Undone::Removal.because(error))
      }
    }
  } else {
    keep(session, status).await
  }
}

/// The tar is in the store before the lease says so, and an image is on record before it is made. A process that dies in
/// between leaves the run held by nobody who lives, in its container.
async fn keep(session: &Session, status: &str) -> Result<Ended, Failed> {
  let core = session.core();
  let saved = beating_session(session, checkpoint::take_last(session)).await;
  let imaged = match &saved {
    Ok(taken) => {
      let (begun, is_new, never) = (Instant::now(), taken.bytes().is_some(), Cancel::new());
      let renewed = beating_session(session, images::renew(session, is_new, &never)).await;
      renewed.inspect_err(|error| checkpoint::failed(session, begun, error))
    }
    Err(_) => Ok(()),
  };
  let mut record = session.record().lock().await;
  let held = session.rewrite(&mut record, |record| {
    match &saved {
      Ok(taken) => taken.note(session, record),
      Err(_) if record.snapshot_state != SnapshotState::None && !session.changes().is_current() => {
        record.snapshot_state = SnapshotState::Stale;
      }
      Err(_) => {}
    }
    status.clone_into(&mut record.status);
    record.holder = None;
    record.expires_at = core.expiry();
  });
  if !held.await.map_err(|error| Undone::Lease.because(error))? {
    return Ok(Ended::Lost);
  }
  let kept = saved.and_then(|taken| imaged.map(|()| taken.bytes()));
  kept.map(|bytes| Ended::Kept { bytes }).map_err(|error| Undone::Snapshot.because(error))
}

/// Removes container, network, images, snapshot and lease, in this order: the lease goes last, so that what is left
/// when the host dies half way is still on record. On failure the record stays, held by nobody. `CONFLICT`, and nothing is
/// removed, where somebody else has the lease by now.
pub async fn remove_everything(core: &Core, record: &mut LeaseRecord) -> Result<()> {
  if !status::is_terminal(&record.status) {
    status::FAILED.clone_into(&mut record.status);
  }
  // First of all it is on record that this run has ended; a new holder finishes it instead of resuming it. With a fence of
  // its own: whoever looked at the record before, and takes the run over by what it saw, would have what is removed here.
  let fence = record.fence;
  record.fence += 1;
  match core.leases.save(record, Some(fence)).await {
    Ok(true) => {}
    Ok(false) => return Err(held(&record.run_id)),
    Err(error) => {
      // It may be written all the same.
      if !let_go(core, record).await {
        record.fence = fence;
        let_go(core, record).await;
      }
      return Err(error);
    }
  }
  let removed = match beating(core, record, remove_resources(core, record)).await {
    Ok(()) => {
      let removed = core.leases.remove(&record.key, record.fence).await;
      tell_left(core, record, Resource::Lease, &record.key, removed.map(drop))
    }
    Err(error) => Err(error),
  };
  if removed.is_err() {
    let_go(core, record).await;
  }
  removed
}

/// Takes this holder off the record of a run that it could not finish, so that the next one need not wait for its silence.
/// False where the record has another fence.
async fn let_go(core: &Core, record: &mut LeaseRecord) -> bool {
  record.holder = None;
  let saved = core.leases.save(record, Some(record.fence)).await;
  let is_ours = !matches!(saved, Ok(false));
  // The caller gets the first error; this one is only told.
  let _told = tell_left(core, record, Resource::Lease, &record.key, saved.map(drop));
  is_ours
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
  let claim = Claim::of(core, &record);
  match leftovers::remove_all(core, &record.run_id, &record.container_name, &claim).await {
    Ok(true) => remove_everything(core, &mut record).await,
    Ok(false) => Err(held(&record.run_id)),
    Err(error) => {
      let_go(core, &mut record).await;
      Err(error)
    }
  }
}

async fn remove_resources(core: &Core, record: &LeaseRecord) -> Result<()> {
  if !record.container_id.is_empty() {
    let container = core.engine.remove_container(&record.container_id).await;
    tell_left(core, record, Resource::Container, &record.container_id, container)?;
  }
  if let Some(id) = &record.network_id {
    tell_left(core, record, Resource::Network, id, core.engine.remove_network(id).await)?;
  }
  for id in &record.image_ids {
    tell_left(core, record, Resource::Image, id, core.engine.remove_image(id).await)?;
  }
  // It has the name of the run, which by now may be another's: this holder may have been stopped meanwhile.
  if !Claim::of(core, record).is_held().await? {
    return Err(held(&record.run_id));
  }
  let snapshot = core.snapshots.remove(&record.key).await;
  tell_left(core, record, Resource::Snapshot, &record.key, snapshot)
}

/// What is gone already is fine; what could not be removed is told, and stays an error.
fn tell_left(
  core: &Core,
  record: &LeaseRecord,
  resource: Resource,
  id: &str,
  removed: Result<()>,
) -> Result<()> {
  match removed {
    Err(error) if !error.is_not_found() => {
      core.events.left(Some(&record.run_id), resource, id, &error);
      Err(error)
    }
    _ => Ok(()),
  }
}
