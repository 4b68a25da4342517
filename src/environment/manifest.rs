//! The manifest: what the environment promises, in the runtime's own fields; what has no field is metadata. All that
//! bounds or permits is in it, so that a resumed run has what it was started with. Values of variables are not: they
//! may be secrets.

use serde_json::{Map, Value, json};

use super::authorize::OWN_TOOLS;
use super::options::{Allowlist, Assurance, Options, UndeclaredTools};
use crate::proxy::Quotas;
use crate::workspace::path::WORKSPACE_ROOT;
use crate::workspace::policy::ShellPolicy;

/// Version of the manifest's shape, the runtime's number.
const SCHEMA_VERSION: u32 = 1;

/// The manifest of an environment.
pub fn manifest(options: &Options) -> Value {
  let mut manifest = json!({
    "schemaVersion": SCHEMA_VERSION,
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
  if let (Some(version), Some(fields)) = (&options.version, manifest.as_object_mut()) {
    fields.insert("version".to_owned(), json!(version));
  }
  manifest
}

fn permissions(options: &Options) -> Value {
  let process = match &options.shell {
    ShellPolicy::Deny => json!({ "shell": "deny" }),
    ShellPolicy::Allow => json!({ "shell": "allow" }),
    ShellPolicy::List(commands) => json!({ "shell": "allowlist", "allowedCommands": commands }),
  };
  json!({
    "undeclaredTools": match options.undeclared_tools {
      UndeclaredTools::Deny => "deny",
      UndeclaredTools::Allow => "allow",
    },
    "filesystem": "read-write",
    "network": match options.network.allowlist() {
      None => json!({ "mode": "deny" }),
      Some(Allowlist { policy, .. }) => json!({
        "mode": "allowlist",
        "allowedDomains": policy.rules().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "allowedPorts": policy.ports(),
        "allowPrivateNetworks": policy.allows_private(),
      }),
    },
    "process": process,
    "environment": { "inheritedVariables": [] },
  })
}

fn limits(options: &Options) -> Value {
  let limits = &options.limits;
  let mut fields = json!({
    "maxProcessRuntimeMs": millis(limits.command_timeout),
    "maxProcessOutputBytes": limits.max_output_bytes,
    "maxConcurrentProcesses": limits.max_concurrent_processes,
    "maxMemoryMb": limits.memory_mb,
    "maxWorkspaceBytes": limits.max_workspace_bytes,
    "maxFileWriteBytes": limits.max_file_bytes,
  });
  if let (Some(Allowlist { quotas, .. }), Some(fields)) =
    (options.network.allowlist(), fields.as_object_mut())
  {
    fields.insert("maxNetworkRequests".to_owned(), json!(quotas.max_network_requests));
    fields.insert("maxNetworkBytes".to_owned(), json!(quotas.max_network_bytes));
  }
  fields
}

fn metadata(options: &Options) -> Value {
  let mut fields = Map::new();
  let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
  put("image", json!(options.image));
  put("user", json!(options.user.to_string()));
  put("cpus", number(options.limits.cpus));
  put("pids", json!(options.limits.pids));
  put("workspaceExec", json!(options.workspace.exec));
  put("leaseMs", json!(millis(options.lease)));
  put("snapshot", json!(options.snapshot.as_str()));
  put(
    "tools",
    json!(
      OWN_TOOLS.iter().copied().chain(options.declared_tools.iter().map(String::as_str)).collect::<Vec<_>>()
    ),
  );
  put("environmentVariables", json!(options.env.keys().collect::<Vec<_>>()));
  if let Some(tmp_mb) = options.tmp_mb {
    put("tmpMb", json!(tmp_mb));
  }
  if let Some(Allowlist { quotas, .. }) = options.network.allowlist() {
    put("proxyQuotas", proxy_quotas(quotas));
  }
  if let Some(runtime) = &options.runtime {
    put("runtime", json!(runtime));
  }
  Value::Object(fields)
}

/// Those that have no field of the runtime's own.
fn proxy_quotas(quotas: &Quotas) -> Value {
  json!({
    "maxConnections": quotas.max_connections,
    "maxTotalConnections": quotas.max_total_connections,
    "maxInFlightDns": quotas.max_in_flight_dns,
    "maxRequests": quotas.max_requests,
    "maxHeadBytes": quotas.max_head_bytes,
    "headTimeoutMs": millis(quotas.head_timeout),
    "maxBytesUp": quotas.max_bytes_up,
    "maxBytesDown": quotas.max_bytes_down,
    "idleTimeoutMs": millis(quotas.idle_timeout),
    "tunnelLifetimeMs": millis(quotas.tunnel_lifetime),
  })
}

/// A whole number is written as one: `1`, not `1.0`, as JavaScript writes it.
#[expect(clippy::cast_possible_truncation, reason = "the fraction is checked to be zero, and CPUs are few")]
fn number(value: f64) -> Value {
  if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}

fn millis(duration: std::time::Duration) -> u64 {
  u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
