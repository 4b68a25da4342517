//! What happens in an environment's life beside the results of calls, for an application that listens.
//!
//! An event names runs, containers and codes. It never holds paths, commands, arguments, values of variables, contents
//! or tokens, and its sentence is made of its fields alone, so that no error's text gets into it unseen.

mod message;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::host::now_ms;
use crate::error::{Error, shown};

/// One event, as JSON `{ type, …fields, at, runId?, message, dropped? }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
  /// What happened.
  #[serde(flatten)]
  pub kind: Kind,
  /// When, in milliseconds since 1970.
  pub at: u64,
  /// The run that it concerns, if it concerns one.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub run_id: Option<String>,
  /// The same in a sentence.
  pub message: String,
  /// How many events before this one were lost because the listener was slower than they came; left out where none was.
  #[serde(skip_serializing_if = "is_zero")]
  pub dropped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(count: &u64) -> bool {
  *count == 0
}

/// What happened. Durations are whole milliseconds, sizes bytes, codes those of errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Kind {
  /// The image was fetched.
  ImagePulled {
    /// Its name, as the options have it.
    image: String,
    /// How long that took.
    duration_ms: u64,
  },
  /// An attempt to use the resident transport failed, and `auto` goes on with the other one.
  TransportFallback {
    /// Why.
    reason: String,
  },
  /// A run was acquired.
  Acquired {
    /// Where its container comes from.
    how: How,
    /// `resident` or `exec`.
    transport: &'static str,
    /// Why `auto` could not have the resident transport.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_reason: Option<String>,
    /// How long that took.
    duration_ms: u64,
  },
  /// An operation of a session ended, or was refused.
  Operation {
    /// Which.
    operation: Operation,
    /// How a command ended; `done` for files; `failed` where there is an error.
    outcome: &'static str,
    /// The error's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// How long it took.
    duration_ms: u64,
    /// Standard input, 0 where that is a stream, or what was to be written.
    bytes_in: u64,
    /// Both outputs, or what was read, or the paths that a listing found.
    bytes_out: u64,
  },
  /// The lease could not be renewed; told once until it can be again.
  HeartbeatFailed {
    /// The error's code.
    code: &'static str,
  },
  /// Another holder has the run, or its record is gone. Told once for each session.
  LeaseLost,
  /// The run's container can serve nobody any more. Told once for each session.
  ContainerLost {
    /// What operations fail with.
    code: &'static str,
    /// Why it ended.
    reason: String,
  },
  /// The workspace was saved.
  SnapshotSaved {
    /// Size of the tar.
    bytes: u64,
    /// How long that took.
    duration_ms: u64,
  },
  /// The workspace could not be saved.
  SnapshotFailed {
    /// The error's code.
    code: &'static str,
    /// How long it was tried.
    duration_ms: u64,
  },
  /// A session was released and all was done that its status asks for.
  Released {
    /// The status.
    status: String,
    /// Container, snapshot and lease wait for the next acquire.
    kept: bool,
    /// Size of the snapshot that was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_bytes: Option<u64>,
    /// How long that took.
    duration_ms: u64,
  },
  /// A session was released and not all was done.
  ReleaseFailed {
    /// The status.
    status: String,
    /// What was not done.
    undone: Undone,
    /// The error's code.
    code: &'static str,
    /// How long it was tried.
    duration_ms: u64,
  },
  /// Something that should be gone, or up to date, is not.
  CleanupFailed {
    /// What it is.
    resource: Resource,
    /// Its name or id; a key for leases and snapshots.
    id: String,
    /// The error's code.
    code: &'static str,
    /// The engine's words. A store's are left out, since it may quote what it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
  },
  /// A sweep ended.
  Swept {
    /// Runs that were ended.
    expired_runs: usize,
    /// Containers without a lease that were removed.
    removed_containers: usize,
    /// What could not be removed.
    failures: usize,
    /// How long that took.
    duration_ms: u64,
  },
  /// The environment was closed.
  Closed {
    /// How long that took.
    duration_ms: u64,
  },
}

/// Where the container of an acquired run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
  /// It is new.
  Started,
  /// It waited for this run since a release.
  Resumed,
  /// Its holder died or fell silent.
  TakenOver,
  /// It is new, with the workspace of a snapshot.
  Restored,
}

/// An operation of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
  /// A command.
  Exec,
  /// Reading a file.
  ReadFile,
  /// Writing a file.
  WriteFile,
  /// Listing a directory.
  List,
}

/// What a release could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undone {
  /// The lease could not be read or written.
  Lease,
  /// The workspace could not be saved; the run is kept all the same.
  Snapshot,
  /// Not all of the run could be removed.
  Removal,
}

/// Something that a run has on the engine or in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
  /// On the engine.
  Container,
  /// On the engine.
  Network,
  /// On the engine.
  Image,
  /// In the snapshot store.
  Snapshot,
  /// In the lease store: left there, or not brought up to date.
  Lease,
}

/// Where events go. Cheap to clone.
#[derive(Clone, Default)]
pub struct Events(Option<Arc<dyn Fn(Event) + Send + Sync>>);

impl Events {
  /// Events go to `sink`, which must return at once.
  pub fn to(sink: impl Fn(Event) + Send + Sync + 'static) -> Self {
    Self(Some(Arc::new(sink)))
  }

  /// Events go to `deliver`, which says whether it had room. Those that it had no room for are counted in the next event
  /// that it takes.
  pub fn counted(deliver: impl Fn(&Event) -> bool + Send + Sync + 'static) -> Self {
    let lost = AtomicU64::new(0);
    Self::to(move |mut event| {
      event.dropped = lost.swap(0, Ordering::Relaxed);
      if !deliver(&event) {
        lost.fetch_add(event.dropped.saturating_add(1), Ordering::Relaxed);
      }
    })
  }

  /// Tells what happened. `kind` is not even called where nobody listens.
  pub fn emit(&self, run: Option<&str>, kind: impl FnOnce() -> Kind) {
    let Some(sink) = &self.0 else { return };
    let kind = kind();
    let message = message::sentence(&kind, run);
    sink(Event { kind, at: now_ms(), run_id: run.map(str::to_owned), message, dropped: 0 });
  }

  /// Tells that something of a run was left behind. What is gone already was not.
  pub fn left(&self, run: Option<&str>, resource: Resource, id: &str, error: &Error) {
    if error.is_not_found() {
      return;
    }
    self.emit(run, || {
      let reason = match resource {
        Resource::Container | Resource::Network | Resource::Image => Some(shown(error.message()).to_owned()),
        Resource::Snapshot | Resource::Lease => None,
      };
      Kind::CleanupFailed { resource, id: id.to_owned(), code: error.code().as_str(), reason }
    });
  }
}

/// Whole milliseconds since `begun`.
pub fn millis(begun: Instant) -> u64 {
  u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
