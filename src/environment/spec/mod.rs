//! From options and image to the container: the whole reference profile, and what would get past it by the back door.
//!
//! Pure: what comes out is data for the engine, and every row of the profile is asserted in `tests`.

mod mounts;
mod verify;

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

pub use verify::{enforcement_gaps, verify};

use super::options::{Limits, Options};
use super::search_path;
use crate::docker::model::{ContainerSpec, ImageInspection};
use crate::workspace::path::WORKSPACE_ROOT;

/// Marks every container of ours; its value is `1`.
pub const LABEL: &str = "zhivex.sandbox";
/// Whose `sweep` looks after it.
pub const LABEL_OWNER: &str = "zhivex.sandbox.owner";
/// Fingerprint of the manifest that it was made for.
pub const LABEL_FINGERPRINT: &str = "zhivex.sandbox.fingerprint";
/// Key of the run, which its name is a hash of.
pub const LABEL_KEY: &str = "zhivex.sandbox.key";
/// A hash of the lease's token: labels are inherited by images made of a container, the token is not.
pub const LABEL_NONCE: &str = "zhivex.sandbox.nonce";
/// Id of the environment.
pub const LABEL_ENVIRONMENT: &str = "zhivex.sandbox.environment";

/// What process 1 runs with `/bin/sh -c`. It waits, and a shell that waits reaps whatever orphans end meanwhile. Signals
/// from inside do nothing to it: it is process 1 and handles none. Without a `sleep` it ends instead of spinning.
pub const KEEPER: &str = "while :; do sleep 3600; case $? in 126|127) exit 127;; esac; done";

/// The host name in every container: neither the engine's nor the host's is told.
const HOSTNAME: &str = "sandbox";
/// Below the size of a page no core is written, and 1 is the one value that also stops a `core_pattern` that pipes to a
/// program of the host; 0 does not (`fs/coredump.c`).
const NO_CORE: u64 = 1;

/// What tells a container from all others.
#[derive(Clone, Debug)]
pub struct Identity {
  /// Its name.
  pub name: String,
  /// Its labels.
  pub labels: BTreeMap<String, String>,
}

/// What to create for a run of this environment.
pub fn container_spec(options: &Options, image: &ImageInspection, identity: &Identity) -> ContainerSpec {
  ContainerSpec {
    image: options.image.clone(),
    user: options.user.to_string(),
    working_dir: WORKSPACE_ROOT.to_owned(),
    env: variables(options, image),
    cmd: Vec::new(),
    network_mode: "none".to_owned(),
    readonly_rootfs: true,
    memory_bytes: memory_bytes(&options.limits),
    nano_cpus: nano_cpus(&options.limits),
    pids_limit: i64::from(options.limits.pids),
    tmpfs: mounts::tmpfs(options, image),
    labels: labels(image, identity),
    // An init of the engine's would be process 1 and pass signals on; the keeper reaps.
    init: false,
    name: Some(identity.name.clone()),
    entrypoint: Some(["/bin/sh", "-c", KEEPER].map(str::to_owned).to_vec()),
    hostname: Some(HOSTNAME.to_owned()),
    // No /dev/shm, and shared memory that its makers leave behind goes with them: it would stay charged to the
    // container until the kernel kills process 1 for it.
    ipc_mode: Some("none".to_owned()),
    runtime: options.runtime.clone(),
    sysctls: BTreeMap::from([("kernel.shm_rmid_forced".to_owned(), "1".to_owned())]),
    // Without the second, /dev/mqueue is a place to write to that no size bounds.
    ulimits: BTreeMap::from([("core".to_owned(), NO_CORE), ("msgqueue".to_owned(), 0)]),
    no_healthcheck: true,
    no_log: true,
  }
}

/// The name of the container of a run: 24 hexadecimal digits of a hash of its key, which holds whatever a label may.
pub fn container_name(run_key: &str) -> String {
  let digest = Sha256::digest(run_key.as_bytes());
  let hex: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
  format!("zhivex-sandbox-{hex}")
}

fn memory_bytes(limits: &Limits) -> u64 {
  limits.memory_mb * 1024 * 1024
}

fn nano_cpus(limits: &Limits) -> u64 {
  // At most 1024 CPUs, so at most 2⁴⁰ of these.
  (limits.cpus * 1e9).round() as u64
}

/// Ours, the options' and no others: each variable of the image is taken away by a bare name.
fn variables(options: &Options, image: &ImageInspection) -> Vec<String> {
  let inherited: Vec<(&str, &str)> =
    image.config.env.iter().flatten().map(|entry| entry.split_once('=').unwrap_or((entry, ""))).collect();
  let path = inherited.iter().find(|(name, _)| *name == "PATH").map_or("", |(_, value)| value);
  let tmp = if options.tmp_mb.is_some() { mounts::TMP } else { WORKSPACE_ROOT };
  let mut ours = BTreeMap::from([
    ("HOME".to_owned(), WORKSPACE_ROOT.to_owned()),
    ("PATH".to_owned(), search_path::cleaned(path)),
    ("TMPDIR".to_owned(), tmp.to_owned()),
  ]);
  ours.extend(options.env.clone());
  let dropped: BTreeSet<&str> = inherited
    .iter()
    .map(|(name, _)| *name)
    .filter(|name| !name.is_empty() && !ours.contains_key(*name))
    .collect();
  let set = ours.iter().map(|(name, value)| format!("{name}={value}"));
  set.chain(dropped.iter().map(|name| (*name).to_owned())).collect()
}

/// An image made of one of our containers brings its labels along; they are emptied where we set none.
fn labels(image: &ImageInspection, identity: &Identity) -> BTreeMap<String, String> {
  let inherited = image.config.labels.iter().flatten().map(|(name, _)| name);
  let foreign = inherited.filter(|name| name.starts_with(LABEL)).map(|name| (name.clone(), String::new()));
  let mut labels: BTreeMap<String, String> = foreign.collect();
  labels.extend(identity.labels.clone());
  labels
}

#[cfg(test)]
mod tests;
