use super::*;
use crate::docker::EngineKind;

fn of(options: &Value) -> Value {
  manifest(&Options::from_json(options, &[], EngineKind::Node).unwrap())
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
      "image": "alpine:3.21", "user": "65534:65534", "cpus": 0.5, "pids": 64,
      "workspaceExec": false, "leaseMs": 900_000, "snapshot": "tar", "environmentVariables": [],
      "tools": ["sandbox_read_file", "sandbox_write_file", "sandbox_list", "sandbox_exec"],
    },
  });
  assert_eq!(of(&json!({ "workspace": { "id": "repo" } })), expected);
}

/// All that bounds or permits, each with a value that is not the default.
fn everything() -> Value {
  json!({
    "id": "e", "version": "2", "image": "i", "pull": "never", "runtime": "runsc", "user": "5",
    "workspace": { "id": "w", "exec": true }, "tmp": { "sizeMb": 1 }, "shell": { "allow": ["ls", "echo"] },
    "env": { "B": "1", "A": "2" }, "leaseMs": 1, "assurance": "best-effort", "undeclaredTools": "allow",
    "limits": {
      "memoryMb": 512, "cpus": 2, "pids": 65, "commandTimeoutMs": 2, "maxOutputBytes": 3, "maxFileBytes": 4,
      "maxWorkspaceBytes": 5, "maxConcurrentProcesses": 6,
    },
    "declaredTools": ["x"],
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
      "image": "i", "runtime": "runsc", "user": "5:5", "cpus": 2, "pids": 65, "tmpMb": 1,
      "workspaceExec": true, "leaseMs": 1, "snapshot": "tar", "environmentVariables": ["A", "B"],
      "tools": ["sandbox_read_file", "sandbox_write_file", "sandbox_list", "sandbox_exec", "x"],
    },
  });
  assert_eq!(of(&everything()), expected);
}

#[test]
fn what_neither_bounds_nor_permits_changes_nothing() {
  let mut other = everything();
  other["transport"] = json!("exec");
  other["socketPath"] = json!("/other.sock");
  other["ownerId"] = json!("me");
  other["env"] = json!({ "A": "secret", "B": "" });
  other["workspace"]["files"] = json!([{ "path": "f", "contents": "1234" }]);
  other["workspace"]["directories"] = json!(["d"]);
  other["shell"]["allow"] = json!(["echo", "ls", "echo"]);
  assert_eq!(of(&other), of(&everything()));
}

#[test]
fn of_an_allowlist() {
  let quotas =
    json!({ "maxConnections": 5, "maxNetworkRequests": 6, "maxNetworkBytes": 7, "idleTimeoutMs": 8 });
  let network = json!({ "mode": "allowlist", "allowedDomains": ["B.test", "*.a.test"], "allowedPorts": [80], "quotas": quotas });
  let manifest = of(&json!({ "workspace": { "id": "repo" }, "network": network }));
  assert_eq!(
    manifest["permissions"]["network"],
    json!({
      "mode": "allowlist", "allowedDomains": ["b.test", "*.a.test"], "allowedPorts": [80], "allowPrivateNetworks": false,
    })
  );
  assert_eq!(
    (&manifest["limits"]["maxNetworkRequests"], &manifest["limits"]["maxNetworkBytes"]),
    (&json!(6), &json!(7))
  );
  assert_eq!(
    manifest["metadata"]["proxyQuotas"],
    json!({
      "maxConnections": 5, "maxTotalConnections": 256, "maxInFlightDns": 16, "maxRequests": 1_000,
      "maxHeadBytes": 16_384, "headTimeoutMs": 10_000, "maxBytesUp": 67_108_864, "maxBytesDown": 268_435_456,
      "idleTimeoutMs": 8, "tunnelLifetimeMs": 600_000,
    })
  );
}
