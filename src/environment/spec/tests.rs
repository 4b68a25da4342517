use serde_json::{Value, json};

use super::*;
use crate::docker::EngineKind;
use crate::docker::model::{EngineInfo, Inspection};
use crate::error::ErrorCode;

const WORKSPACE: &str = "rw,nosuid,nodev,noexec,size=67108864,nr_inodes=16384,uid=65534,gid=65534,mode=0700";
const MASK: &str = "ro,nosuid,nodev,noexec,size=4096,nr_inodes=1,mode=0555";
const FULL: &str = "rw,nosuid,nodev,noexec,size=4096,nr_inodes=1,uid=65534,gid=65534,mode=0700";

fn options(extra: Value) -> Options {
  let mut json = json!({ "workspace": { "id": "repo" } });
  for (key, value) in extra.as_object().unwrap() {
    json[key] = value.clone();
  }
  Options::from_json(&json, &[], EngineKind::Node).unwrap()
}

fn image(config: Value) -> ImageInspection {
  serde_json::from_value(json!({ "Id": "sha256:0a", "Config": config })).unwrap()
}

fn identity() -> Identity {
  Identity { name: container_name("k"), labels: map(&[(LABEL, "1"), (LABEL_KEY, "k")]) }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
  pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn spec(extra: Value, config: Value) -> ContainerSpec {
  container_spec(&options(extra), &image(config), &identity())
}

#[test]
fn the_default_container_row_by_row() {
  let expected = ContainerSpec {
    image: "alpine:3.21".into(),
    user: "65534:65534".into(),
    working_dir: "/workspace".into(),
    env: vec![
      "HOME=/workspace".into(),
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
      "TMPDIR=/workspace".into(),
    ],
    cmd: vec![],
    network_mode: "none".into(),
    readonly_rootfs: true,
    memory_bytes: 268_435_456,
    nano_cpus: 500_000_000,
    pids_limit: 64,
    tmpfs: map(&[("/workspace", WORKSPACE)]),
    labels: map(&[("zhivex.sandbox", "1"), ("zhivex.sandbox.key", "k")]),
    init: false,
    name: Some("zhivex-sandbox-8254c329a92850f6d539dd37".into()),
    entrypoint: Some(vec!["/bin/sh".into(), "-c".into(), KEEPER.into()]),
    hostname: Some("sandbox".into()),
    ipc_mode: Some("none".into()),
    runtime: None,
    sysctls: map(&[("kernel.shm_rmid_forced", "1")]),
    ulimits: BTreeMap::from([("core".into(), 1), ("msgqueue".into(), 0)]),
    no_healthcheck: true,
    no_log: true,
  };
  assert_eq!(spec(json!({}), json!({})), expected);
}

#[test]
fn options_reach_the_container() {
  let spec = spec(
    json!({
      "user": "1000:100", "runtime": "runsc", "tmp": { "sizeMb": 2 },
      "workspace": { "id": "w", "exec": true },
      "limits": { "memoryMb": 512, "cpus": 1.5, "pids": 9, "maxWorkspaceBytes": 10_000_001 },
      "env": { "TOKEN": "a=b c", "HOME": "/opt" },
    }),
    json!({}),
  );
  assert_eq!(spec.user, "1000:100");
  assert_eq!(spec.runtime.as_deref(), Some("runsc"));
  assert_eq!((spec.memory_bytes, spec.nano_cpus, spec.pids_limit), (536_870_912, 1_500_000_000, 9));
  assert_eq!(
    spec.tmpfs,
    map(&[
      ("/tmp", "rw,nosuid,nodev,noexec,size=2097152,nr_inodes=1024,uid=1000,gid=100,mode=0700"),
      ("/workspace", "rw,nosuid,nodev,exec,size=10000001,nr_inodes=2442,uid=1000,gid=100,mode=0700"),
    ])
  );
  assert_eq!(
    spec.env,
    [
      "HOME=/opt",
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "TMPDIR=/tmp",
      "TOKEN=a=b c"
    ]
  );
}

#[test]
fn variables_of_the_image_are_dropped_and_its_path_cleaned() {
  let config = json!({
    "Env": ["LD_PRELOAD=/workspace/x.so", "PATH=/workspace/bin::/usr/bin:.:/bin", "BARE", "A=image", "TMPDIR=/x", "=odd"],
  });
  let spec = spec(json!({ "env": { "A": "ours" } }), config);
  assert_eq!(
    spec.env,
    ["A=ours", "HOME=/workspace", "PATH=/usr/bin:/bin", "TMPDIR=/workspace", "BARE", "LD_PRELOAD"]
  );
}

#[test]
fn a_path_of_the_options_wins() {
  let config = json!({ "Env": ["PATH=/opt/image/bin"] });
  let spec = spec(json!({ "env": { "PATH": "/opt/ours" } }), config);
  assert_eq!(spec.env, ["HOME=/workspace", "PATH=/opt/ours", "TMPDIR=/workspace"]);
}

#[test]
fn volumes_of_the_image_are_masked_whatever_their_spelling() {
  let config = json!({ "Volumes": {
    "/data/": {}, "rel": {}, "/var/../srv": {}, "//a/./b": {}, "/": {}, "": {}, "..": {}, "/tmp": {},
    "/workspace2": {}, "/workspace/": {}, "/workspace/cache": {}, "/workspace/../etc": {},
  } });
  assert_eq!(
    spec(json!({}), config).tmpfs,
    map(&[
      ("/a/b", MASK),
      ("/data", MASK),
      ("/etc", MASK),
      ("/rel", MASK),
      ("/srv", MASK),
      ("/tmp", MASK),
      ("/workspace", WORKSPACE),
      ("/workspace/cache", FULL),
      ("/workspace2", MASK),
    ])
  );
}

#[test]
fn a_wanted_tmp_is_not_masked() {
  let spec = spec(json!({ "tmp": { "sizeMb": 8 } }), json!({ "Volumes": { "/tmp": {}, "/tmp/x": {} } }));
  assert_eq!(
    spec.tmpfs,
    map(&[
      ("/tmp", "rw,nosuid,nodev,noexec,size=8388608,nr_inodes=2048,uid=65534,gid=65534,mode=0700"),
      ("/tmp/x", MASK),
      ("/workspace", WORKSPACE),
    ])
  );
}

#[test]
fn labels_of_the_image_are_never_taken_for_ours() {
  let config = json!({ "Labels": {
    "zhivex.sandbox": "1", "zhivex.sandbox.owner": "me", "zhivex.sandbox.key": "other", "zhivex.sandboxed": "x", "a": "b",
  } });
  assert_eq!(
    spec(json!({}), config).labels,
    map(&[
      ("zhivex.sandbox", "1"),
      ("zhivex.sandbox.key", "k"),
      ("zhivex.sandbox.owner", ""),
      ("zhivex.sandboxed", ""),
    ])
  );
}

#[test]
fn names_are_short_hashes_of_any_key() {
  assert_eq!(container_name(""), "zhivex-sandbox-e3b0c44298fc1c149afbf4c8");
  assert_eq!(container_name("k"), "zhivex-sandbox-8254c329a92850f6d539dd37");
}

/// The inspection of a container of these options.
fn inspection(options: &Options, change: Value) -> Inspection {
  let spec = container_spec(options, &image(json!({})), &identity());
  let mut host = json!({
    "NanoCpus": spec.nano_cpus, "PidsLimit": spec.pids_limit, "Memory": spec.memory_bytes,
    "MemorySwap": spec.memory_bytes, "NetworkMode": spec.network_mode, "ReadonlyRootfs": true, "Tmpfs": spec.tmpfs,
  });
  for (key, value) in change.as_object().unwrap() {
    host[key] = value.clone();
  }
  serde_json::from_value(json!({ "Id": "c1", "Name": "/box", "State": {}, "HostConfig": host })).unwrap()
}

#[test]
fn a_container_with_todays_limits_is_accepted() {
  for extra in [json!({}), json!({ "tmp": { "sizeMb": 1 }, "limits": { "cpus": 0.123 } })] {
    let options = options(extra);
    assert!(verify(&inspection(&options, json!({})), &options).is_ok());
  }
  let masked = json!({ "Tmpfs": { "/workspace": WORKSPACE, "/tmp": MASK, "/data": MASK } });
  let options = options(json!({}));
  assert!(verify(&inspection(&options, masked), &options).is_ok());
}

#[test]
fn each_difference_is_a_conflict_that_names_it() {
  let options = options(json!({}));
  let rows = [
    (json!({ "Memory": 1 }), "limits.memoryMb (in bytes) than the environment: 1 instead of 268435456"),
    (
      json!({ "MemorySwap": -1 }),
      "memory and swap together (in bytes) than the environment: -1 instead of 268435456",
    ),
    (json!({ "NanoCpus": 0 }), "limits.cpus (in billionths) than the environment: 0 instead of 500000000"),
    (json!({ "PidsLimit": 128 }), "limits.pids than the environment: 128 instead of 64"),
    (json!({ "PidsLimit": null }), "limits.pids than the environment: 0 instead of 64"),
    (json!({ "NetworkMode": "bridge" }), "network mode than the environment: bridge instead of none"),
    (
      json!({ "ReadonlyRootfs": false }),
      "read-only root file system than the environment: false instead of true",
    ),
    (
      json!({ "Tmpfs": { "/workspace": "rw" } }),
      &format!("workspace than the environment: rw instead of {WORKSPACE}"),
    ),
    (
      json!({ "Tmpfs": { "/workspace": WORKSPACE, "/tmp": "rw" } }),
      "tmp.sizeMb (as mounted) than the environment: rw instead of none",
    ),
  ];
  for (change, difference) in rows {
    let error = verify(&inspection(&options, change), &options).unwrap_err();
    let message = format!(
      "Container box has another {difference}. Resume the run with the options that started it, or start a new run."
    );
    assert_eq!((error.code(), error.message()), (ErrorCode::Conflict, message.as_str()));
  }
}

#[test]
fn best_effort_waives_only_what_the_engine_left_out() {
  let options = options(json!({ "assurance": "best-effort" }));
  let weak = json!({ "Memory": 0, "MemorySwap": -1, "PidsLimit": null, "NanoCpus": 0 });
  assert!(verify(&inspection(&options, weak), &options).is_ok());
  for change in [json!({ "PidsLimit": 65 }), json!({ "Memory": 1 }), json!({ "NetworkMode": "host" })] {
    assert_eq!(verify(&inspection(&options, change), &options).unwrap_err().code(), ErrorCode::Conflict);
  }
}

#[test]
fn an_inspection_of_another_client_is_compared_as_far_as_it_goes() {
  let options = options(json!({}));
  let verify_json = |host: Value| {
    let found = serde_json::from_value(json!({ "Id": "c1", "State": {}, "HostConfig": host })).unwrap();
    verify(&found, &options).map_err(|error| error.code())
  };
  assert_eq!(verify_json(json!({})), Ok(()));
  assert_eq!(verify_json(json!({ "NanoCpus": 500_000_000, "PidsLimit": 64, "Memory": 268_435_456 })), Ok(()));
  assert_eq!(verify_json(json!({ "PidsLimit": 63 })), Err(ErrorCode::Conflict));
}

#[test]
fn gaps_of_an_engine_are_named() {
  let info = |extra: Value| -> EngineInfo {
    let mut json = json!({
      "MemoryLimit": true, "SwapLimit": true, "PidsLimit": true, "CpuCfsQuota": true,
      "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"],
    });
    for (key, value) in extra.as_object().unwrap() {
      json[key] = value.clone();
    }
    serde_json::from_value(json).unwrap()
  };
  assert!(enforcement_gaps(&info(json!({}))).is_empty());
  assert!(enforcement_gaps(&info(json!({ "SecurityOptions": ["name=seccomp,profile=builtin"] }))).is_empty());
  assert_eq!(enforcement_gaps(&info(json!({ "SwapLimit": false }))), ["swap"]);
  assert_eq!(
    enforcement_gaps(&info(json!({ "SecurityOptions": ["name=seccomp,profile=unconfined"] }))),
    ["seccomp"]
  );
  assert_eq!(enforcement_gaps(&info(json!({ "SecurityOptions": ["name=rootless"] }))), ["seccomp"]);
  assert_eq!(enforcement_gaps(&EngineInfo::default()), ["memory", "swap", "pids", "cpus", "seccomp"]);
}
