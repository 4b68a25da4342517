//! Cancellation: one token a call, children of the session's token, so that `release` ends everything.

use std::future::Future;
use std::pin::pin;

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};

/// A cancellation token that can be cloned freely; cancelling one cancels its clones and children.
#[derive(Clone, Debug, Default)]
pub struct Cancel(CancellationToken);

impl Cancel {
  /// A token that nothing has cancelled.
  pub fn new() -> Self {
    Self::default()
  }

  /// A token that is cancelled with this one, and can be cancelled on its own.
  pub fn child(&self) -> Self {
    Self(self.0.child_token())
  }

  /// Cancels; the second time changes nothing.
  pub fn cancel(&self) {
    self.0.cancel();
  }

  /// True once cancelled.
  pub fn is_cancelled(&self) -> bool {
    self.0.is_cancelled()
  }

  /// Resolves once cancelled, never before.
  pub async fn cancelled(&self) {
    self.0.cancelled().await;
  }

  /// `CANCELLED` if cancelled already; `what` names the operation ("reading src/a.txt").
  pub fn check(&self, what: &str) -> Result<()> {
    if self.is_cancelled() { Err(cancelled(what)) } else { Ok(()) }
  }

  /// Runs `future` until it ends or this token is cancelled, whichever is first; then the future is dropped.
  pub async fn guard<T>(&self, what: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
      biased;
      () = self.cancelled() => Err(cancelled(what)),
      result = future => result,
    }
  }

  /// Runs `future`, which heeds `other`: a cancellation of this token is passed on to it, and the future comes to its own
  /// end, so that it can clean up.
  pub async fn pass_on<T>(&self, other: &Self, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    tokio::select! {
      biased;
      () = self.cancelled() => {
        other.cancel();
        future.await
      }
      ended = &mut future => ended,
    }
  }
}

/// The error of a cancelled operation; JavaScript adds the signal's reason as its cause.
pub fn cancelled(what: &str) -> Error {
  Error::new(ErrorCode::Cancelled, format!("{what} was cancelled."))
}
