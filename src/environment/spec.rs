//! The container of a run: the reference profile, row by row, and what images and engines bring in by the back door.
//! Pure: options and an image in, the body of a create call out.

use std::collections::BTreeMap;

use serde_json::Value;

use super::options::{Limits, NetworkPolicy, Options, inodes};
use super::search_path;
use crate::docker::model::{ContainerSpec, EngineInfo, ImageInspection, Inspection};
use crate::error::{Result, fail};
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
const OUR_LABELS: [&str; 6] =
  [LABEL, LABEL_OWNER, LABEL_FINGERPRINT, LABEL_KEY, LABEL_NONCE, LABEL_ENVIRONMENT];

/// Process 1 of the engine-only transport: it waits, and takes the exit status of whatever is orphaned inside, as
/// a shell does while it waits for its own child. An image without `sleep` ends at once instead of spinning.
const KEEPER: &str = "while :; do sleep 3600; [ $? -ne 127 ] || exit 127; done";

/// Host name inside; the engine's default would tell the container's id.
const HOSTNAME: &str = "sandbox";
/// The second tmpfs.
const TMP: &str = "/tmp";
const MIB: u64 = 1024 * 1024;

/// What tells one container from another.
pub struct Identity {
  /// Its name.
  pub name: String,
  /// Its labels.
  pub labels: BTreeMap<String, String>,
}

/// The name of the container of a run: a second guard against two for one run, since an engine gives a name once.
pub fn container_name(key: &str) -> String {
  format!("zhivex-sandbox-{}", key.get(..24).unwrap_or(key))
}

/// The whole profile for a container of this image.
pub fn container_spec(options: &Options, image: &ImageInspection, identity: &Identity) -> ContainerSpec {
  let limits = &options.limits;
  ContainerSpec {
    image: options.image.clone(),
    user: options.user.to_string(),
    working_dir: WORKSPACE_ROOT.to_owned(),
    env: environment(options, image),
    entrypoint: Some(["/bin/sh", "-c", KEEPER].map(str::to_owned).to_vec()),
    cmd: Vec::new(),
    network_mode: match options.network {
      NetworkPolicy::Deny => "none".to_owned(),
    },
    readonly_rootfs: true,
    memory_bytes: limits.memory_mb.saturating_mul(MIB),
    nano_cpus: nano_cpus(limits),
    pids_limit: i64::from(limits.pids),
    tmpfs: mounts(options, image),
    labels: labels(image, identity),
    // An init would be one more process 1 that a command may signal; the keeper reaps.
    init: false,
    name: Some(identity.name.clone()),
    hostname: Some(HOSTNAME.to_owned()),
    // No /dev/shm, and no shared memory that outlives its processes.
    ipc_mode: Some("none".to_owned()),
    runtime: options.runtime.clone(),
    sysctls: [("kernel.shm_rmid_forced".to_owned(), "1".to_owned())].into(),
    // No core dumps, no POSIX message queues.
    ulimits: [("core".to_owned(), 0), ("msgqueue".to_owned(), 0)].into(),
    no_healthcheck: true,
    no_log: true,
  }
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

/// Our variables, and every other one of the image removed by its bare name.
fn environment(options: &Options, image: &ImageInspection) -> Vec<String> {
  let of_image: Vec<(&str, &str)> = image
    .config
    .env
    .iter()
    .flatten()
    .map(|variable| variable.split_once('=').unwrap_or((variable, "")))
    .filter(|(name, _)| !name.is_empty())
    .collect();
  let path = of_image.iter().find(|(name, _)| *name == "PATH").map_or("", |(_, value)| value);
  let tmp = if options.tmp_mb.is_some() { TMP } else { WORKSPACE_ROOT };
  let mut ours = BTreeMap::from([
    ("PATH", search_path::cleaned(path)),
    ("HOME", WORKSPACE_ROOT.to_owned()),
    ("TMPDIR", tmp.to_owned()),
  ]);
  ours.extend(options.env.iter().map(|(name, value)| (name.as_str(), value.clone())));
  let dropped =
    of_image.iter().filter(|(name, _)| !ours.contains_key(name)).map(|(name, _)| (*name).to_owned());
  let dropped: Vec<String> = dropped.collect();
  ours.into_iter().map(|(name, value)| format!("{name}={value}")).chain(dropped).collect()
}

fn mounts(options: &Options, image: &ImageInspection) -> BTreeMap<String, String> {
  let mut mounts: BTreeMap<String, String> = volumes(image).map(|path| (path, masked())).collect();
  let limits = &options.limits;
  let exec = if options.workspace.exec { "exec" } else { "noexec" };
  mounts.insert(WORKSPACE_ROOT.to_owned(), tmpfs(options, limits.max_workspace_bytes, exec));
  if let Some(tmp_mb) = options.tmp_mb {
    mounts.insert(TMP.to_owned(), tmpfs(options, tmp_mb.saturating_mul(MIB), "noexec"));
  }
  mounts
}

fn tmpfs(options: &Options, bytes: u64, exec: &str) -> String {
  format!(
    "rw,nosuid,nodev,{exec},size={bytes},nr_inodes={},uid={},gid={},mode=0700",
    inodes(bytes),
    options.user.uid,
    options.user.gid
  )
}

/// What the image declares as a volume would be a writable directory on the engine's disk: an empty, read-only tmpfs
/// takes its place. A volume at or above the workspace would hide it, or be refused by the engine: such a place is left
/// to the mounts that are ours.
fn volumes(image: &ImageInspection) -> impl Iterator<Item = String> {
  let declared = image.config.volumes.iter().flat_map(BTreeMap::keys);
  declared
    .filter_map(|path| normalised(path))
    .filter(|path| path != WORKSPACE_ROOT && path != TMP && path != "/")
}

/// A volume's path as the engine mounts it.
fn normalised(path: &str) -> Option<String> {
  let mut parts: Vec<&str> = Vec::new();
  for part in path.split('/') {
    match part {
      "" | "." => {}
      ".." => drop(parts.pop()),
      part => parts.push(part),
    }
  }
  path.starts_with('/').then(|| format!("/{}", parts.join("/")))
}

fn masked() -> String {
  "ro,nosuid,nodev,noexec,size=4096,mode=0555".to_owned()
}

/// Our labels; those that the image brings under our names are blanked, so that none is ever taken for ours.
fn labels(image: &ImageInspection, identity: &Identity) -> BTreeMap<String, String> {
  let foreign = image.config.labels.iter().flat_map(BTreeMap::keys);
  let ours = |name: &&String| OUR_LABELS.contains(&name.as_str()) || name.starts_with("zhivex.");
  let blanked = foreign.filter(ours).map(|name| (name.clone(), String::new()));
  blanked.chain(identity.labels.clone()).collect()
}

/// A running container must have today's limits: another process may have made it with other code, or somebody may
/// have changed it (`docker update`).
pub fn verify(found: &Inspection, options: &Options) -> Result<()> {
  let (host, limits) = (&found.host_config, &options.limits);
  let memory = i64::try_from(limits.memory_mb.saturating_mul(MIB)).unwrap_or(i64::MAX);
  let checks: [(&str, Value, Value); 5] = [
    ("memory", host.memory.into(), memory.into()),
    ("CPU quota", host.nano_cpus.into(), nano_cpus(limits).into()),
    ("process limit", host.pids_limit.unwrap_or(0).into(), limits.pids.into()),
    ("network", host.network_mode.as_str().into(), "none".into()),
    ("read-only root", host.readonly_rootfs.into(), true.into()),
  ];
  match checks.into_iter().find(|(_, is, should)| is != should) {
    None => Ok(()),
    Some((what, is, should)) => Err(fail!(
      Conflict,
      "Container {} does not have the limits of this environment: its {what} is {is} and should be {should}. It is left alone; start a new run.",
      found.id
    )),
  }
}

/// What an engine cannot enforce of the profile, in words for a message.
pub fn enforcement_gaps(info: &EngineInfo) -> Vec<&'static str> {
  let seccomp = info.security_options.iter().any(|option| option.contains("seccomp"));
  let checks = [
    (info.memory_limit, "memory limits"),
    (info.swap_limit, "swap limits"),
    (info.cpu_cfs_quota, "CPU quotas"),
    (info.pids_limit, "process limits"),
    (seccomp, "seccomp profiles"),
    (info.os_type.is_empty() || info.os_type == "linux", "Linux containers"),
  ];
  checks.into_iter().filter(|(there, _)| !there).map(|(_, what)| what).collect()
}

#[cfg(test)]
mod tests;
