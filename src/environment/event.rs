//! What happens in an environment's life beside the results of calls, for an application that listens.
//!
//! An event names runs, containers and codes. It never holds paths, commands, arguments, values of variables, contents
//! or tokens, and its sentence is made of its fields alone, so that no error's text gets into it unseen.

mod kind;
mod message;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

pub use kind::{How, Kind, Operation, Resource, Undone};

use crate::clock::now_ms;
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
        Resource::Snapshot | Resource::Lease => None,
        Resource::Container | Resource::Network | Resource::Image | Resource::Volume => {
          Some(shown(error.message()).to_owned())
        }
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
