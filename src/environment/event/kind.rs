//! The kinds of events and the words in their fields.

use serde::Serialize;

/// What happened. Durations are whole milliseconds, sizes bytes, codes those of errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Kind {
  /// The image was fetched.
  ImagePulled {
    /// Its name, as the options have it.
    image: String,
    /// Bytes that came from the registry, where the client tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// How long that took.
    duration_ms: u64,
  },
  /// The image is being fetched.
  ImageProgress {
    /// Its name, as the options have it.
    image: String,
    /// Bytes that came so far.
    bytes: u64,
    /// Bytes of the layers whose size is known by now.
    total_bytes: u64,
  },
  /// An attempt to use the resident transport failed, and `auto` goes on with the other one.
  TransportFallback {
    /// Why.
    reason: String,
  },
  /// A container was started that waits for a run.
  Pooled {
    /// How long that took.
    duration_ms: u64,
  },
  /// A container that would have waited for a run could not be made. The next acquire tries again.
  PoolFailed {
    /// The error's code.
    code: &'static str,
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
  /// The proxy let a connection through.
  NetworkAllowed {
    /// The host.
    host: String,
    /// The port.
    port: u16,
    /// The rule that allows it.
    rule: String,
  },
  /// The proxy refused a request, and no byte of it went on.
  NetworkRefused {
    /// The host, if the request had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// The port, if the request had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    /// The HTTP status of the reply.
    status: u16,
    /// Why, in the words that the program got.
    reason: String,
  },
  /// A connection that was let through has ended.
  NetworkClosed {
    /// The host.
    host: String,
    /// The port.
    port: u16,
    /// The rule that allowed it.
    rule: String,
    /// Bytes that went to the host.
    bytes_up: u64,
    /// Bytes that came from the host.
    bytes_down: u64,
    /// Why it ended before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
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
    /// Networks without a lease that were removed.
    #[serde(skip_serializing_if = "is_none")]
    removed_networks: usize,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_none(count: &usize) -> bool {
  *count == 0
}

/// Where the container of an acquired run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
  /// It is new.
  Started,
  /// It waited for a run, and is new to this one.
  Pooled,
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
  /// On the engine: a supervisor's.
  Volume,
  /// In the snapshot store.
  Snapshot,
  /// In the lease store: left there, or not brought up to date.
  Lease,
}

impl Resource {
  /// The public word.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Container => "container",
      Self::Network => "network",
      Self::Image => "image",
      Self::Volume => "volume",
      Self::Snapshot => "snapshot",
      Self::Lease => "lease",
    }
  }
}
