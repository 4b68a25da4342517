//! An acquired run: its operations, each within the session's life and its holder's fence.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, Semaphore};
use tokio_util::task::TaskTracker;

use super::core::Core;
use super::heartbeat;
use super::release;
use crate::cancel::Cancel;
use crate::error::{Error, Result, fail};
use crate::sandbox::Sandbox;
use crate::store::lease::LeaseRecord;

/// A run that this process holds. Cheap to clone.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
  core: Arc<Core>,
  sandbox: Arc<dyn Sandbox>,
  /// Why it has not the resident transport, where that was wanted.
  instead: Option<String>,
  /// The lease as this holder last wrote it.
  record: Mutex<LeaseRecord>,
  fence: u64,
  token: String,
  key: String,
  run_id: String,
  /// Cancelled at release, or when the lease is lost.
  life: Cancel,
  /// Operations under way; closed by `release`, after which none begins.
  running: TaskTracker,
  processes: Semaphore,
  released: AtomicBool,
}

impl Session {
  /// A session over a lease that was just written.
  pub(super) fn open(
    core: Arc<Core>,
    record: LeaseRecord,
    sandbox: Arc<dyn Sandbox>,
    instead: Option<String>,
  ) -> Self {
    let processes = core.options.limits.max_concurrent_processes as usize;
    let session = Self(Arc::new(Inner {
      life: core.closed.child(),
      sandbox,
      instead,
      fence: record.fence,
      token: record.token.clone(),
      key: record.key.clone(),
      run_id: record.run_id.clone(),
      record: Mutex::new(record),
      running: TaskTracker::new(),
      processes: Semaphore::new(processes),
      released: AtomicBool::new(false),
      core,
    }));
    heartbeat::start(&session);
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

  pub(super) fn life(&self) -> &Cancel {
    &self.0.life
  }

  pub(super) fn record(&self) -> &Mutex<LeaseRecord> {
    &self.0.record
  }

  pub(super) fn running(&self) -> &TaskTracker {
    &self.0.running
  }

  pub(super) fn fence(&self) -> u64 {
    self.0.fence
  }

  /// False where the lease is another holder's or is gone. The token is compared too: a run that was ended and started
  /// anew has the first fence again.
  pub(super) async fn is_holder(&self) -> Result<bool> {
    let found = self.0.core.leases.load(&self.0.key).await?;
    Ok(found.is_some_and(|record| record.fence == self.0.fence && record.token == self.0.token))
  }

  /// A place among the commands that may run at the same time; waits for one.
  pub(super) async fn process_slot(&self, cancel: &Cancel) -> Result<tokio::sync::SemaphorePermit<'_>> {
    let slot =
      async { self.0.processes.acquire().await.map_err(|error| self.released_error().with_source(error)) };
    cancel.guard("Waiting for a place among the running commands", slot).await
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
    let either = self.0.life.child();
    let work = operation(either.clone());
    tokio::pin!(work);
    let result = tokio::select! {
      biased;
      () = caller.cancelled() => {
        // The operation ends its command and then itself.
        either.cancel();
        work.await
      }
      result = &mut work => result,
    };
    match result {
      Err(error) if error.is_cancelled() && !caller.is_cancelled() => Err(self.ended_error(error)),
      result => result,
    }
  }

  /// Whoever took the run over has a higher fence; then this session touches nothing any more.
  async fn check_fence(&self) -> Result<()> {
    if self.is_holder().await? {
      return Ok(());
    }
    self.0.life.cancel();
    Err(fail!(
      Conflict,
      "Run {} was taken over by another holder; this session can do nothing more. Acquire the run again.",
      self.0.run_id
    ))
  }

  /// Ends the session. Never fails: what could not be done is marked on the lease, and `sweep` finishes it. Returns why
  /// something could not be done, for events.
  pub async fn release(&self, status: &str) -> Option<Error> {
    if self.0.released.swap(true, Ordering::AcqRel) {
      // The first call is doing it; this one waits for it to be done.
      self.0.running.wait().await;
      let _done = self.0.record.lock().await;
      return None;
    }
    let failed = release::release(self, status).await.err();
    self.0.sandbox.detach();
    failed
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
