//! Counters: connections and look-ups that are open now, and what a session and its run have used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::quotas::{Quotas, RunCounts};
use super::refusal::{Quota, Refusal};

/// Counts connections over several proxies.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Slots);

impl OpenConnections {
  /// A counter of its own.
  pub fn new() -> Self {
    Self::default()
  }

  /// The counter of this process.
  pub fn of_process() -> Self {
    static OPEN: LazyLock<OpenConnections> = LazyLock::new(OpenConnections::new);
    OPEN.clone()
  }

  /// How many are open now.
  pub fn count(&self) -> u64 {
    self.0.0.load(Ordering::Acquire)
  }

  pub(super) fn take(&self, max: u64) -> Option<Slot> {
    self.0.take(max)
  }
}

/// Counts what is open at the same time.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots(Arc<AtomicU64>);

/// One that is open; dropping it makes room.
#[derive(Debug)]
pub(super) struct Slot(Arc<AtomicU64>);

impl Slots {
  /// Opens one, if fewer than `max` are open.
  pub(super) fn take(&self, max: u64) -> Option<Slot> {
    let more = |open: u64| (open < max).then_some(open + 1);
    self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
    Some(Slot(Arc::clone(&self.0)))
  }
}

impl Drop for Slot {
  fn drop(&mut self) {
    self.0.fetch_sub(1, Ordering::AcqRel);
  }
}

/// What one session and its run have used.
#[derive(Debug)]
pub(super) struct Ledger {
  requests: Mutex<Requests>,
  bytes: AtomicU64,
}

#[derive(Debug)]
struct Requests {
  session: u64,
  run: u64,
}

impl Ledger {
  /// A new session of a run that had used so much.
  pub(super) fn new(used: RunCounts) -> Self {
    let requests = Mutex::new(Requests { session: 0, run: used.requests });
    Self { requests, bytes: AtomicU64::new(used.bytes) }
  }

  /// What the run has used.
  pub(super) fn counts(&self) -> RunCounts {
    let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).run;
    RunCounts { requests, bytes: self.bytes.load(Ordering::Acquire) }
  }

  /// Counts one more request, unless that would pass a quota or no byte is left for it.
  pub(super) fn count_request(&self, quotas: &Quotas) -> Result<(), Refusal> {
    let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
    if requests.session >= quotas.max_requests {
      return Err(Refusal::Quota(Quota::SessionRequests(quotas.max_requests)));
    }
    if requests.run >= quotas.max_network_requests {
      return Err(Refusal::Quota(Quota::RunRequests(quotas.max_network_requests)));
    }
    if self.bytes.load(Ordering::Acquire) >= quotas.max_network_bytes {
      return Err(Refusal::Quota(Quota::RunBytes(quotas.max_network_bytes)));
    }
    requests.session += 1;
    requests.run += 1;
    Ok(())
  }

  /// Counts up to `wanted` bytes; returns how many the run's quota still allowed.
  pub(super) fn take_bytes(&self, wanted: u64, quotas: &Quotas) -> u64 {
    let granted = |used: u64| wanted.min(quotas.max_network_bytes.saturating_sub(used));
    let take = |used: u64| Some(used + granted(used));
    let before = self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
    granted(before.unwrap_or_else(|used| used))
  }
}

#[cfg(test)]
mod tests;
