//! From the application's options to checked ones, one line for each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::defaults::{
  CHECKPOINT_MS, COMMAND_TIMEOUT_MS, CPUS, ID, IMAGE, LEASE_MS, MAX_CONCURRENT, MAX_FILE_BYTES,
  MAX_OUTPUT_BYTES, MAX_WORKSPACE_BYTES, MEMORY_MB, PIDS, PIDS_PER_COMMAND, POOL_SIZE, TMP_MB, USER,
};
use super::names::{
  ID_MAY, IMAGE_MAY, RUNTIME_MAY, TOOL_MAY, USER_MAY, VARIABLE_MAY, is_id, is_image, is_runtime, is_tool,
  parse_user,
};
use super::network::read_network;
use super::reader::{Field, Fields};
use super::workspace::read_workspace;
use super::{Assurance, Limits, Options, Pull, ShellPolicy, SnapshotKind, Transport, UndeclaredTools, User};
use crate::docker::EngineKind;
use crate::environment::search_path;
use crate::error::{Result, fail};
use crate::limits::{MAX_ARG_BYTES, MAX_ENV_BYTES, MAX_ENV_VARS};
use crate::workspace::path::quote;
use crate::workspace::policy::is_variable_name;

const KEYS: &[&str] = &[
  "id",
  "version",
  "image",
  "pull",
  "runtime",
  "user",
  "workspace",
  "tmp",
  "shell",
  "network",
  "limits",
  "env",
  "leaseMs",
  "snapshot",
  "checkpointMs",
  "assurance",
  "undeclaredTools",
  "declaredTools",
  "ownerId",
  "socketPath",
  "transport",
  "pool",
];
const LIMIT_KEYS: &[&str] = &[
  "memoryMb",
  "cpus",
  "pids",
  "commandTimeoutMs",
  "maxOutputBytes",
  "maxFileBytes",
  "maxWorkspaceBytes",
  "maxConcurrentProcesses",
];
const MIB: u64 = 1024 * 1024;

impl Options {
  /// Checks the public `EnvironmentOptions` without its objects (`client`, the stores, `onEvent`). `{"$blob": i}` stands
  /// for the i-th of `blobs`, `{"$invalid": text}` for a value that JSON cannot hold. `engine` decides the default of
  /// `assurance`. Anything wrong is `CONFIG_INVALID`, an option of a later version `UNSUPPORTED`.
  pub fn from_json(json: &Value, blobs: &[Bytes], engine: EngineKind) -> Result<Self> {
    let root = Fields::root(json, KEYS)?;
    let limits = read_limits(&root.get("limits"))?;
    let tmp_mb = read_tmp(&root.get("tmp"))?;
    check_memory(&limits, tmp_mb)?;
    let transport = read_transport(&root.get("transport"))?;
    Ok(Self {
      id: root.get("id").text(ID_MAY, is_id)?.unwrap_or_else(|| ID.to_owned()),
      version: root.get("version").text(ID_MAY, is_id)?,
      image: root.get("image").text(IMAGE_MAY, is_image)?.unwrap_or_else(|| IMAGE.to_owned()),
      pull: root
        .get("pull")
        .choice(&[("missing", Pull::Missing), ("never", Pull::Never), ("always", Pull::Always)])?
        .unwrap_or(Pull::Missing),
      runtime: root.get("runtime").text(RUNTIME_MAY, is_runtime)?,
      user: read_user(&root.get("user"))?,
      workspace: read_workspace(&root.get("workspace"), &limits, blobs)?,
      tmp_mb,
      shell: read_shell(&root.get("shell"))?,
      network: read_network(&root.get("network"))?,
      limits,
      env: read_env(&root.get("env").hidden())?,
      lease: Duration::from_millis(root.get("leaseMs").whole_or_default(&LEASE_MS)?),
      snapshot: root
        .get("snapshot")
        .choice(&[("tar", SnapshotKind::Tar), ("docker-commit", SnapshotKind::Commit)])?
        .unwrap_or(SnapshotKind::Tar),
      checkpoint: root.get("checkpointMs").whole(&CHECKPOINT_MS)?.map(Duration::from_millis),
      assurance: read_assurance(&root.get("assurance"), engine)?,
      engine,
      undeclared_tools: root
        .get("undeclaredTools")
        .choice(&[("deny", UndeclaredTools::Deny), ("allow", UndeclaredTools::Allow)])?
        .unwrap_or(UndeclaredTools::Deny),
      declared_tools: read_names(&root.get("declaredTools"), TOOL_MAY, is_tool)?,
      owner_id: root.get("ownerId").text(ID_MAY, is_id)?,
      transport,
      pool_size: read_pool(&root.get("pool"), transport)?,
      socket_path: root
        .get("socketPath")
        .text("the path of a Docker engine's unix socket", |path| !path.is_empty() && !path.contains('\0'))?
        .map(PathBuf::from),
    })
  }
}

fn read_user(field: &Field<'_>) -> Result<User> {
  let text = field.text(USER_MAY, |text| parse_user(text).is_some())?;
  Ok(text.as_deref().and_then(parse_user).unwrap_or(USER))
}

fn read_limits(field: &Field<'_>) -> Result<Limits> {
  let empty = Value::Object(serde_json::Map::new());
  let fields = match field.optional_fields(LIMIT_KEYS)? {
    Some(fields) => fields,
    None => Fields::root(&empty, LIMIT_KEYS)?,
  };
  let pids = fields.get("pids").whole_or_default(&PIDS)?;
  let concurrent = fields.get("maxConcurrentProcesses");
  let default_concurrent = (pids / PIDS_PER_COMMAND).clamp(1, MAX_CONCURRENT.default);
  let processes = concurrent.whole(&MAX_CONCURRENT)?.unwrap_or(default_concurrent);
  if processes > pids {
    return Err(concurrent.wrong(format_args!("at most limits.pids, which is {pids}")));
  }
  Ok(Limits {
    memory_mb: fields.get("memoryMb").whole_or_default(&MEMORY_MB)?,
    cpus: fields.get("cpus").number(CPUS)?,
    pids: narrow(pids)?,
    command_timeout: Duration::from_millis(
      fields.get("commandTimeoutMs").whole_or_default(&COMMAND_TIMEOUT_MS)?,
    ),
    max_output_bytes: fields.get("maxOutputBytes").whole_or_default(&MAX_OUTPUT_BYTES)?,
    max_file_bytes: fields.get("maxFileBytes").whole_or_default(&MAX_FILE_BYTES)?,
    max_workspace_bytes: fields.get("maxWorkspaceBytes").whole_or_default(&MAX_WORKSPACE_BYTES)?,
    max_concurrent_processes: narrow(processes)?,
  })
}

/// A number whose range was checked, as the smaller type that holds that range.
pub fn narrow(number: u64) -> Result<u32> {
  u32::try_from(number).map_err(|error| fail!(Internal, "An option's range is too wide.").with_source(error))
}

fn read_tmp(field: &Field<'_>) -> Result<Option<u64>> {
  let Some(fields) = field.optional_fields(&["sizeMb"])? else { return Ok(None) };
  let size = fields.get("sizeMb");
  match size.whole(&TMP_MB)? {
    Some(megabytes) => Ok(Some(megabytes)),
    None => Err(size.wrong(format_args!("a whole number from {} to {} (MiB)", TMP_MB.min, TMP_MB.max))),
  }
}

/// A tmpfs takes its pages from the container's memory: one that can fill it all ends the run by the OOM killer.
fn check_memory(limits: &Limits, tmp_mb: Option<u64>) -> Result<()> {
  let memory = limits.memory_mb * MIB;
  let tmp = tmp_mb.unwrap_or(0) * MIB;
  if limits.max_workspace_bytes + tmp < memory {
    return Ok(());
  }
  Err(fail!(
    ConfigInvalid,
    "Option limits.maxWorkspaceBytes was {} and tmp.sizeMb {}: workspace and tmp are held in memory, and together must be below limits.memoryMb, which is {} ({memory} bytes).",
    limits.max_workspace_bytes,
    tmp_mb.map_or_else(|| "not given".to_owned(), |megabytes| megabytes.to_string()),
    limits.memory_mb
  ))
}

const SHELL_MAY: &str = "\"deny\", \"allow\" or { allow: [names of commands] }";

fn read_shell(field: &Field<'_>) -> Result<ShellPolicy> {
  match field.value() {
    None => Ok(ShellPolicy::Deny),
    Some(Value::String(word)) if word == "deny" => Ok(ShellPolicy::Deny),
    Some(Value::String(word)) if word == "allow" => Ok(ShellPolicy::Allow),
    Some(Value::Object(map)) if !map.contains_key("$invalid") => {
      let allow = field.fields(&["allow"])?.get("allow");
      if allow.value().is_none() {
        return Err(allow.wrong("a list of names of commands"));
      }
      let may = "the bare name of a command, such as \"ls\", without path, white space or a leading \"-\"";
      Ok(ShellPolicy::List(read_names(&allow, may, is_command)?))
    }
    Some(_) => Err(field.wrong(SHELL_MAY)),
  }
}

fn is_command(text: &str) -> bool {
  is_tool(text) && !text.starts_with('-') && !text.contains('/') && text != "." && text != ".."
}

/// Order and repetition mean nothing in these lists, so they must not change the fingerprint.
fn read_names(field: &Field<'_>, may: &str, fits: fn(&str) -> bool) -> Result<Vec<String>> {
  let items = field.items("an array of strings")?;
  let mut names = items.iter().map(|item| item.required_text(may, fits)).collect::<Result<Vec<_>>>()?;
  names.sort();
  names.dedup();
  Ok(names)
}

fn read_env(field: &Field<'_>) -> Result<BTreeMap<String, String>> {
  let mut env = BTreeMap::new();
  if field.value().is_none() {
    return Ok(env);
  }
  let mut total = 0;
  for (name, variable) in field.object(&[])?.entries() {
    if !is_variable_name(name) {
      return Err(fail!(
        ConfigInvalid,
        "Option env has a variable {}; a name must be {VARIABLE_MAY}.",
        quote(name)
      ));
    }
    let value = variable.required_text("a string without NUL", |value| !value.contains('\0'))?;
    let size = name.len() + 1 + value.len();
    if size > MAX_ARG_BYTES {
      return Err(variable.wrong(format_args!("at most {MAX_ARG_BYTES} bytes with its name")));
    }
    total += size + 1;
    if name == "PATH" && !value.split(':').all(search_path::is_safe) {
      return Err(variable.wrong(
        "absolute directories without \".\" or \"..\", none in /workspace, /tmp, /proc or /dev, where commands could put programs",
      ));
    }
    env.insert(name.to_owned(), value);
  }
  if env.len() > MAX_ENV_VARS {
    return Err(fail!(
      ConfigInvalid,
      "Option env was {} variables; it must be at most {MAX_ENV_VARS}.",
      env.len()
    ));
  }
  if total > MAX_ENV_BYTES {
    return Err(fail!(
      ConfigInvalid,
      "Option env was {total} bytes in all; it must be at most {MAX_ENV_BYTES}."
    ));
  }
  Ok(env)
}

fn read_assurance(field: &Field<'_>, engine: EngineKind) -> Result<Assurance> {
  let given = field.choice(&[("enforced", Assurance::Enforced), ("best-effort", Assurance::BestEffort)])?;
  match (engine, given) {
    (EngineKind::Memory, Some(Assurance::Enforced)) => Err(fail!(
      Unsupported,
      "Option assurance was \"enforced\", and the in-memory client enforces nothing; use \"best-effort\" or a Docker engine."
    )),
    (EngineKind::Memory, _) => Ok(Assurance::BestEffort),
    // Nobody here can vouch for it: it must be asked for, and is then checked when a run is acquired.
    (EngineKind::Own, given) => Ok(given.unwrap_or(Assurance::BestEffort)),
    (EngineKind::Node, given) => Ok(given.unwrap_or(Assurance::Enforced)),
  }
}

fn read_transport(field: &Field<'_>) -> Result<Transport> {
  let choices = [("auto", Transport::Auto), ("resident", Transport::Resident), ("exec", Transport::Exec)];
  Ok(field.choice(&choices)?.unwrap_or(Transport::Auto))
}

/// A container without process 1 of ours would wait for ever for a run of a host that has died.
fn read_pool(field: &Field<'_>, transport: Transport) -> Result<usize> {
  let Some(fields) = field.optional_fields(&["size"])? else { return Ok(0) };
  let size = fields.get("size");
  let Some(containers) = size.whole(&POOL_SIZE)? else {
    return Err(
      size.wrong(format_args!("a whole number from {} to {} (containers)", POOL_SIZE.min, POOL_SIZE.max)),
    );
  };
  if transport == Transport::Exec && containers > 0 {
    return Err(fail!(
      Unsupported,
      "Option pool needs the resident transport, and transport is \"exec\". Leave one of them out."
    ));
  }
  usize::try_from(containers)
    .map_err(|error| fail!(Internal, "An option's range is too wide.").with_source(error))
}
