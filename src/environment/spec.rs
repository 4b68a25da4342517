//! The container of a run: the reference profile, row by row, and what images and engines bring in by the back door.
//! Pure: options and an image in, the body of a create call out.

mod mounts;
mod verify;

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

pub use verify::{enforcement_gaps, verify};

use super::carrier::Carrier;
use super::network::{self, Site};
use super::options::{Limits, Options};
use super::search_path;
use crate::docker::dialect::Dialect;
use crate::docker::model::{ContainerSpec, ImageInspection};
use crate::supervisor::volume::{self, MOUNT, PROGRAM};
use crate::workspace::path::WORKSPACE_ROOT;

/// Marks everything of ours on an engine, with the value `1`.
pub const LABEL: &str = "zhivex.sandbox";
/// Whose `sweep` looks after it.
pub const LABEL_OWNER: &str = "zhivex.sandbox.owner";
/// Fingerprint of the manifest.
pub const LABEL_FINGERPRINT: &str = "zhivex.sandbox.fingerprint";
/// Key of the run.
pub const LABEL_KEY: &str = "zhivex.sandbox.key";
/// Ties the container to one lease.
pub const LABEL_NONCE: &str = "zhivex.sandbox.nonce";
/// Id of the environment.
pub const LABEL_ENVIRONMENT: &str = "zhivex.sandbox.environment";
/// The process that made it, so that what it left behind can be told from what it is about to put on record.
pub const LABEL_MAKER: &str = "zhivex.sandbox.maker";
/// Digest of the supervisor that is its process 1; only containers with the resident transport have it.
pub const LABEL_SUPERVISOR: &str = "zhivex.sandbox.supervisor";
/// Where a container expects the proxy of its allowlist ([`Site`]); only those with a network of their own have it.
pub const LABEL_PROXY: &str = "zhivex.sandbox.proxy";
/// Says that a container was made for no run, and got one or waits for it.
pub const LABEL_POOL: &str = "zhivex.sandbox.pool";
/// All of them.
pub const OUR_LABELS: [&str; 10] = [
  LABEL,
  LABEL_OWNER,
  LABEL_FINGERPRINT,
  LABEL_KEY,
  LABEL_NONCE,
  LABEL_ENVIRONMENT,
  LABEL_MAKER,
  LABEL_SUPERVISOR,
  LABEL_PROXY,
  LABEL_POOL,
];

/// Process 1 of the engine-only transport: it waits, and takes the exit status of whatever is orphaned inside, as
/// a shell does while it waits for its own child. An image without a `sleep` that runs ends at once instead of spinning.
const KEEPER: &str = "while :; do sleep 3600; case $? in 126|127) exit 127;; esac; done";

/// What tells the networks of one run from each other: those that are asked for at once.
const NETWORK_SUFFIX_BYTES: usize = 8;

/// Host name inside; the engine's default would tell the container's id.
const HOSTNAME: &str = "sandbox";
/// No core is written below the size of a page, and 1 is the one value that also stops a `core_pattern` that pipes to a
/// program of the host, which 0 does not (`fs/coredump.c`).
const NO_CORE: u64 = 1;

/// What tells one container from another.
pub struct Identity {
  /// Its name.
  pub name: String,
  /// Its labels.
  pub labels: BTreeMap<String, String>,
  /// Its network, with the exec transport and an allowlist: the engine's id of it, and where the proxy is.
  pub network: Option<(String, Site)>,
}

/// The name of the container of a run: a second guard against two for one run, since an engine gives a name once.
pub fn container_name(key: &str) -> String {
  format!("zhivex-sandbox-{}", key.get(..24).unwrap_or(key))
}

/// The name of a container that waits for a run, made of its nonce.
pub fn pool_name(nonce: &str) -> String {
  format!("zhivex-sandbox-pool-{}", nonce.get(..24).unwrap_or(nonce))
}

/// Whether [`container_name`] can have made it.
pub fn is_container_name(name: &str) -> bool {
  let key = name.strip_prefix("zhivex-sandbox-").unwrap_or_default();
  key.len() == 24 && is_lower_hex(key)
}

/// A name for the network of the container of this name. No other has it: an engine gives a network's name to several that
/// ask at once ("best effort and not guaranteed", Engine API 1.41, `CheckDuplicate`), and then starts no container in any of
/// them, even by its id.
pub fn network_name(container: &str, random: [u8; NETWORK_SUFFIX_BYTES]) -> String {
  format!("{container}-{}", hex::encode(random))
}

/// Whether [`network_name`] can have made it for the container of a run.
pub fn is_network_name(name: &str, key: &str) -> bool {
  let suffix = name.strip_prefix(&container_name(key)).and_then(|rest| rest.strip_prefix('-'));
  suffix.is_some_and(|suffix| suffix.len() == 2 * NETWORK_SUFFIX_BYTES && is_lower_hex(suffix))
}

fn is_lower_hex(text: &str) -> bool {
  text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The whole profile for a container of this image.
pub fn container_spec(
  options: &Options,
  image: &ImageInspection,
  identity: &Identity,
  carrier: Carrier,
  dialect: Dialect,
) -> ContainerSpec {
  let mut spec = profile(options, image, identity, dialect);
  // The application's variables may be secrets, or change what a program does that is linked to a libc: process 1 gets them
  // with each command.
  let given = match carrier {
    Carrier::Exec => Some(&options.env),
    Carrier::Resident(_) => None,
  };
  spec.env = environment(options, given, image, identity, dialect);
  if let Some((_, site)) = &identity.network {
    spec.labels.insert(LABEL_PROXY.to_owned(), site.to_string());
    // An engine's own resolver asks others for names that it does not know, from the host if need be. This one asks the
    // container's own loopback address, where nobody answers.
    spec.dns = vec![Ipv4Addr::LOCALHOST.to_string()];
    // No echo requests to the gateway: engines allow everybody to make them.
    spec.sysctls.insert("net.ipv4.ping_group_range".to_owned(), "1 0".to_owned());
  }
  if let Carrier::Resident(binary) = carrier {
    spec.labels.insert(LABEL_SUPERVISOR.to_owned(), binary.hex());
    spec.entrypoint = Some(vec![PROGRAM.to_owned()]);
    spec.read_only_volumes = [(volume::name(binary), MOUNT.to_owned())].into();
    spec.volume_labels = volume::labels(binary);
    spec.open_stdin = true;
    spec.auto_remove = true;
  }
  spec
}

fn profile(
  options: &Options,
  image: &ImageInspection,
  identity: &Identity,
  dialect: Dialect,
) -> ContainerSpec {
  let limits = &options.limits;
  ContainerSpec {
    image: options.image.clone(),
    user: options.user.to_string(),
    working_dir: WORKSPACE_ROOT.to_owned(),
    entrypoint: Some(["/bin/sh", "-c", KEEPER].map(str::to_owned).to_vec()),
    cmd: Vec::new(),
    network_mode: identity.network.as_ref().map_or("none", |(id, _)| id.as_str()).to_owned(),
    readonly_rootfs: true,
    memory_bytes: memory_bytes(limits),
    nano_cpus: nano_cpus(limits),
    pids_limit: i64::from(limits.pids),
    tmpfs: mounts::tmpfs(options, image, dialect),
    labels: labels(image, identity),
    // An init would be one more process 1 that a command may signal; the keeper reaps.
    init: false,
    name: Some(identity.name.clone()),
    hostname: Some(HOSTNAME.to_owned()),
    // No /dev/shm, and no shared memory that outlives its processes.
    ipc_mode: Some("none".to_owned()),
    runtime: options.runtime.clone(),
    sysctls: [("kernel.shm_rmid_forced".to_owned(), "1".to_owned())].into(),
    // Without the second, /dev/mqueue is a place to write to that no size bounds.
    ulimits: [("core".to_owned(), NO_CORE), ("msgqueue".to_owned(), 0)].into(),
    no_healthcheck: true,
    no_log: true,
    ..ContainerSpec::default()
  }
}

fn memory_bytes(limits: &Limits) -> u64 {
  limits.memory_mb.saturating_mul(1024 * 1024)
}

/// CPUs in the engine's unit.
#[expect(
  clippy::cast_possible_truncation,
  clippy::cast_sign_loss,
  reason = "checked options are far inside u64"
)]
fn nano_cpus(limits: &Limits) -> u64 {
  (limits.cpus * 1e9).round() as u64
}

/// Our variables with those that are `given`, and every other one of the image removed by its bare name. To Podman a bare
/// name is the variable of its own service, which may be a secret of the host's, and the image's where that has none: there
/// they are emptied.
fn environment(
  options: &Options,
  given: Option<&BTreeMap<String, String>>,
  image: &ImageInspection,
  identity: &Identity,
  dialect: Dialect,
) -> Vec<String> {
  let of_image: Vec<(&str, &str)> = image
    .config
    .env
    .iter()
    .flatten()
    .map(|variable| variable.split_once('=').unwrap_or((variable, "")))
    .filter(|(name, _)| !name.is_empty())
    .collect();
  let path = of_image.iter().find(|(name, _)| *name == "PATH").map_or("", |(_, value)| value);
  let tmp = if options.tmp_mb.is_some() { mounts::TMP } else { WORKSPACE_ROOT };
  let mut ours = BTreeMap::from([
    ("PATH", search_path::cleaned(path)),
    ("HOME", WORKSPACE_ROOT.to_owned()),
    ("TMPDIR", tmp.to_owned()),
  ]);
  if options.network.allowlist().is_some() {
    let proxy = identity.network.as_ref().map(|(_, site)| site.proxy);
    let proxy = proxy.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, network::PORT).into());
    ours.extend(network::variables(&proxy.to_string()));
  }
  ours.extend(given.into_iter().flatten().map(|(name, value)| (name.as_str(), value.clone())));
  let without = |name: &str| match dialect {
    Dialect::Docker => name.to_owned(),
    Dialect::Podman => format!("{name}="),
  };
  let dropped = of_image.iter().filter(|(name, _)| !ours.contains_key(name)).map(|(name, _)| without(name));
  let dropped: Vec<String> = dropped.collect();
  ours.into_iter().map(|(name, value)| format!("{name}={value}")).chain(dropped).collect()
}

/// Our labels; those that the image brings under our names are blanked, so that none is ever taken for ours.
fn labels(image: &ImageInspection, identity: &Identity) -> BTreeMap<String, String> {
  let foreign = image.config.labels.iter().flat_map(BTreeMap::keys);
  let ours = |name: &&String| OUR_LABELS.contains(&name.as_str()) || name.starts_with("zhivex.");
  let blanked = foreign.filter(ours).map(|name| (name.clone(), String::new()));
  blanked.chain(identity.labels.clone()).collect()
}

#[cfg(test)]
mod tests;
