//! One acquired session of a run.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connection::Accepted;
use super::ledger::{Ledger, Slots};
use super::{RunCounts, Shared};
use crate::cancel::Cancel;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
  /// With everything said; the carrier may end it as any other.
  Ended,
  /// In the middle. The carrier should reset it, so that nobody takes what came for all there was.
  Cut,
}

/// The connections of one acquired session. Clones are the same session.
#[derive(Clone)]
pub struct Session {
  inner: Arc<Inner>,
}

pub(super) struct Inner {
  pub(super) shared: Arc<Shared>,
  /// The run's id.
  pub(super) run: Arc<str>,
  pub(super) ledger: Ledger,
  /// Connections that are open.
  pub(super) connections: Slots,
  /// Connections without a place, which are told so.
  pub(super) refused: Slots,
  /// Look-ups in flight.
  pub(super) lookups: Slots,
  cancel: Cancel,
  tasks: TaskTracker,
}

impl Session {
  pub(super) fn new(shared: Arc<Shared>, run: &str, used: RunCounts) -> Self {
    let inner = Inner {
      shared,
      run: run.into(),
      ledger: Ledger::new(used),
      connections: Slots::default(),
      refused: Slots::default(),
      lookups: Slots::default(),
      cancel: Cancel::new(),
      tasks: TaskTracker::new(),
    };
    Self { inner: Arc::new(inner) }
  }

  /// Serves one connection that a carrier accepted just now: the time for its head runs from this call. The future is
  /// the connection; dropping it cuts the connection. A carrier that can reset a stream lends it (`&mut stream`), and does
  /// so after [`Served::Cut`].
  pub fn serve<S>(&self, mut stream: S) -> impl Future<Output = Served> + Send + use<S>
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    let accepted = Instant::now();
    let inner = Arc::clone(&self.inner);
    let task = inner.tasks.token();
    async move {
      let connection = Accepted::new(&inner, accepted);
      let served = tokio::select! {
        biased;
        () = inner.cancel.cancelled() => Served::Cut,
        served = connection.serve(&mut stream) => served,
      };
      drop(stream);
      drop(task);
      served
    }
  }

  /// What the run has used, to be stored; it may grow until [`Session::close`] is done.
  pub fn counts(&self) -> RunCounts {
    self.inner.ledger.counts()
  }

  /// Resolves once [`Self::close`] was called.
  pub async fn closed(&self) {
    self.inner.cancel.cancelled().await;
  }

  /// Cuts every connection, refuses new ones, and returns what the run has used in the end.
  pub async fn close(&self) -> RunCounts {
    self.inner.cancel.cancel();
    self.inner.tasks.close();
    self.inner.tasks.wait().await;
    self.counts()
  }
}
