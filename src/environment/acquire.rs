//! Acquiring a run: a new one, one that waited, one whose holder died.

use std::sync::Arc;

use super::core::Core;
use super::create::{Contents, create_container, nonce, sandbox};
use super::host::{now_ms, random_token};
use super::release::remove_everything;
use super::session::Session;
use super::spec;
use super::status;
use crate::cancel::Cancel;
use crate::error::{Error, Result, fail};
use crate::sandbox::Sandbox;
use crate::store::lease::{LeaseRecord, Scope, SnapshotState, run_key};

/// Which run is wanted.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
  /// Id of the run, unique within the scope.
  pub run_id: String,
  /// Whose run it is.
  pub scope: Option<Scope>,
}

/// Acquires the run for this process.
pub async fn acquire(core: &Arc<Core>, request: &AcquireRequest, cancel: &Cancel) -> Result<Session> {
  core.check_open()?;
  cancel.check("Acquiring the sandbox")?;
  let key = run_key(request.scope.as_ref(), &request.run_id)?;
  let found = core.leases.load(&key).await?;
  match found {
    None => start(core, &key, request, cancel).await,
    Some(record) if status::is_terminal(&record.status) => {
      if !core.host.is_free(record.holder.as_ref(), now_ms()) {
        return Err(held(&record.run_id));
      }
      // A release that did not get to its end.
      claim_for_removal(core, record).await?;
      start(core, &key, request, cancel).await
    }
    Some(record) => resume(core, record, cancel).await,
  }
}

async fn start(core: &Arc<Core>, key: &str, request: &AcquireRequest, cancel: &Cancel) -> Result<Session> {
  let token = random_token()?;
  let made = create_container(core, key, &token, Contents::Seed, cancel).await?;
  let saved = async {
    let record = LeaseRecord {
      key: key.to_owned(),
      run_id: request.run_id.clone(),
      environment_id: core.options.id.clone(),
      workspace_id: core.options.workspace.id.clone(),
      fingerprint: core.fingerprint()?.to_owned(),
      owner_id: core.owner_id.clone(),
      container_id: made.id.clone(),
      container_name: made.name.clone(),
      network_id: None,
      image_ids: Vec::new(),
      token,
      fence: 1,
      holder: Some(core.host.holder()?),
      expires_at: core.expiry(),
      status: status::RUNNING.to_owned(),
      snapshot_state: SnapshotState::None,
    };
    if core.leases.save(&record, None).await? { Ok(record) } else { Err(held(&request.run_id)) }
  };
  match saved.await {
    Ok(record) => Ok(Session::open(Arc::clone(core), record, made.sandbox)),
    Err(error) => {
      core.engine.remove_container(&made.id).await.ok();
      Err(error)
    }
  }
}

async fn resume(core: &Arc<Core>, record: LeaseRecord, cancel: &Cancel) -> Result<Session> {
  check_same(core, &record)?;
  let now = now_ms();
  if !core.host.is_free(record.holder.as_ref(), now) {
    return Err(held(&record.run_id));
  }
  if now > record.expires_at {
    let run = record.run_id.clone();
    claim_for_removal(core, record).await?;
    return Err(fail!(
      LeaseExpired,
      "The lease of run {run} has expired; its container and snapshot are removed. Start a new run, or raise leaseMs for runs that wait longer."
    ));
  }
  cancel.check("Acquiring the sandbox")?;
  let crashed = record.holder.is_some();
  match running(core, &record).await? {
    Some(sandbox) => {
      let record = take_over(core, record).await?;
      if crashed {
        // Commands of the holder that died may still run.
        sandbox.kill_all().await?;
      }
      Ok(Session::open(Arc::clone(core), record, sandbox))
    }
    None => restore(core, record, cancel).await,
  }
}

/// The run's container if it runs, is the one on record, and has today's limits.
async fn running(core: &Core, record: &LeaseRecord) -> Result<Option<Arc<dyn Sandbox>>> {
  let found = match core.engine.inspect_container(&record.container_id).await {
    Ok(found) if found.state.running => found,
    Ok(_ended) => return Ok(None),
    Err(gone) if gone.is_not_found() => return Ok(None),
    Err(error) => return Err(error),
  };
  let labels = found.config.labels.clone().unwrap_or_default();
  if labels.get(spec::LABEL_NONCE).is_none_or(|label| *label != nonce(&record.token)) {
    return Err(fail!(
      Conflict,
      "Container {} of run {} is not the one that its lease speaks of. Check what else uses this engine and this lease store.",
      record.container_name,
      record.run_id
    ));
  }
  spec::verify(&found, &core.options)?;
  Ok(Some(sandbox(core, &record.container_id)))
}

async fn take_over(core: &Core, mut record: LeaseRecord) -> Result<LeaseRecord> {
  let fence = record.fence;
  record.fence += 1;
  record.holder = Some(core.host.holder()?);
  record.expires_at = core.expiry();
  record.status = status::RUNNING.to_owned();
  if record.snapshot_state == SnapshotState::Current {
    // The workspace may change from now on.
    record.snapshot_state = SnapshotState::Stale;
  }
  if core.leases.save(&record, Some(fence)).await? { Ok(record) } else { Err(held(&record.run_id)) }
}

/// Rebuilds a lost container from its snapshot.
async fn restore(core: &Arc<Core>, record: LeaseRecord, cancel: &Cancel) -> Result<Session> {
  let run = &record.run_id;
  match record.snapshot_state {
    SnapshotState::None => {
      return Err(fail!(
        ContainerLost,
        "The container of run {run} is gone and it has no snapshot. Its workspace cannot be restored; start a new run."
      ));
    }
    SnapshotState::Stale => {
      return Err(fail!(
        SnapshotInvalid,
        "The container of run {run} is gone, and its snapshot is older than its last work. It is not restored; start a new run."
      ));
    }
    SnapshotState::Current => {}
  }
  let snapshot = core.snapshots.load(&record.key).await?.ok_or_else(|| {
    fail!(
      SnapshotInvalid,
      "The container of run {run} is gone, and so is the snapshot that its lease speaks of."
    )
  })?;
  let mut record = take_over(core, record).await?;
  core.engine.remove_container(&record.container_id).await.or_else(gone_is_fine)?;
  let made =
    create_container(core, &record.key, &record.token, Contents::Snapshot(snapshot.tar), cancel).await;
  let made = match made {
    Ok(made) => made,
    Err(error) => {
      // The snapshot is still good: the next acquire may try again.
      record.snapshot_state = SnapshotState::Current;
      record.holder = None;
      core.leases.save(&record, Some(record.fence)).await.ok();
      return Err(error);
    }
  };
  record.container_id.clone_from(&made.id);
  if core.leases.save(&record, Some(record.fence)).await? {
    return Ok(Session::open(Arc::clone(core), record, made.sandbox));
  }
  core.engine.remove_container(&made.id).await.ok();
  Err(held(&record.run_id))
}

/// Makes sure that nobody else holds the run, then removes all that it had.
async fn claim_for_removal(core: &Core, mut record: LeaseRecord) -> Result<()> {
  let fence = record.fence;
  record.fence += 1;
  record.holder = Some(core.host.holder()?);
  if !core.leases.save(&record, Some(fence)).await? {
    return Err(held(&record.run_id));
  }
  remove_everything(core, &mut record).await
}

fn check_same(core: &Core, record: &LeaseRecord) -> Result<()> {
  let now = [&core.options.id, &core.options.workspace.id, core.fingerprint()?];
  let then = [&record.environment_id, &record.workspace_id, &record.fingerprint];
  for ((what, now), then) in
    ["environment id", "workspace id", "manifest fingerprint"].into_iter().zip(now).zip(then)
  {
    if now != then {
      return Err(fail!(
        Conflict,
        "Run {} was started with another {what} ({then}, now {now}). Resume it with the environment that started it, or start a new run.",
        record.run_id
      ));
    }
  }
  Ok(())
}

fn held(run: &str) -> Error {
  fail!(
    Conflict,
    "Run {run} is held by another process or by another call of this one. Wait until it is released, or until its holder has been silent for 20 s."
  )
}

fn gone_is_fine(error: Error) -> Result<()> {
  if error.is_not_found() { Ok(()) } else { Err(error) }
}
