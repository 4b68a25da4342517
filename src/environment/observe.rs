//! What a session tells of itself.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::event::{Kind, Operation, millis};
use super::session::Session;
use crate::error::{Error, ErrorCode, Result, shown};

/// How an operation on files ended well.
pub const DONE: &str = "done";

impl Session {
  /// Tells what happened to this run.
  pub(super) fn emit(&self, kind: impl FnOnce() -> Kind) {
    self.core().events.emit(Some(self.run_id()), kind);
  }

  /// Runs an operation and tells how it ended. `seen` says of a result which outcome that was, and how many bytes came
  /// out.
  pub(super) async fn observed<T>(
    &self,
    operation: Operation,
    bytes_in: usize,
    work: impl Future<Output = Result<T>>,
    seen: impl FnOnce(&T) -> (&'static str, usize),
  ) -> Result<T> {
    // A release waits until this is told, so that its own event is the last one.
    let _running = self.running().token();
    let begun = Instant::now();
    let result = work.await;
    self.emit(|| {
      let (outcome, code, bytes_out) = match &result {
        Ok(value) => {
          let (outcome, bytes_out) = seen(value);
          (outcome, None, bytes_out)
        }
        Err(error) => ("failed", Some(error.code().as_str()), 0),
      };
      let (bytes_in, bytes_out) = (bytes_in as u64, bytes_out as u64);
      Kind::Operation { operation, outcome, code, duration_ms: millis(begun), bytes_in, bytes_out }
    });
    result
  }

  /// The lease is another holder's, or its record is gone.
  pub(super) fn lost_lease(&self) {
    if !self.told().lease.swap(true, Ordering::AcqRel) {
      self.emit(|| Kind::LeaseLost);
    }
  }

  /// Tells where an error means that the container can serve nobody any more.
  pub(super) fn look_for_loss(&self, error: &Error) {
    if error.code() == ErrorCode::ContainerLost && !self.told().container.swap(true, Ordering::AcqRel) {
      let code = error.code().as_str();
      self.emit(|| Kind::ContainerLost { code, reason: shown(error.message()).to_owned() });
    }
  }
}
