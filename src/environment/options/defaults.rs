//! Every default and every range, once. What is said of them elsewhere is generated from here.

use serde_json::{Value, json};

use super::User;
use crate::workspace::path::WORKSPACE_ROOT;

/// A whole number: its default and what it may be.
pub struct Whole {
  /// Without the option.
  pub default: u64,
  /// Smallest.
  pub min: u64,
  /// Largest.
  pub max: u64,
  /// What is counted, for messages.
  pub unit: &'static str,
}

/// `id`.
pub const ID: &str = "docker-sandbox";
/// `image`.
pub const IMAGE: &str = "alpine:3.21";
/// `user`: "nobody" of most distributions.
pub const USER: User = User { uid: 65534, gid: 65534 };
/// Largest uid and gid: the engine's own bound is 2³¹ − 1 (moby, `user` package), and one less keeps clear of −1.
pub const MAX_ID: u32 = i32::MAX as u32 - 1;

/// `limits.memoryMb`. The engine refuses less than 6 MiB (moby, minimum memory limit); 16 TiB is more than any host
/// has, and its bytes are an exact JavaScript number.
pub const MEMORY_MB: Whole = Whole { default: 256, min: 6, max: 16 * 1024 * 1024, unit: "MiB" };
/// `limits.cpus`: default, smallest (the engine's, moby `NanoCPUs`) and largest (no engine has more).
pub const CPUS: (f64, f64, f64) = (0.5, 0.01, 1024.0);
/// `limits.pids`. Process 1, its `sleep`, and the helpers around one command need 8; 2²² is the kernel's
/// `PID_MAX_LIMIT`.
pub const PIDS: Whole = Whole { default: 64, min: 8, max: 4 * 1024 * 1024, unit: "processes" };
/// `limits.commandTimeoutMs`, at most a day.
pub const COMMAND_TIMEOUT_MS: Whole = Whole { default: 10_000, min: 1, max: 86_400_000, unit: "ms" };
/// `limits.maxOutputBytes`. Output becomes one JavaScript string, and V8's longest has 2²⁹ − 24 units.
pub const MAX_OUTPUT_BYTES: Whole = Whole { default: MIB, min: 1, max: 256 * MIB, unit: "bytes" };
/// `limits.maxFileBytes`. A file is read into memory and becomes a JavaScript string, in base64 a third longer.
pub const MAX_FILE_BYTES: Whole = Whole { default: MIB, min: 1, max: 256 * MIB, unit: "bytes" };
/// `limits.maxWorkspaceBytes`. Never 0, which a tmpfs takes for "no limit"; below the memory limit in any case.
pub const MAX_WORKSPACE_BYTES: Whole =
  Whole { default: 64 * MIB, min: 1, max: 16 * 1024 * 1024 * MIB, unit: "bytes" };
/// `limits.maxConcurrentProcesses`. The default is one for every [`PIDS_PER_COMMAND`] of `limits.pids`, at most 8.
pub const MAX_CONCURRENT: Whole = Whole { default: 8, min: 1, max: 1024, unit: "commands" };
/// With the exec transport a command costs a shell, `timeout` and itself; this leaves it a few children of its own.
pub const PIDS_PER_COMMAND: u64 = 8;
/// `tmp.sizeMb`; below the memory limit in any case.
pub const TMP_MB: Whole = Whole { default: 0, min: 1, max: MEMORY_MB.max, unit: "MiB" };
/// `pool.size`. Each has a memory of `limits.memoryMb` promised, and some 2 MiB of it in use.
pub const POOL_SIZE: Whole = Whole { default: 0, min: 0, max: 256, unit: "containers" };
/// `leaseMs`: 15 minutes, at most 365 days.
pub const LEASE_MS: Whole = Whole { default: 900_000, min: 1, max: 365 * 86_400_000, unit: "ms" };
/// `checkpointMs`; none without it. At most a day, and never before the one before it is done.
pub const CHECKPOINT_MS: Whole = Whole { default: 0, min: 1, max: 86_400_000, unit: "ms" };
/// `workspace.files[].mode`: permission bits; set-id bits would do nothing here (`nosuid`, no new privileges).
pub const FILE_MODE: Whole = Whole { default: 0o644, min: 0, max: 0o777, unit: "as permission bits" };

/// `network.allowedPorts[]`.
pub const PORT: Whole = Whole { default: 0, min: 1, max: 65_535, unit: "a port" };
/// `network.allowedPorts` without the option: HTTPS.
pub const TLS_PORT: u16 = 443;
/// `network.quotas.maxConnections`. The resident transport carries 128 at once; those above the quota need places too, to
/// be told so.
pub const MAX_CONNECTIONS: Whole = quota(32, 96, "connections");
/// `network.quotas.maxTotalConnections`: each has a socket of this process, and processes may have 65,536 at most
/// on most systems.
pub const MAX_TOTAL_CONNECTIONS: Whole = quota(256, 32_768, "connections");
/// `network.quotas.maxInFlightDns`: each takes a thread of this process's while it lasts.
pub const MAX_IN_FLIGHT_DNS: Whole = quota(16, 256, "look-ups");
/// `network.quotas.maxRequests`.
pub const MAX_REQUESTS: Whole = quota(1_000, MANY, "requests");
/// `network.quotas.maxHeadBytes`; each connection may hold as many in memory. A `CONNECT` alone takes some 50.
pub const MAX_HEAD_BYTES: Whole = Whole { default: 16 * 1024, min: 64, max: MIB, unit: "bytes" };
/// `network.quotas.headTimeoutMs`.
pub const HEAD_TIMEOUT_MS: Whole = quota(10_000, DAY_MS, "ms");
/// `network.quotas.maxBytesUp`.
pub const MAX_BYTES_UP: Whole = quota(64 * MIB, MUCH, "bytes");
/// `network.quotas.maxBytesDown`.
pub const MAX_BYTES_DOWN: Whole = quota(256 * MIB, MUCH, "bytes");
/// `network.quotas.idleTimeoutMs`.
pub const IDLE_TIMEOUT_MS: Whole = quota(60_000, DAY_MS, "ms");
/// `network.quotas.tunnelLifetimeMs`.
pub const TUNNEL_LIFETIME_MS: Whole = quota(600_000, DAY_MS, "ms");
/// `network.quotas.maxNetworkRequests`.
pub const MAX_NETWORK_REQUESTS: Whole = quota(10_000, MANY, "requests");
/// `network.quotas.maxNetworkBytes`.
pub const MAX_NETWORK_BYTES: Whole = quota(1_024 * MIB, MUCH, "bytes");
const DAY_MS: u64 = 86_400_000;
/// More requests than a run can make, and yet an exact JavaScript number.
const MANY: u64 = 1_000_000_000;
/// 1 PiB: more than a run can move, and yet an exact JavaScript number.
const MUCH: u64 = 1 << 50;
const MIB: u64 = 1024 * 1024;

const fn quota(default: u64, max: u64, unit: &'static str) -> Whole {
  Whole { default, min: 1, max, unit }
}

/// The public `dockerSandboxSecurityDefaults`: the profile of an environment with no options but its workspace.
pub fn security_defaults() -> Value {
  json!({
    "image": IMAGE,
    "user": USER.to_string(),
    "workspaceRoot": WORKSPACE_ROOT,
    "network": "none",
    "readOnlyRoot": true,
    "memoryMb": MEMORY_MB.default,
    "swap": false,
    "cpus": CPUS.0,
    "pids": PIDS.default,
    "capDrop": ["ALL"],
    "noNewPrivileges": true,
    "seccomp": "default",
    "shell": "deny",
    "commandTimeoutMs": COMMAND_TIMEOUT_MS.default,
    "maxOutputBytes": MAX_OUTPUT_BYTES.default,
    "maxFileBytes": MAX_FILE_BYTES.default,
    "maxWorkspaceBytes": MAX_WORKSPACE_BYTES.default,
    "maxConcurrentProcesses": MAX_CONCURRENT.default,
    "leaseMs": LEASE_MS.default,
    "snapshot": "tar",
    "followSymlinks": false,
    "undeclaredTools": "deny",
    "inheritedEnvironment": [],
    "localFallback": false,
  })
}
