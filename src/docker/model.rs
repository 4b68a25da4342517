//! The few shapes of the Engine API that we use. Names on the wire are the engine's or the public `DockerClient`'s.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a container is created from: the public `DockerCreateSpec`, and optional fields beyond it that the reference
/// profile needs. Capabilities are always dropped and new privileges always refused.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerSpec {
  /// Image reference or id.
  pub image: String,
  /// `uid:gid`, numeric.
  pub user: String,
  /// Working directory, absolute.
  pub working_dir: String,
  /// `NAME=value`; a bare `NAME` removes that variable of the image (Engine API, container `Env`).
  pub env: Vec<String>,
  /// Arguments of the entry point.
  pub cmd: Vec<String>,
  /// `none`, `bridge`, or a network's name or id.
  pub network_mode: String,
  /// Mount the root file system read-only.
  pub readonly_rootfs: bool,
  /// Memory limit in bytes; swap is limited to the same, so there is none.
  pub memory_bytes: u64,
  /// CPU quota in 10⁻⁹ CPUs.
  pub nano_cpus: u64,
  /// Most processes and threads.
  pub pids_limit: i64,
  /// Path in the container → tmpfs options.
  pub tmpfs: BTreeMap<String, String>,
  /// Labels of the container.
  pub labels: BTreeMap<String, String>,
  /// Run the engine's `docker-init` as process 1.
  pub init: bool,
  /// Name of the container; the engine makes one up without it.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub name: Option<String>,
  /// Replaces the image's entry point.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub entrypoint: Option<Vec<String>>,
  /// Host name inside.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub hostname: Option<String>,
  /// `HostConfig.IpcMode`.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub ipc_mode: Option<String>,
  /// OCI runtime, for example `runsc`.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub runtime: Option<String>,
  /// Kernel parameters of the container's namespaces.
  #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
  pub sysctls: BTreeMap<String, String>,
  /// Soft and hard limit alike, by the engine's name (`core`, `msgqueue`).
  #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
  pub ulimits: BTreeMap<String, u64>,
  /// Replace the image's health check by none: it would run commands past us.
  #[serde(default, skip_serializing_if = "std::ops::Not::not")]
  pub no_healthcheck: bool,
  /// Keep no log of the container's output on the engine's disk (`LogConfig.Type: none`).
  #[serde(default, skip_serializing_if = "std::ops::Not::not")]
  pub no_log: bool,
  /// Volume → where it is mounted, read-only, without a copy of what the image has there.
  #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
  pub read_only_volumes: BTreeMap<String, String>,
  /// Volume → where it is mounted, for writing.
  #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
  pub writable_volumes: BTreeMap<String, String>,
  /// Labels of a volume that the engine makes for a mount, where none of that name is there.
  #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
  pub volume_labels: BTreeMap<String, String>,
  /// Name servers in place of the engine's.
  #[serde(default, skip_serializing_if = "Vec::is_empty")]
  pub dns: Vec<String>,
  /// Keep process 1's standard input open, whoever attaches and detaches.
  #[serde(default, skip_serializing_if = "std::ops::Not::not")]
  pub open_stdin: bool,
  /// Remove the container when its process 1 ends.
  #[serde(default, skip_serializing_if = "std::ops::Not::not")]
  pub auto_remove: bool,
}

/// What we read of `GET /containers/{id}/json`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Inspection {
  /// Full id.
  pub id: String,
  /// Name with a leading slash.
  #[serde(default)]
  pub name: String,
  /// Time of creation, RFC 3339.
  #[serde(default)]
  pub created: String,
  /// Id of its image.
  #[serde(default)]
  pub image: String,
  /// State now.
  pub state: ContainerState,
  /// Limits and mounts as created.
  #[serde(default)]
  pub host_config: HostConfig,
  /// Labels and the like as created.
  #[serde(default)]
  pub config: ContainerConfig,
}

/// `State` of an inspection.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerState {
  /// True while process 1 runs; also true while paused.
  pub running: bool,
  /// True while frozen.
  pub paused: bool,
  /// `created running paused restarting removing exited dead`.
  pub status: String,
  /// The kernel killed something of it for memory.
  #[serde(rename = "OOMKilled")]
  pub oom_killed: bool,
  /// Exit code of process 1; 0 while it runs.
  pub exit_code: i64,
}

/// `HostConfig` of an inspection, as far as we check it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostConfig {
  /// CPU quota in 10⁻⁹ CPUs.
  pub nano_cpus: u64,
  /// Process limit; absent on engines that have none.
  pub pids_limit: Option<i64>,
  /// Memory limit in bytes.
  pub memory: i64,
  /// Memory and swap together, in bytes.
  pub memory_swap: i64,
  /// Network mode as asked for.
  pub network_mode: String,
  /// Root file system mounted read-only.
  pub readonly_rootfs: bool,
  /// Path → options of its tmpfs mounts.
  pub tmpfs: Option<BTreeMap<String, String>>,
  /// Capabilities that were dropped.
  pub cap_drop: Option<Vec<String>>,
  /// Capabilities that were added.
  pub cap_add: Option<Vec<String>>,
  /// `no-new-privileges:true`, `seccomp=…` …
  pub security_opt: Option<Vec<String>>,
  /// All of the host's devices and capabilities.
  pub privileged: bool,
  /// Places of the host that are mounted.
  pub binds: Option<Vec<String>>,
  /// Whose shared memory it sees.
  pub ipc_mode: String,
}

/// `Config` of an inspection, of a container or an image.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerConfig {
  /// Labels, the image's and the container's.
  pub labels: Option<BTreeMap<String, String>>,
  /// `NAME=value`.
  pub env: Option<Vec<String>>,
  /// Paths that the image declares as volumes.
  pub volumes: Option<BTreeMap<String, serde_json::Value>>,
  /// `uid:gid`, or empty for root.
  pub user: String,
}

/// What we read of `GET /images/{name}/json`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageInspection {
  /// `sha256:…` of the image's configuration.
  pub id: String,
  /// `name@sha256:…` as known from registries; null on an image that was never pulled or pushed.
  pub repo_digests: Option<Vec<String>>,
  /// What containers of it inherit.
  pub config: ContainerConfig,
  /// CPU architecture in Go's spelling (`amd64`, `arm64`).
  pub architecture: String,
  /// `linux` for all that we can use.
  pub os: String,
}

/// One container of a list.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ListedContainer {
  /// Full id.
  pub id: String,
  /// Names with a leading slash.
  pub names: Vec<String>,
  /// Labels, never null here.
  #[serde(deserialize_with = "null_is_empty")]
  pub labels: BTreeMap<String, String>,
  /// Time of creation in seconds since 1970.
  pub created: i64,
  /// `running`, `exited` …
  pub state: String,
}

/// One image of a list.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ListedImage {
  /// `sha256:…`.
  pub id: String,
  /// `name:tag`, each.
  #[serde(deserialize_with = "null_is_empty")]
  pub repo_tags: Vec<String>,
  /// Labels, never null here.
  #[serde(deserialize_with = "null_is_empty")]
  pub labels: BTreeMap<String, String>,
  /// Time of creation in seconds since 1970.
  pub created: i64,
}

/// What an archive call says of the path that was asked for: the public `DockerPathStat`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathStat {
  /// Last component of the path.
  pub name: String,
  /// Size in bytes; 0 for what is no regular file.
  pub size: u64,
  /// Permission bits.
  pub mode: u32,
  /// Target of a symbolic link, else empty.
  pub link_target: String,
}

/// One network of a list.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ListedNetwork {
  /// Full id.
  pub id: String,
  /// Its name.
  pub name: String,
  /// Labels, never null here.
  #[serde(deserialize_with = "null_is_empty")]
  pub labels: BTreeMap<String, String>,
  /// Time of creation, RFC 3339.
  pub created: String,
}

/// A network that was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
  /// Full id.
  pub id: String,
  /// Address of the engine's end, where it has one.
  pub gateway: Option<String>,
  /// Its addresses, as `address/bits`, where the engine tells.
  pub subnet: Option<String>,
}

/// What an engine can enforce, from `GET /info`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EngineInfo {
  /// Memory limits work.
  pub memory_limit: bool,
  /// Swap can be limited.
  pub swap_limit: bool,
  /// Process limits work.
  pub pids_limit: bool,
  /// CPU quotas work.
  pub cpu_cfs_quota: bool,
  /// `name=seccomp,profile=default`, `name=rootless` …
  pub security_options: Vec<String>,
  /// Version of the engine, for messages.
  pub server_version: String,
  /// CPU architecture as `uname -m` says it.
  pub architecture: String,
  /// `linux` for all that we can use.
  #[serde(rename = "OSType")]
  pub os_type: String,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
  deserializer: D,
) -> Result<T, D::Error> {
  Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
