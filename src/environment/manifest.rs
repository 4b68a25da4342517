//! The manifest: what an environment promises, in the runtime's words. Its hash ties a run to its environment.
//!
//! In it is all that bounds or permits something. Not in it: how the host talks to the container, where leases and
//! snapshots are kept, whose `sweep` cleans up, when an image is fetched, what the workspace is filled with, and the
//! values of variables, which may be secrets.

use serde_json::{Map, Value, json};

use super::options::{Assurance, NetworkPolicy, Options, ShellPolicy, UndeclaredTools};
use crate::workspace::path::WORKSPACE_ROOT;

/// Grows whenever the reference profile changes, so that no run is resumed under a promise it was not started with.
const PROFILE: u64 = 1;

/// The manifest of an environment with these options. Keys without a value are absent, never null.
pub fn manifest(options: &Options) -> Value {
  let mut manifest = json!({
    "schemaVersion": 1,
    "id": options.id,
    "backend": "container",
    "assurance": match options.assurance {
      Assurance::Enforced => "enforced",
      Assurance::BestEffort => "best-effort",
    },
    "isolation": "per-run",
    "workspace": {
      "id": options.workspace.id,
      "root": WORKSPACE_ROOT,
      "cwd": WORKSPACE_ROOT,
      "access": "read-write",
      "followSymlinks": false,
      "readablePaths": [WORKSPACE_ROOT],
      "writablePaths": [WORKSPACE_ROOT],
    },
    "permissions": permissions(options),
    "limits": limits(options),
    "metadata": metadata(options),
  });
  if let (Some(version), Value::Object(fields)) = (&options.version, &mut manifest) {
    fields.insert("version".to_owned(), json!(version));
  }
  manifest
}

fn permissions(options: &Options) -> Value {
  let network = match options.network {
    NetworkPolicy::Deny => json!({ "mode": "deny" }),
  };
  let process = match &options.shell {
    ShellPolicy::Deny => json!({ "shell": "deny" }),
    ShellPolicy::Allow => json!({ "shell": "allow" }),
    ShellPolicy::List(names) => json!({ "shell": "allowlist", "allowedCommands": names }),
  };
  json!({
    "undeclaredTools": match options.undeclared_tools {
      UndeclaredTools::Deny => "deny",
      UndeclaredTools::Allow => "allow",
    },
    "filesystem": "read-write",
    "network": network,
    "process": process,
    "environment": { "inheritedVariables": [] },
  })
}

fn limits(options: &Options) -> Value {
  let limits = &options.limits;
  json!({
    "maxProcessRuntimeMs": limits.command_timeout.as_millis() as u64,
    "maxProcessOutputBytes": limits.max_output_bytes,
    "maxConcurrentProcesses": limits.max_concurrent_processes,
    "maxMemoryMb": limits.memory_mb,
    "maxWorkspaceBytes": limits.max_workspace_bytes,
    "maxFileWriteBytes": limits.max_file_bytes,
  })
}

/// What the runtime has no field for and must be in the fingerprint.
fn metadata(options: &Options) -> Value {
  let mut fields = Map::new();
  let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
  set("profile", json!(PROFILE));
  set("image", json!(options.image));
  set("user", json!(options.user.to_string()));
  set("cpus", plain(options.limits.cpus));
  set("pids", json!(options.limits.pids));
  set("workspaceExec", json!(options.workspace.exec));
  set("workspaceInodes", json!(options.limits.workspace_inodes()));
  set("environmentVariables", options.env.keys().map(String::as_str).collect());
  set("declaredTools", json!(options.declared_tools));
  set("leaseMs", json!(options.lease.as_millis() as u64));
  set("snapshot", json!("tar"));
  if let Some(runtime) = &options.runtime {
    set("runtime", json!(runtime));
  }
  if let Some(size) = options.tmp_mb {
    set("tmpMb", json!(size));
  }
  Value::Object(fields)
}

/// A whole number without a fraction, as JavaScript writes it.
fn plain(number: f64) -> Value {
  if number.fract() == 0.0 { json!(number as u64) } else { json!(number) }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::docker::EngineKind;

  fn of(options: Value) -> Value {
    manifest(&Options::from_json(&options, &[], EngineKind::Node).unwrap())
  }

  #[test]
  fn of_the_defaults() {
    let expected = json!({
      "schemaVersion": 1, "id": "docker-sandbox", "backend": "container", "assurance": "enforced", "isolation": "per-run",
      "workspace": {
        "id": "repo", "root": "/workspace", "cwd": "/workspace", "access": "read-write", "followSymlinks": false,
        "readablePaths": ["/workspace"], "writablePaths": ["/workspace"],
      },
      "permissions": {
        "undeclaredTools": "deny", "filesystem": "read-write", "network": { "mode": "deny" },
        "process": { "shell": "deny" }, "environment": { "inheritedVariables": [] },
      },
      "limits": {
        "maxProcessRuntimeMs": 10_000, "maxProcessOutputBytes": 1_048_576, "maxConcurrentProcesses": 8,
        "maxMemoryMb": 256, "maxWorkspaceBytes": 67_108_864, "maxFileWriteBytes": 1_048_576,
      },
      "metadata": {
        "profile": 1, "image": "alpine:3.21", "user": "65534:65534", "cpus": 0.5, "pids": 64, "workspaceExec": false,
        "workspaceInodes": 16_384, "environmentVariables": [], "declaredTools": [], "leaseMs": 900_000, "snapshot": "tar",
      },
    });
    assert_eq!(of(json!({ "workspace": { "id": "repo" } })), expected);
  }

  /// All that bounds or permits, each with a value that is not the default.
  fn everything() -> Value {
    json!({
      "id": "e", "version": "2", "image": "i", "runtime": "runsc", "user": "5", "workspace": { "id": "w", "exec": true },
      "tmp": { "sizeMb": 1 }, "shell": { "allow": ["ls", "echo"] }, "env": { "B": "1", "A": "2" }, "leaseMs": 1,
      "limits": {
        "memoryMb": 512, "cpus": 2, "pids": 65, "commandTimeoutMs": 2, "maxOutputBytes": 3, "maxFileBytes": 4,
        "maxWorkspaceBytes": 5, "maxConcurrentProcesses": 6,
      },
      "assurance": "best-effort", "undeclaredTools": "allow", "declaredTools": ["x"],
    })
  }

  #[test]
  fn of_everything() {
    let expected = json!({
      "schemaVersion": 1, "id": "e", "version": "2", "backend": "container", "assurance": "best-effort",
      "isolation": "per-run",
      "workspace": {
        "id": "w", "root": "/workspace", "cwd": "/workspace", "access": "read-write", "followSymlinks": false,
        "readablePaths": ["/workspace"], "writablePaths": ["/workspace"],
      },
      "permissions": {
        "undeclaredTools": "allow", "filesystem": "read-write", "network": { "mode": "deny" },
        "process": { "shell": "allowlist", "allowedCommands": ["echo", "ls"] },
        "environment": { "inheritedVariables": [] },
      },
      "limits": {
        "maxProcessRuntimeMs": 2, "maxProcessOutputBytes": 3, "maxConcurrentProcesses": 6, "maxMemoryMb": 512,
        "maxWorkspaceBytes": 5, "maxFileWriteBytes": 4,
      },
      "metadata": {
        "profile": 1, "image": "i", "runtime": "runsc", "user": "5:5", "cpus": 2, "pids": 65, "tmpMb": 1,
        "workspaceExec": true, "workspaceInodes": 1024, "environmentVariables": ["A", "B"], "declaredTools": ["x"],
        "leaseMs": 1, "snapshot": "tar",
      },
    });
    assert_eq!(of(everything()), expected);
  }

  #[test]
  fn what_neither_bounds_nor_permits_changes_nothing() {
    let mut other = everything();
    other["transport"] = json!("exec");
    other["socketPath"] = json!("/other.sock");
    other["ownerId"] = json!("me");
    other["pull"] = json!("never");
    other["env"] = json!({ "A": "secret", "B": "" });
    other["workspace"]["files"] = json!([{ "path": "f", "contents": "1234" }]);
    other["workspace"]["directories"] = json!(["d"]);
    other["shell"]["allow"] = json!(["echo", "ls", "echo"]);
    assert_eq!(of(other), of(everything()));
  }
}
