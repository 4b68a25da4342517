//! What this environment makes for runs that are not on record yet. Its own sweeps leave that alone, however long it takes.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nonces of what is under way.
#[derive(Default)]
pub struct Making(Mutex<BTreeSet<String>>);

impl Making {
  /// Under way until the mark is dropped: when its lease is saved, or all of it was removed.
  pub fn begin(&self, nonce: String) -> Mark<'_> {
    self.nonces().insert(nonce.clone());
    Mark { making: self, nonce }
  }

  /// To be asked before the lease is looked for, which is there by the time that this says no.
  pub fn has(&self, nonce: &str) -> bool {
    self.nonces().contains(nonce)
  }

  fn nonces(&self) -> MutexGuard<'_, BTreeSet<String>> {
    // No code panics while it holds the lock, and a set is whole between two changes.
    self.0.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

/// Something is under way.
pub struct Mark<'a> {
  making: &'a Making,
  nonce: String,
}

impl Drop for Mark<'_> {
  fn drop(&mut self) {
    self.making.nonces().remove(&self.nonce);
  }
}
