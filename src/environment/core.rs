//! What all runs of one environment share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio_util::task::TaskTracker;

use super::carrier::Residency;
use super::event::{Events, Kind, millis};
use super::host::{Host, OpenMark};
use super::making::Making;
use super::manifest::manifest;
use super::network;
use super::options::{Assurance, Options};
use super::pool::{self, Pool};
use super::spec::enforcement_gaps;
use crate::cancel::Cancel;
use crate::clock::now_ms;
use crate::docker::Engine;
use crate::docker::dialect::Dialect;
use crate::error::{Result, fail};
use crate::limits::MAX_STARTS;
use crate::proxy::{Proxy, Resolver};
use crate::random;
use crate::store::lease::LeaseStore;
use crate::store::snapshot::SnapshotStore;

/// Everything an environment is made of.
pub struct Parts {
  /// The options, checked.
  pub options: Options,
  /// Where containers run.
  pub engine: Arc<dyn Engine>,
  /// Who holds which run.
  pub leases: Arc<dyn LeaseStore>,
  /// Workspaces of runs that wait.
  pub snapshots: Arc<dyn SnapshotStore>,
  /// Who is told what happens.
  pub events: Events,
  /// Looks names up for the allowlist; the system's resolver where there is none.
  pub resolver: Option<Arc<dyn Resolver>>,
}

/// Shared by an environment and its sessions.
pub struct Core {
  /// The options, checked.
  pub options: Options,
  /// Where containers run.
  pub engine: Arc<dyn Engine>,
  /// Who holds which run.
  pub leases: Arc<dyn LeaseStore>,
  /// Workspaces of runs that wait.
  pub snapshots: Arc<dyn SnapshotStore>,
  /// Who is told what happens.
  pub events: Events,
  /// Whose leases `sweep` looks after.
  pub owner_id: String,
  /// This process.
  pub host: Host,
  open: OpenMark,
  /// Cancelled by `close`.
  pub closed: Cancel,
  /// What `close` waits for: acquires under way, and the heartbeats of open sessions.
  pub beats: TaskTracker,
  /// The supervisor on this engine.
  pub residency: Residency,
  /// The proxy of the allowlist, where there is one.
  pub proxy: Option<Proxy>,
  /// Containers that wait for a run.
  pub pool: Pool,
  /// What is made for runs that are not on record yet.
  pub making: Making,
  /// A turn for each container that is started.
  pub starts: Semaphore,
  closing: AtomicBool,
  manifest: serde_json::Value,
  fingerprint: OnceLock<String>,
  enforced: OnceCell<()>,
  /// The image was fetched, where that is wanted.
  pub fetched: OnceCell<()>,
  /// Whoever fetches it again.
  pub fetching: Mutex<()>,
}

impl Core {
  /// Puts an environment together. Nothing is asked of the engine yet.
  pub fn new(parts: Parts) -> Result<Self> {
    let Parts { options, engine, leases, snapshots, events, resolver } = parts;
    let owner_id = match &options.owner_id {
      Some(owner_id) => owner_id.clone(),
      None => random::hex::<32>()?,
    };
    let (manifest, host) = (manifest(&options), Host::current());
    let proxy = network::proxy(&options, &events, resolver);
    Ok(Self {
      options,
      engine,
      leases,
      snapshots,
      events,
      owner_id,
      open: host.open(),
      host,
      closed: Cancel::new(),
      beats: TaskTracker::new(),
      residency: Residency::default(),
      proxy,
      pool: Pool::default(),
      making: Making::default(),
      starts: Semaphore::new(MAX_STARTS),
      closing: AtomicBool::new(false),
      manifest,
      fingerprint: OnceLock::new(),
      enforced: OnceCell::new(),
      fetched: OnceCell::new(),
      fetching: Mutex::default(),
    })
  }

  /// What the environment promises, as the runtime reads it.
  pub const fn manifest(&self) -> &serde_json::Value {
    &self.manifest
  }

  /// Takes the canonical text of the manifest, which only JavaScript can make (its keys are sorted by the process's
  /// locale), and returns the fingerprint. Later texts change nothing.
  pub fn seal(&self, canonical: &str) -> String {
    let digest = || format!("sha256:{}", hex::encode(Sha256::digest(canonical.as_bytes())));
    self.fingerprint.get_or_init(digest).clone()
  }

  /// The fingerprint, once sealed.
  pub fn fingerprint(&self) -> Result<&str> {
    self
      .fingerprint
      .get()
      .map(String::as_str)
      .ok_or_else(|| fail!(Internal, "The environment's fingerprint was not set before its first use."))
  }

  /// When a lease that is renewed now ends.
  pub fn expiry(&self) -> u64 {
    now_ms().saturating_add(u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX))
  }

  /// `RELEASED` after `close`.
  pub fn check_open(&self) -> Result<()> {
    if self.closed.is_cancelled() {
      return Err(fail!(Released, "Environment {} is closed; create another one.", self.options.id));
    }
    Ok(())
  }

  /// Ends what this environment keeps alive in this process: operations of open sessions end, and their runs are handed
  /// back, to be acquired again by another environment. Their containers stay until then, or until `sweep`; those that wait
  /// for a run are removed.
  pub async fn close(&self) {
    let (begun, again) = (Instant::now(), self.closing.swap(true, Ordering::AcqRel));
    self.closed.cancel();
    self.beats.close();
    self.beats.wait().await;
    pool::empty(self).await;
    self.open.close();
    if !again {
      self.events.emit(None, || Kind::Closed { duration_ms: millis(begun) });
    }
  }

  /// With `assurance: "enforced"`, the engine must be able to enforce every limit. Asked once. Whatever the assurance, an
  /// option that the engine would leave out without a word is refused.
  pub async fn check_enforcement(&self) -> Result<()> {
    if let Some(runtime) = &self.options.runtime
      && self.engine.dialect().await? == Dialect::Podman
    {
      return Err(fail!(
        Unsupported,
        "runtime was {runtime:?}, but Podman takes no runtime for a container by this API and would start its own. Set runtime in its containers.conf, and leave the option out."
      ));
    }
    if self.options.assurance == Assurance::BestEffort {
      return Ok(());
    }
    let ask = || async {
      let gaps = enforcement_gaps(&self.engine.info().await?, self.engine.dialect().await?);
      if gaps.is_empty() {
        return Ok(());
      }
      Err(fail!(
        Unsupported,
        "assurance is \"enforced\", but this Docker engine cannot enforce: {}. Use an engine that can, or assurance: \"best-effort\".",
        gaps.join(", ")
      ))
    };
    self.enforced.get_or_try_init(ask).await.copied()
  }
}
