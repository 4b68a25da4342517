//! The options of an environment: checked once, when it is created; after that every value is known to be good.
//!
//! `defaults` has every default and range, `reader` the walk over the JSON with its messages, `names` the rules for
//! texts, `read`, `workspace` and `network` one line for each option.

mod defaults;
mod names;
mod network;
mod read;
mod reader;
mod workspace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

pub use defaults::security_defaults;

use crate::archive::Owner;
use crate::docker::EngineKind;
use crate::proxy::{Policy, Quotas};
use crate::workspace::path::WorkspacePath;
pub use crate::workspace::policy::ShellPolicy;
pub use crate::workspace::source::HostSource;

/// When an image is fetched from its registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
  /// If the engine does not have it.
  Missing,
  /// Never: an absent image is `IMAGE_MISSING`.
  Never,
  /// Once for each environment, at its first acquire.
  Always,
}

/// The numeric user of everything in the container; neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
  /// User id.
  pub uid: u32,
  /// Group id.
  pub gid: u32,
}

impl From<User> for Owner {
  fn from(user: User) -> Self {
    Self { uid: user.uid, gid: user.gid }
  }
}

impl std::fmt::Display for User {
  fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    write!(f, "{}:{}", self.uid, self.gid)
  }
}

/// A file written into a new workspace.
#[derive(Clone, Debug)]
pub struct SeedFile {
  /// Where.
  pub path: WorkspacePath,
  /// What.
  pub contents: Bytes,
  /// Permission bits, 0o644 unless given.
  pub mode: u32,
}

/// The workspace as declared.
#[derive(Clone, Debug)]
pub struct WorkspaceOptions {
  /// Its name, part of the binding.
  pub id: String,
  /// Directories to make, their parents included.
  pub directories: Vec<WorkspacePath>,
  /// Programs in the workspace may be run.
  pub exec: bool,
  /// Files to write.
  pub files: Vec<SeedFile>,
  /// Host files to copy.
  pub source: Option<HostSource>,
}

/// What the network lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkPolicy {
  /// Nothing; there is no interface but `lo`.
  Deny,
  /// Some hosts, by way of the proxy.
  Allowlist(Box<Allowlist>),
}

/// Who may be reached, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowlist {
  /// Hosts and ports.
  pub policy: Policy,
  /// Bounds.
  pub quotas: Quotas,
}

impl NetworkPolicy {
  /// The allowlist, if there is one.
  pub fn allowlist(&self) -> Option<&Allowlist> {
    match self {
      Self::Deny => None,
      Self::Allowlist(allowlist) => Some(allowlist),
    }
  }
}

/// Bounds of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
  /// Memory of the container in MiB, the workspace included; no swap.
  pub memory_mb: u64,
  /// CPU quota in CPUs.
  pub cpus: f64,
  /// Processes and threads.
  pub pids: u32,
  /// Longest run of a command.
  pub command_timeout: Duration,
  /// Cap of standard output and of standard error, each, in bytes.
  pub max_output_bytes: u64,
  /// Largest file that tools and seeding read or write, in bytes.
  pub max_file_bytes: u64,
  /// Size of the workspace in bytes.
  pub max_workspace_bytes: u64,
  /// Commands at the same time.
  pub max_concurrent_processes: u32,
}

/// The page of tmpfs on every platform that we know the page size of; a file takes whole ones.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Fewest inodes of a tmpfs, so that a small workspace still holds a small tree.
const MIN_INODES: u64 = 1024;

impl Limits {
  /// Most files and directories of the workspace, itself included: one for each page of it, at least 1024. Without a
  /// limit an empty file costs kernel memory and none of the size: three million fitted into 64 MiB.
  pub fn workspace_inodes(&self) -> u64 {
    inodes(self.max_workspace_bytes)
  }
}

/// Most inodes of a tmpfs of this size.
pub(crate) fn inodes(bytes: u64) -> u64 {
  bytes.div_ceil(PAGE_BYTES).max(MIN_INODES)
}

/// How much of the profile must really be enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assurance {
  /// All of it, or acquire fails.
  Enforced,
  /// What the engine can do.
  BestEffort,
}

/// How the host talks to the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
  /// The best that works.
  Auto,
  /// Our own process 1, or an error.
  Resident,
  /// `docker exec` for every operation.
  Exec,
}

/// What is kept of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
  /// A tar.
  Tar,
  /// A tar, and an image of the container beside it.
  Commit,
}

impl SnapshotKind {
  /// The public string.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Tar => "tar",
      Self::Commit => "docker-commit",
    }
  }
}

/// What is done with tools that are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndeclaredTools {
  /// `authorize` refuses them.
  Deny,
  /// They run in the application's process, in no jail.
  Allow,
}

/// All options, checked.
#[derive(Clone, Debug)]
pub struct Options {
  /// Id of the environment.
  pub id: String,
  /// Version of the environment, if the application has one.
  pub version: Option<String>,
  /// Image reference.
  pub image: String,
  /// When to fetch it.
  pub pull: Pull,
  /// OCI runtime.
  pub runtime: Option<String>,
  /// Who runs everything.
  pub user: User,
  /// The workspace.
  pub workspace: WorkspaceOptions,
  /// Size of a `/tmp` tmpfs in MiB, if there is one.
  pub tmp_mb: Option<u64>,
  /// Which commands.
  pub shell: ShellPolicy,
  /// Which network.
  pub network: NetworkPolicy,
  /// Bounds.
  pub limits: Limits,
  /// Variables of every command.
  pub env: BTreeMap<String, String>,
  /// How long an untouched run is kept.
  pub lease: Duration,
  /// What is kept of a workspace.
  pub snapshot: SnapshotKind,
  /// How often the workspace of a held run is saved, if at all.
  pub checkpoint: Option<Duration>,
  /// What must hold.
  pub assurance: Assurance,
  /// Whose client speaks to the engine.
  pub engine: EngineKind,
  /// What of other tools.
  pub undeclared_tools: UndeclaredTools,
  /// Names of other tools that are allowed, sorted, each once.
  pub declared_tools: Vec<String>,
  /// Whose leases `sweep` looks after; random unless given.
  pub owner_id: Option<String>,
  /// How to talk to the container.
  pub transport: Transport,
  /// Containers that wait for a run.
  pub pool_size: usize,
  /// Socket of the engine, where the application passes no client of its own.
  pub socket_path: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
