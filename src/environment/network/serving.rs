//! The proxy at work for one session.

use crate::environment::core::Core;
use crate::proxy::{RunCounts, Served, Session};
use crate::sandbox::connections::{Connection, Connections};
use crate::store::lease::{LeaseRecord, NetworkUsed};

/// Serves the connections of a run until the session ends.
pub struct Serving(Session);

impl Serving {
  /// Begins to serve; `None` without an allowlist. The run goes on counting where its last holder left off.
  pub fn start(core: &Core, record: &LeaseRecord, connections: Option<Box<dyn Connections>>) -> Option<Self> {
    let used = record.network_used.unwrap_or_default();
    let counts = RunCounts { requests: used.requests, bytes: used.bytes };
    let session = core.proxy.as_ref()?.run_session(&record.run_id, counts);
    if let Some(connections) = connections {
      tokio::spawn(serve(session.clone(), connections));
    }
    Some(Self(session))
  }

  /// What the run has used by now.
  pub fn used(&self) -> NetworkUsed {
    used(self.0.counts())
  }

  /// Cuts every connection and takes no more; what the run has used in the end.
  pub async fn end(&self) -> NetworkUsed {
    used(self.0.close().await)
  }
}

const fn used(counts: RunCounts) -> NetworkUsed {
  NetworkUsed { requests: counts.requests, bytes: counts.bytes }
}

async fn serve(session: Session, mut connections: Box<dyn Connections>) {
  loop {
    let next = tokio::select! {
      biased;
      () = session.closed() => return,
      next = connections.next() => next,
    };
    let Some(connection) = next else { return };
    tokio::spawn(serve_one(session.clone(), connection));
  }
}

async fn serve_one(session: Session, mut connection: Box<dyn Connection>) {
  match session.serve(&mut connection).await {
    Served::Ended => connection.finish(),
    Served::Cut => drop(connection),
  }
}
