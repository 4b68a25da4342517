//! Whether a container and an engine are what the profile says.

use std::fmt::Display;

use super::{memory_bytes, mounts, nano_cpus};
use crate::docker::EngineKind;
use crate::docker::dialect::Dialect;
use crate::docker::model::{EngineInfo, HostConfig, Inspection};
use crate::environment::options::{Assurance, Options};
use crate::error::{Result, fail};
use crate::workspace::path::WORKSPACE_ROOT;

/// Whether a container was made with today's limits; `CONFLICT` names the first that differs. A limit that an engine
/// leaves out because it cannot enforce it is waived with `assurance: "best-effort"`; what an application's own client
/// does not report (it need not) cannot be compared. `network` is the id of the run's own, where it has one.
pub fn verify(found: &Inspection, options: &Options, network: Option<&str>, dialect: Dialect) -> Result<()> {
  let name = if found.name.is_empty() { &found.id } else { &found.name };
  let (host, limits) = (&found.host_config, &options.limits);
  // Every engine names a network mode; an inspection without one is not an engine's.
  let partial = host.network_mode.is_empty();
  if options.engine == EngineKind::Own && options.assurance == Assurance::Enforced {
    verify_own(found, options, partial)?;
  }
  let waived = partial || options.assurance == Assurance::BestEffort;
  let (memory, cpus) = (number(memory_bytes(limits)), number(nano_cpus(limits)));
  let pids = host.pids_limit.unwrap_or(0);
  let check = |what: &str, is: i64, wanted: i64, unset: bool| {
    if is == wanted || (waived && unset) { Ok(()) } else { Err(differs(name, what, &is, &wanted)) }
  };
  check("limits.memoryMb (in bytes)", host.memory, memory, host.memory == 0)?;
  check("memory and swap together (in bytes)", host.memory_swap, memory, host.memory_swap <= 0)?;
  check("limits.cpus (in billionths)", number(host.nano_cpus), cpus, host.nano_cpus == 0)?;
  check("limits.pids", pids, i64::from(limits.pids), pids <= 0)?;
  if partial {
    return Ok(());
  }
  let mode = network.unwrap_or("none");
  if host.network_mode != mode {
    return Err(differs(name, "network mode", &host.network_mode, &mode));
  }
  if !host.readonly_rootfs {
    return Err(differs(name, "read-only root file system", &false, &true));
  }
  verify_mounts(name, host, options, dialect)
}

/// A client of the application's own may leave out what it does not know: with `assurance: "enforced"` the engine's own
/// inspection must show that it passed on the rest of the profile too.
fn verify_own(found: &Inspection, options: &Options, partial: bool) -> Result<()> {
  let host = &found.host_config;
  if partial || host.tmpfs.is_none() {
    return Err(fail!(
      Unsupported,
      "assurance is \"enforced\", and client.inspectContainer() tells too little to check the container: it must resolve to the engine's whole reply. Use assurance: \"best-effort\" otherwise."
    ));
  }
  let has =
    |list: &Option<Vec<String>>, wanted: &str| list.iter().flatten().any(|item| item.starts_with(wanted));
  let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
  let volumes = found.config.volumes.iter().flatten().map(|(path, _)| path);
  let tmpfs = host.tmpfs.iter().flatten().map(|(path, _)| path).collect::<Vec<_>>();
  let checks = [
    (has(&host.cap_drop, "ALL") && !some(&host.cap_add), "dropped capabilities"),
    (has(&host.security_opt, "no-new-privileges"), "no-new-privileges"),
    (!has(&host.security_opt, "seccomp=unconfined"), "the seccomp profile"),
    (!host.privileged, "an unprivileged container"),
    (!some(&host.binds), "no mounts of the host"),
    (host.ipc_mode == "none", "ipcMode none"),
    (found.config.user == options.user.to_string(), "the user"),
    (volumes.into_iter().all(|volume| tmpfs.contains(&volume)), "masked volumes of the image"),
  ];
  let missing: Vec<_> = checks.into_iter().filter(|(kept, _)| !kept).map(|(_, what)| what).collect();
  if missing.is_empty() {
    return Ok(());
  }
  Err(fail!(
    Unsupported,
    "assurance is \"enforced\", but the application's own client made a container without: {}. Pass every field of the spec on to the engine, or use assurance: \"best-effort\".",
    missing.join(", ")
  ))
}

fn verify_mounts(name: &str, host: &HostConfig, options: &Options, dialect: Dialect) -> Result<()> {
  let Some(mounts) = &host.tmpfs else { return Ok(()) };
  let is = |path: &str| mounts.get(path).map_or("none", String::as_str);
  let as_asked = |path: &str, asked: &str| mounts::is_as_asked(is(path), asked, options, dialect);
  let workspace = mounts::workspace(options, dialect);
  if !as_asked(WORKSPACE_ROOT, &workspace) {
    return Err(differs(name, "workspace", &is(WORKSPACE_ROOT), &workspace));
  }
  let (tmp, mask) = (mounts::tmp(options, dialect), mounts::mask(dialect));
  let wanted = tmp.as_deref().unwrap_or("none");
  // Without the option there is none, or a mask over a volume of the image.
  if !as_asked(mounts::TMP, wanted) && (tmp.is_some() || !as_asked(mounts::TMP, &mask)) {
    return Err(differs(name, "tmp.sizeMb (as mounted)", &is(mounts::TMP), &wanted));
  }
  let of_options = |path: &str| path == mounts::TMP && tmp.is_some();
  match mounts::always_masked(dialect).iter().find(|path| !of_options(path) && !as_asked(path, &mask)) {
    Some(path) => Err(differs(name, &format!("mask of {path}"), &is(path), &mask)),
    None => Ok(()),
  }
}

fn differs(name: &str, what: &str, is: &dyn Display, wanted: &dyn Display) -> crate::error::Error {
  let name = name.trim_start_matches('/');
  fail!(
    Conflict,
    "Container {name} has another {what} than the environment: {is} instead of {wanted}. Resume the run with the options that started it, or start a new run."
  )
}

fn number(number: u64) -> i64 {
  i64::try_from(number).unwrap_or(i64::MAX)
}

/// What an engine cannot enforce of the profile, in words for a message.
pub fn enforcement_gaps(info: &EngineInfo, dialect: Dialect) -> Vec<&'static str> {
  // An engine that was started with "unconfined" names seccomp all the same.
  let seccomp = |option: &String| option.contains("seccomp") && !option.contains("profile=unconfined");
  let checks = [
    (info.memory_limit, "memory limits"),
    (info.swap_limit, "swap limits"),
    (info.cpu_cfs_quota, "CPU quotas"),
    (info.pids_limit, "process limits"),
    (info.security_options.iter().any(seccomp), "seccomp profiles"),
    // Podman refuses `nr_inodes`: only the memory limit bounds how many empty files there can be.
    (dialect == Dialect::Docker, "the number of files in the workspace"),
    // Podman's default profile allows `unshare` and `mount`, and by this API it takes no other one.
    (dialect == Dialect::Docker, "a seccomp profile that refuses new user namespaces"),
    (info.os_type.is_empty() || info.os_type == "linux", "Linux containers"),
  ];
  checks.into_iter().filter(|(there, _)| !there).map(|(_, what)| what).collect()
}
