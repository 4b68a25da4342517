//! Acquiring a run: a new one, one that waited, one whose holder died.

use std::sync::Arc;
use std::time::Instant;

use super::carrier::{Carrier, is_of_transport};
use super::claim::Claim;
use super::connect::{Connected, carrier_of, take_over_container};
use super::core::Core;
use super::create::{Contents, NewContainer, Run, create_container, nonce};
use super::event::{How, Kind, Resource, millis};
use super::heartbeat::beating;
use super::host::Previous;
use super::leftovers;
use super::pool;
use super::release::claim_and_remove;
use super::session::Session;
use super::silence;
use super::snapshot::{self, Found};
use super::spec;
use super::status;
use crate::cancel::{Cancel, cancelled};
use crate::clock::now_ms;
use crate::docker::ByteStream;
use crate::docker::model::Inspection;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::sandbox::Sandbox;
use crate::store::lease::{LeaseRecord, Scope, SnapshotState, run_key};

/// What is cancelled, for messages.
const WHAT: &str = "Acquiring the sandbox";

/// Which run is wanted.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
  /// Id of the run, unique within the scope.
  pub run_id: String,
  /// Whose run it is.
  pub scope: Option<Scope>,
}

/// Acquires the run for this process. Ended by the caller's signal, and by `close` of the environment.
pub async fn acquire(core: &Arc<Core>, request: &AcquireRequest, caller: &Cancel) -> Result<Session> {
  core.check_open()?;
  caller.check(WHAT)?;
  let begun = Instant::now();
  let _under_way = core.beats.token();
  let either = core.closed.child();
  // Boxed, as its longest parts are: a thread's stack holds what is polled, the whole way down to the engine's socket.
  match caller.pass_on(&either, Box::pin(acquire_run(core, request, &either))).await {
    Err(error) if error.is_cancelled() && !caller.is_cancelled() => {
      Err(core.check_open().err().unwrap_or(error))
    }
    result => result.map(|(session, how)| acquired(session, how, begun)),
  }
}

fn acquired(session: Session, how: How, begun: Instant) -> Session {
  session.emit(|| Kind::Acquired {
    how,
    transport: session.sandbox().capabilities().transport,
    fallback_reason: session.instead().map(str::to_owned),
    duration_ms: millis(begun),
  });
  session
}

async fn acquire_run(core: &Arc<Core>, request: &AcquireRequest, cancel: &Cancel) -> Result<(Session, How)> {
  let key = run_key(request.scope.as_ref(), &request.run_id)?;
  let found = core.leases.load(&key).await?;
  let run = Run { key: &key, id: &request.run_id };
  match found {
    None => Box::pin(start(core, run, cancel)).await,
    Some(record) if status::is_terminal(&record.status) => {
      check_same(core, &record)?;
      let record = free(core, record, cancel).await?;
      // A release that did not get to its end.
      Box::pin(claim_and_remove(core, record)).await?;
      Box::pin(start(core, run, cancel)).await
    }
    Some(record) => Box::pin(resume(core, record, cancel)).await,
  }
}

async fn start(core: &Arc<Core>, run: Run<'_>, cancel: &Cancel) -> Result<(Session, How)> {
  // No sweep removes one that waited in the pool.
  let (mut made, claim, how, _making) = match pool::take(core, run, cancel).await? {
    Some((made, claim)) => (made, claim, How::Pooled, None),
    None => {
      let claim = Claim::first(core, run.key)?;
      let making = core.making.begin(nonce(claim.token()));
      let made = create_container(core, run, &claim, Contents::Seed, cancel).await?;
      (made, claim, How::Started, Some(making))
    }
  };
  pool::fill(core);
  let written = async {
    let record = LeaseRecord {
      key: run.key.to_owned(),
      run_id: run.id.to_owned(),
      environment_id: core.options.id.clone(),
      workspace_id: core.options.workspace.id.clone(),
      fingerprint: core.fingerprint()?.to_owned(),
      owner_id: core.owner_id.clone(),
      container_id: made.id.clone(),
      container_name: made.name.clone(),
      network_id: made.network_id.clone(),
      image_ids: Vec::new(),
      network_used: None,
      token: claim.token().to_owned(),
      fence: claim.fence(),
      holder: Some(core.host.holder()?),
      expires_at: core.expiry(),
      status: status::RUNNING.to_owned(),
      snapshot_state: SnapshotState::None,
      snapshot_at: None,
      extra: serde_json::Map::new(),
    };
    let saved = core.leases.save(&record, None).await?;
    // Nobody waits for it any more: it goes as if it had not been saved.
    if saved { cancel.check(WHAT).map(|()| record) } else { Err(held(run.id)) }
  };
  match written.await {
    Ok(record) => {
      let connected = made.connected();
      Ok((Session::open(core, record, connected, made.instead), how))
    }
    Err(error) => {
      leftovers::unmake(core, run, &made, &claim).await;
      Err(error)
    }
  }
}

async fn resume(core: &Arc<Core>, record: LeaseRecord, cancel: &Cancel) -> Result<(Session, How)> {
  check_same(core, &record)?;
  let record = free(core, record, cancel).await?;
  if now_ms() > record.expires_at {
    let run = record.run_id.clone();
    claim_and_remove(core, record).await?;
    return Err(fail!(
      LeaseExpired,
      "The lease of run {run} has expired; its container and snapshot are removed. Start a new run, or raise leaseMs for runs that wait longer."
    ));
  }
  cancel.check(WHAT)?;
  let before = core.host.previous(record.holder.as_ref());
  let (found, carrier) = match running(core, &record).await? {
    Running::Here(found, carrier) => (found, carrier),
    Running::Lost(why) => {
      // Nothing is written to the workspace any more, but was perhaps since the last look.
      let run = record.run_id.clone();
      let Some(record) = silence::again(core, record).await? else { return Err(held(&run)) };
      tell_lost(core, &record, format!("it {why}"));
      return Box::pin(restore(core, record, why, cancel)).await;
    }
  };
  cancel.check(WHAT)?;
  let record = take_over(core, unsure(core, record)).await?;
  let taken = beating(core, &record, continue_in(core, &found, carrier, &record, before)).await;
  match taken {
    Ok(taken) if cancel.is_cancelled() => Err(leave(core, record, taken.sandbox.as_ref()).await),
    Ok(taken) => {
      let how = if before == Previous::Nobody { How::Resumed } else { How::TakenOver };
      Ok((Session::open(core, record, taken, None), how))
    }
    // Nothing was done in it since its snapshot: what does not answer is not needed.
    Err(error) if record.snapshot_state == SnapshotState::Current && is_of_transport(&error) => {
      tell_lost(core, &record, error.message().to_owned());
      // The restore takes the run over by itself; should it fail before that, the next acquire need not wait for us.
      give_up(core, record.clone()).await;
      Box::pin(restore(core, record, "does not answer", cancel)).await
    }
    Err(error) => {
      give_up(core, record).await;
      Err(error)
    }
  }
}

/// The code is that of the loss, whatever the transport called what it met.
fn tell_lost(core: &Core, record: &LeaseRecord, reason: String) {
  let code = ErrorCode::ContainerLost.as_str();
  core.events.emit(Some(&record.run_id), || Kind::ContainerLost { code, reason });
}

/// Connects to a container that was taken over. Commands of a holder that died may still run, and nobody may work beside
/// them.
async fn continue_in(
  core: &Core,
  found: &Inspection,
  carrier: Carrier,
  record: &LeaseRecord,
  before: Previous,
) -> Result<Connected> {
  let taken = take_over_container(core, found, carrier, &Claim::of(core, record), before).await?;
  if before != Previous::Nobody {
    taken.sandbox.kill_all().await?;
  }
  Ok(taken)
}

/// Leaves a run that was made ready and that nobody waits for any more. Nothing was done in it: whoever asks next finds it
/// as its lease says.
async fn leave(core: &Core, record: LeaseRecord, sandbox: &dyn Sandbox) -> Error {
  sandbox.detach();
  hand_over(core, LeaseRecord { holder: None, ..record }).await;
  cancelled(WHAT)
}

/// Leaves a run that was taken over, and could not be made ready, to the next holder, to whom this one is dead.
async fn give_up(core: &Core, mut record: LeaseRecord) {
  if let Some(holder) = &mut record.holder {
    holder.heartbeat_at = 0;
  }
  hand_over(core, record).await;
}

async fn hand_over(core: &Core, record: LeaseRecord) {
  if let Err(error) = core.leases.save(&record, Some(record.fence)).await {
    core.events.left(Some(&record.run_id), Resource::Lease, &record.key, &error);
  }
}

/// What has become of a run's container.
enum Running {
  /// It runs, is the one on record, and has today's limits.
  Here(Box<Inspection>, Carrier),
  /// It can serve nobody any more; why, in words for a message.
  Lost(&'static str),
}

async fn running(core: &Core, record: &LeaseRecord) -> Result<Running> {
  if record.container_id.is_empty() {
    // A restore did not get to its end.
    return Ok(Running::Lost("is gone"));
  }
  let found = match core.engine.inspect_container(&record.container_id).await {
    Ok(found) if found.state.running => found,
    Ok(_ended) => return Ok(Running::Lost("is gone")),
    Err(gone) if gone.is_not_found() => return Ok(Running::Lost("is gone")),
    Err(error) => return Err(error),
  };
  let labels = found.config.labels.as_ref();
  let label = labels.and_then(|labels| labels.get(spec::LABEL_NONCE));
  if label.is_none_or(|label| *label != nonce(&record.token)) {
    return Err(fail!(
      Conflict,
      "Container {} of run {} is not the one that its lease speaks of. Check what else uses this engine and this lease store.",
      record.container_name,
      record.run_id
    ));
  }
  if found.state.paused {
    return Err(fail!(
      DockerApi,
      "Container {} of run {} is paused. Unpause it (docker unpause) and acquire the run again.",
      record.container_name,
      record.run_id
    ));
  }
  spec::verify(&found, &core.options, record.network_id.as_deref(), core.engine.dialect().await?)?;
  match carrier_of(&found) {
    Some(carrier) => Ok(Running::Here(Box::new(found), carrier)),
    None => Ok(Running::Lost("was started by another version of this package")),
  }
}

/// The record that replaces one whose holder may have written to the workspace, and said so there, since it was looked at.
fn unsure(core: &Core, record: LeaseRecord) -> LeaseRecord {
  if record.snapshot_state == SnapshotState::Current && silence::may_write(core, &record) {
    return LeaseRecord { snapshot_state: SnapshotState::Stale, ..record };
  }
  record
}

/// The record of a run that nobody has.
async fn free(core: &Core, record: LeaseRecord, cancel: &Cancel) -> Result<LeaseRecord> {
  let run = record.run_id.clone();
  cancel.guard(WHAT, silence::free(core, record)).await?.ok_or_else(|| held(&run))
}

async fn take_over(core: &Core, mut record: LeaseRecord) -> Result<LeaseRecord> {
  let fence = record.fence;
  record.fence += 1;
  record.holder = Some(core.host.holder()?);
  record.expires_at = core.expiry();
  record.status = status::RUNNING.to_owned();
  if core.leases.save(&record, Some(fence)).await? { Ok(record) } else { Err(held(&record.run_id)) }
}

/// Rebuilds a lost container from its snapshot.
async fn restore(
  core: &Arc<Core>,
  record: LeaseRecord,
  why: &str,
  cancel: &Cancel,
) -> Result<(Session, How)> {
  let tar = match snapshot::find(core, &record, why).await? {
    Found::Current(tar) => tar,
    Found::Older(taken) => return Err(give_up_work(core, record, why, taken).await),
  };
  // The snapshot stays current until the new container is on record: whatever ends this, the next acquire can try again.
  // Until then there is none on record, so that nobody else goes on in one that is about to be removed.
  let lost = record.container_id.clone();
  let record = take_over(core, LeaseRecord { container_id: String::new(), ..record }).await?;
  let made = beating(core, &record, rebuild(core, &record, &lost, tar, cancel)).await;
  let mut made = match made {
    Ok(made) => made,
    Err(error) => {
      give_up(core, record).await;
      return Err(error);
    }
  };
  match put_on_record(core, &record, &made).await {
    Ok(record) if cancel.is_cancelled() => Err(leave(core, record, made.sandbox.as_ref()).await),
    Ok(record) => {
      let connected = made.connected();
      Ok((Session::open(core, record, connected, made.instead), How::Restored))
    }
    Err(error) => {
      let record = leftovers::unmake_restored(core, record, &made).await;
      give_up(core, record).await;
      Err(error)
    }
  }
}

/// A snapshot that is older than the run's last work takes the place of that only where somebody knows: this acquire says
/// so, and the next one goes on from it.
async fn give_up_work(core: &Core, record: LeaseRecord, why: &str, taken: u64) -> Error {
  let (run, fence) = (record.run_id.clone(), record.fence);
  let record = LeaseRecord {
    // Whoever held it, and may hang, has lost it.
    fence: fence + 1,
    holder: None,
    snapshot_state: SnapshotState::Current,
    snapshot_at: Some(taken),
    ..record
  };
  match core.leases.save(&record, Some(fence)).await {
    Ok(true) => lost_work(&run, why, taken),
    Ok(false) => held(&run),
    // Written all the same: the next acquire goes on from the snapshot, and somebody must have been told of the loss.
    Err(error) => match Claim::of(core, &record).is_held().await {
      Ok(true) => lost_work(&run, why, taken).with_source(error),
      _ => error,
    },
  }
}

fn lost_work(run: &str, why: &str, taken: u64) -> Error {
  fail!(
    SnapshotInvalid,
    "The container of run {run} {why}, and its snapshot, taken {} s ago, is older than its last work, which is lost. Acquire the run again to go on from that snapshot, or start a new run.",
    now_ms().saturating_sub(taken) / 1000
  )
}

async fn rebuild(
  core: &Core,
  record: &LeaseRecord,
  lost: &str,
  tar: ByteStream,
  cancel: &Cancel,
) -> Result<NewContainer> {
  if !lost.is_empty() {
    core.engine.remove_container(lost).await.or_else(Error::unless_gone)?;
  }
  if let Some(id) = &record.network_id {
    core.engine.remove_network(id).await.or_else(Error::unless_gone)?;
  }
  // What an earlier attempt made before its process died.
  let claim = Claim::of(core, record);
  if !leftovers::remove_all(core, &record.run_id, &record.container_name, &claim).await? {
    return Err(held(&record.run_id));
  }
  let run = Run { key: &record.key, id: &record.run_id };
  create_container(core, run, &claim, Contents::Snapshot(tar), cancel).await
}

async fn put_on_record(core: &Core, record: &LeaseRecord, made: &NewContainer) -> Result<LeaseRecord> {
  let record = LeaseRecord {
    container_id: made.id.clone(),
    network_id: made.network_id.clone(),
    holder: Some(core.host.holder()?),
    expires_at: core.expiry(),
    ..record.clone()
  };
  if core.leases.save(&record, Some(record.fence)).await? { Ok(record) } else { Err(held(&record.run_id)) }
}

fn check_same(core: &Core, record: &LeaseRecord) -> Result<()> {
  let now = [&core.options.id, &core.options.workspace.id, core.fingerprint()?];
  let then = [&record.environment_id, &record.workspace_id, &record.fingerprint];
  for ((what, now), then) in
    ["environment id", "workspace id", "manifest fingerprint"].into_iter().zip(now).zip(then)
  {
    if now != then {
      let advice = if status::is_terminal(&record.status) {
        "It has ended; what is left of it is removed by a sweep() of the environment that started it. Until then, start a run with another id."
      } else {
        "Resume it with the environment that started it, or start a new run."
      };
      return Err(fail!(
        Conflict,
        "Run {} was started with another {what} ({then}, now {now}). {advice}",
        record.run_id
      ));
    }
  }
  Ok(())
}

/// The error where somebody else has the run.
pub fn held(run: &str) -> Error {
  fail!(
    Conflict,
    "Run {run} is held by another process or by another call of this one. Wait until it is released, or until its holder has been silent for 20 s."
  )
}
