//! An acquired run: its operations, each within the session's life and its holder's fence.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use super::changes::{By, Change, Changes};
use super::checkpoint;
use super::claim::Claim;
use super::connect::Connected;
use super::core::Core;
use super::event::{Kind, millis};
use super::heartbeat;
use super::network::Serving;
use super::places::Places;
use super::release::{self, Ended, Failed};
use crate::awake::Moment;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorCode, Result, fail, shown};
use crate::limits::HEARTBEAT_INTERVAL;
use crate::sandbox::Sandbox;
use crate::store::lease::{LeaseRecord, NetworkUsed, SnapshotState};

/// A run that this process holds. Cheap to clone.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
  core: Arc<Core>,
  sandbox: Arc<dyn Sandbox>,
  /// Why it has not the resident transport, where that was wanted.
  instead: Option<String>,
  /// The proxy at work for it, where there is an allowlist.
  serving: Option<Serving>,
  /// The lease as this holder last wrote it.
  record: Mutex<LeaseRecord>,
  changes: Changes,
  /// Held while a snapshot is taken: never two at once.
  saving: Mutex<()>,
  claim: Claim,
  run_id: String,
  key: String,
  /// Cancelled at release, or when the lease is lost.
  life: Cancel,
  /// Operations under way; closed by `release`, after which none begins.
  running: TaskTracker,
  places: Places,
  released: AtomicBool,
  /// Cancelled when the first `release` is done.
  ended: Cancel,
  told: Told,
}

/// What events have told of a session, each once.
#[derive(Default)]
pub(super) struct Told {
  /// That its lease is lost.
  pub lease: AtomicBool,
  /// That its container is.
  pub container: AtomicBool,
}

impl Session {
  /// A session over a lease that was just written. What that says of the snapshot is true of the workspace now.
  pub(super) fn open(
    core: &Arc<Core>,
    record: LeaseRecord,
    connected: Connected,
    instead: Option<String>,
  ) -> Self {
    let core = Arc::clone(core);
    let Connected { sandbox, connections } = connected;
    let same = record.snapshot_state == SnapshotState::Current;
    let session = Self(Arc::new(Inner {
      serving: Serving::start(&core, &record, connections),
      life: core.closed.child(),
      changes: Changes::new(same, sandbox.capabilities().commands_end),
      places: Places::new(core.options.limits.max_concurrent_processes, sandbox.capabilities()),
      saving: Mutex::new(()),
      ended: Cancel::new(),
      sandbox,
      instead,
      claim: Claim::of(&core, &record),
      run_id: record.run_id.clone(),
      key: record.key.clone(),
      record: Mutex::new(record),
      running: TaskTracker::new(),
      released: AtomicBool::new(false),
      told: Told::default(),
      core,
    }));
    heartbeat::start(&session);
    checkpoint::start(&session);
    session
  }

  /// What all runs of this environment share.
  pub fn core(&self) -> &Arc<Core> {
    &self.0.core
  }

  /// The container.
  pub fn sandbox(&self) -> &Arc<dyn Sandbox> {
    &self.0.sandbox
  }

  /// Why the container was made without the resident transport although the environment would have taken it.
  pub fn instead(&self) -> Option<&str> {
    self.0.instead.as_deref()
  }

  /// True once `release` was called.
  pub fn is_released(&self) -> bool {
    self.0.released.load(Ordering::Acquire)
  }

  /// The run's id within its scope.
  pub fn run_id(&self) -> &str {
    &self.0.run_id
  }

  /// How connections to the proxy of its allowlist leave the container: `stream`, and it has no network, or `bridge`. `None`
  /// without an allowlist.
  pub fn network(&self) -> Option<&'static str> {
    let transport = self.0.sandbox.capabilities().transport;
    self.0.serving.as_ref().map(|_| if transport == "resident" { "stream" } else { "bridge" })
  }

  /// What the run has used of its network budgets by now; `None` without an allowlist.
  pub(super) fn network_used(&self) -> Option<NetworkUsed> {
    self.0.serving.as_ref().map(Serving::used)
  }

  /// Cuts the run's connections and takes no more; what it has used in the end.
  pub(super) async fn end_network(&self) -> Option<NetworkUsed> {
    match &self.0.serving {
      Some(serving) => Some(serving.end().await),
      None => None,
    }
  }

  pub(super) fn told(&self) -> &Told {
    &self.0.told
  }

  pub(super) fn life(&self) -> &Cancel {
    &self.0.life
  }

  pub(super) fn record(&self) -> &Mutex<LeaseRecord> {
    &self.0.record
  }

  /// The run's key in stores.
  pub(super) fn key(&self) -> &str {
    &self.0.key
  }

  pub(super) fn claim(&self) -> &Claim {
    &self.0.claim
  }

  pub(super) fn changes(&self) -> &Changes {
    &self.0.changes
  }

  /// Held while a snapshot is taken.
  pub(super) fn saving(&self) -> &Mutex<()> {
    &self.0.saving
  }

  pub(super) fn running(&self) -> &TaskTracker {
    &self.0.running
  }

  pub(super) fn fence(&self) -> u64 {
    self.0.claim.fence()
  }

  /// The lease as the store has it; `None` where it is another holder's or is gone.
  pub(super) async fn lease(&self) -> Result<Option<LeaseRecord>> {
    self.0.claim.lease().await
  }

  /// Changes this holder's lease, and the record in memory whatever becomes of that. False where the lease is another
  /// holder's or is gone, which is told.
  pub(super) async fn rewrite(
    &self,
    record: &mut LeaseRecord,
    change: impl FnOnce(&mut LeaseRecord),
  ) -> Result<bool> {
    let found = self.lease().await;
    change(record);
    let written = match found? {
      None => false,
      Some(found) => {
        // What others wrote into it is theirs.
        record.extra = found.extra;
        self.0.core.leases.save(record, Some(self.fence())).await?
      }
    };
    if !written {
      self.lost_lease();
    }
    Ok(written)
  }

  /// An operation that may change the workspace begins, until what is returned is dropped. Before it does anything, the
  /// lease no longer says that the snapshot is current.
  pub(super) async fn begin_change(&self, by: By) -> Result<Change> {
    let change = self.0.changes.begin(by);
    if !self.0.changes.is_doubted() {
      let mut record = self.0.record.lock().await;
      if !self.0.changes.is_doubted() {
        if !self.rewrite(&mut record, |record| record.snapshot_state = SnapshotState::Stale).await? {
          return Err(self.taken_over());
        }
        self.0.changes.doubt();
      }
    }
    Ok(change)
  }

  /// The places of what goes on at the same time.
  pub(super) fn places(&self) -> &Places {
    &self.0.places
  }

  /// Runs one operation: refused after release or with an old fence, ended by the caller's signal and by release.
  pub(super) async fn operate<T, F>(&self, caller: &Cancel, operation: impl FnOnce(Cancel) -> F) -> Result<T>
  where
    F: Future<Output = Result<T>>,
  {
    let _running = self.0.running.token();
    if self.is_released() {
      return Err(self.released_error());
    }
    self.0.core.check_open()?;
    self.check_fence().await?;
    let begun = Moment::now();
    let either = self.0.life.child();
    let ended = caller.pass_on(&either, operation(either.clone())).await;
    // A holder that was stopped has not heard yet who follows: what ended its operation may have been that one.
    let stopped = begun.elapsed() >= HEARTBEAT_INTERVAL;
    match ended {
      Ok(_) if stopped && self.is_lost().await => Err(self.taken_over()),
      Ok(done) => Ok(done),
      Err(error) => match self.judge(error, caller, stopped).await {
        error if error.is_cancelled() && !caller.is_cancelled() => Err(self.ended_error(error)),
        error => Err(error),
      },
    }
  }

  /// Whoever took the run over has a higher fence; then this session touches nothing any more. An answer that took long is
  /// of a time before that: this process may have been stopped, and followed, meanwhile. So it is asked for once more.
  async fn check_fence(&self) -> Result<()> {
    let asked = Moment::now();
    let mut held = self.0.claim.is_held().await?;
    if held && asked.elapsed() >= HEARTBEAT_INTERVAL {
      held = self.0.claim.is_held().await?;
    }
    if held { Ok(()) } else { Err(self.taken_over()) }
  }

  pub(super) fn taken_over(&self) -> Error {
    self.lost_lease();
    self.0.life.cancel();
    fail!(
      Conflict,
      "Run {} was taken over by another holder; this session can do nothing more. Acquire the run again.",
      self.0.run_id
    )
  }

  /// What an operation's error means. To a holder who slept while another took the run over, its container is lost, or its
  /// operation was ended by a heartbeat that found out first; the same errors mean what they say to everybody else.
  async fn judge(&self, error: Error, caller: &Cancel, stopped: bool) -> Error {
    let perhaps = match error.code() {
      ErrorCode::ContainerLost => true,
      ErrorCode::Cancelled | ErrorCode::Released => !caller.is_cancelled(),
      _ => stopped,
    };
    if perhaps && self.is_lost().await {
      return self.taken_over().with_source(error);
    }
    self.look_for_loss(&error);
    error
  }

  /// Whether another holder is known to have the lease. A store that fails tells nothing.
  async fn is_lost(&self) -> bool {
    !self.is_released() && matches!(self.0.claim.is_held().await, Ok(false))
  }

  /// Ends the session. Never fails: what could not be done is marked on the lease, and `sweep` finishes it. Returns why
  /// something could not be done, which an event tells too.
  pub async fn release(&self, status: &str) -> Option<Error> {
    if self.0.released.swap(true, Ordering::AcqRel) {
      // The first call is doing it; this one waits for it to be done.
      self.0.ended.cancelled().await;
      return None;
    }
    let begun = Instant::now();
    let result = release::release(self, status).await;
    self.0.sandbox.detach();
    self.tell_release(status, begun, &result);
    self.0.ended.cancel();
    result.err().map(|failed| failed.error)
  }

  fn tell_release(&self, status: &str, begun: Instant, result: &Result<Ended, Failed>) {
    let (status, duration_ms) = (|| shown(status).to_owned(), millis(begun));
    match result {
      // `lease_lost` told it.
      Ok(Ended::Lost) => {}
      Ok(Ended::Removed) => {
        self.emit(|| Kind::Released { status: status(), kept: false, snapshot_bytes: None, duration_ms })
      }
      Ok(Ended::Kept { bytes }) => {
        self.emit(|| Kind::Released { status: status(), kept: true, snapshot_bytes: *bytes, duration_ms })
      }
      Err(Failed { undone, error }) => {
        let code = error.code().as_str();
        self.emit(|| Kind::ReleaseFailed { status: status(), undone: *undone, code, duration_ms });
      }
    }
  }

  fn released_error(&self) -> Error {
    fail!(
      Released,
      "The sandbox session of run {} was released; acquire the run again to go on.",
      self.0.run_id
    )
  }

  fn ended_error(&self, error: Error) -> Error {
    fail!(Released, "The sandbox session of run {} ended while this was under way.", self.0.run_id)
      .with_source(error)
  }
}
