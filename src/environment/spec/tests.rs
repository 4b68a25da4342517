use serde_json::{Value, json};

use super::*;
use crate::docker::EngineKind;
use crate::docker::model::{EngineInfo, Inspection};
use crate::error::ErrorCode;

fn options(extra: Value) -> Options {
  let mut json = json!({ "workspace": { "id": "ws" } });
  if let (Some(json), Value::Object(extra)) = (json.as_object_mut(), extra) {
    json.extend(extra);
  }
  Options::from_json(&json, &[], EngineKind::Node).unwrap()
}

fn hostile_image() -> ImageInspection {
  serde_json::from_value(json!({
    "Id": "sha256:0",
    "Config": {
      "Env": ["PATH=/workspace/bin:relative::/bin:/usr/bin:/tmp:/bin/../x", "LD_PRELOAD=/workspace/x.so", "SECRET=1", "HOME=/root"],
      "Volumes": { "/data": {}, "/data/../logs//": {}, "/workspace": {}, "/tmp": {}, "relative": {}, "/workspace/deep": {} },
      "Labels": { "zhivex.sandbox": "1", "zhivex.sandbox.owner": "mine", "zhivex.other": "x", "theirs": "kept" },
    },
  }))
  .unwrap()
}

fn spec_of(options: &Options, image: &ImageInspection) -> ContainerSpec {
  let labels = [(LABEL.to_owned(), "1".to_owned())].into();
  container_spec(
    options,
    image,
    &Identity { name: "n".to_owned(), labels, network: None },
    Carrier::Exec,
    Dialect::Docker,
  )
}

#[test]
fn every_row_of_the_profile() {
  let spec = spec_of(&options(json!({})), &ImageInspection::default());
  assert_eq!(spec.image, "alpine:3.21");
  assert_eq!(spec.user, "65534:65534");
  assert_eq!(spec.working_dir, "/workspace");
  assert_eq!(spec.network_mode, "none");
  assert!(spec.readonly_rootfs);
  assert_eq!(spec.memory_bytes, 256 * 1024 * 1024);
  assert_eq!(spec.nano_cpus, 500_000_000);
  assert_eq!(spec.pids_limit, 64);
}

#[test]
fn rows_that_the_command_line_does_not_show() {
  let spec = spec_of(&options(json!({})), &ImageInspection::default());
  assert_eq!(spec.ipc_mode.as_deref(), Some("none"));
  assert_eq!(spec.sysctls["kernel.shm_rmid_forced"], "1");
  assert_eq!(spec.ulimits, [("core".to_owned(), 1), ("msgqueue".to_owned(), 0)].into());
  assert!(spec.no_healthcheck && spec.no_log && !spec.init);
  assert_eq!(spec.entrypoint.unwrap()[..2], ["/bin/sh", "-c"]);
  assert_eq!(
    spec.tmpfs,
    [(
      "/workspace".to_owned(),
      "rw,nosuid,nodev,noexec,size=67108864,nr_inodes=16384,uid=65534,gid=65534,mode=0700".to_owned()
    )]
    .into()
  );
  assert_eq!(
    spec.env,
    [
      "HOME=/workspace".to_owned(),
      format!("PATH={}", search_path::DEFAULT_PATH),
      "TMPDIR=/workspace".to_owned()
    ]
  );
}

#[test]
fn what_an_image_brings_is_dropped_masked_or_blanked() {
  let spec = spec_of(&options(json!({ "env": { "MINE": "v" } })), &hostile_image());
  assert_eq!(
    spec.env,
    ["HOME=/workspace", "MINE=v", "PATH=/bin:/usr/bin", "TMPDIR=/workspace", "LD_PRELOAD", "SECRET"]
  );
  let masked: Vec<_> =
    spec.tmpfs.iter().filter(|(_, how)| how.starts_with("ro,")).map(|(path, _)| path.as_str()).collect();
  assert_eq!(masked, ["/data", "/logs", "/relative", "/tmp"]);
  assert!(spec.tmpfs["/workspace"].starts_with("rw,"));
  assert_eq!(spec.labels["zhivex.sandbox"], "1");
  assert_eq!(spec.labels["zhivex.sandbox.owner"], "");
  assert_eq!(spec.labels["zhivex.other"], "");
  assert!(!spec.labels.contains_key("theirs"));
}

#[test]
fn a_tmp_and_programs_in_the_workspace_are_asked_for() {
  let options =
    options(json!({ "tmp": { "sizeMb": 8 }, "workspace": { "id": "ws", "exec": true }, "runtime": "runsc" }));
  let spec = spec_of(&options, &hostile_image());
  assert_eq!(
    spec.tmpfs["/tmp"],
    "rw,nosuid,nodev,noexec,size=8388608,nr_inodes=2048,uid=65534,gid=65534,mode=0700"
  );
  assert!(spec.tmpfs["/workspace"].contains(",exec,"));
  assert!(spec.env.contains(&"TMPDIR=/tmp".to_owned()));
  assert_eq!(spec.runtime.as_deref(), Some("runsc"));
}

/// The inspection of a container of these options, with these changes.
fn inspection(options: &Options, change: Value) -> Inspection {
  let spec = spec_of(options, &ImageInspection::default());
  let mut host = json!({
    "NanoCpus": spec.nano_cpus, "PidsLimit": spec.pids_limit, "Memory": spec.memory_bytes,
    "MemorySwap": spec.memory_bytes, "NetworkMode": spec.network_mode, "ReadonlyRootfs": true, "Tmpfs": spec.tmpfs,
  });
  for (key, value) in change.as_object().unwrap() {
    host[key] = value.clone();
  }
  serde_json::from_value(json!({ "Id": "c1", "Name": "/box", "State": {}, "HostConfig": host })).unwrap()
}

const WORKSPACE: &str = "rw,nosuid,nodev,noexec,size=67108864,nr_inodes=16384,uid=65534,gid=65534,mode=0700";
const MASK: &str = "ro,nosuid,nodev,noexec,size=4096,nr_inodes=1,mode=0555";

#[test]
fn volumes_are_masked_whatever_their_spelling() {
  let image: ImageInspection = serde_json::from_value(json!({ "Config": { "Volumes": {
    "/data/": {}, "rel": {}, "/var/../srv": {}, "//a/./b": {}, "/": {}, "": {}, "..": {}, "/tmp": {},
    "/workspace2": {}, "/workspace/": {}, "/workspace/cache": {}, "/workspace/../etc": {},
  } } }))
  .unwrap();
  let full = "rw,nosuid,nodev,noexec,size=4096,nr_inodes=1,uid=65534,gid=65534,mode=0700";
  let expected = [
    ("/a/b", MASK),
    ("/data", MASK),
    ("/etc", MASK),
    ("/rel", MASK),
    ("/srv", MASK),
    ("/tmp", MASK),
    ("/workspace", WORKSPACE),
    ("/workspace/cache", full),
    ("/workspace2", MASK),
  ];
  let mounts = spec_of(&options(json!({})), &image).tmpfs;
  assert_eq!(mounts.iter().map(|(path, how)| (path.as_str(), how.as_str())).collect::<Vec<_>>(), expected);
  let with_tmp = spec_of(&options(json!({ "tmp": { "sizeMb": 1 } })), &image).tmpfs;
  assert_eq!(
    with_tmp["/tmp"],
    "rw,nosuid,nodev,noexec,size=1048576,nr_inodes=1024,uid=65534,gid=65534,mode=0700"
  );
}

#[test]
fn a_container_with_todays_limits_is_accepted() {
  for extra in [json!({}), json!({ "tmp": { "sizeMb": 1 }, "limits": { "cpus": 0.123 } })] {
    let options = options(extra);
    verify(&inspection(&options, json!({})), &options, None, Dialect::Docker).unwrap();
  }
  let masked = json!({ "Tmpfs": { "/workspace": WORKSPACE, "/tmp": MASK, "/data": MASK } });
  let options = options(json!({}));
  verify(&inspection(&options, masked), &options, None, Dialect::Docker).unwrap();
}

#[test]
fn each_difference_is_a_conflict_that_names_it() {
  let options = options(json!({}));
  let workspace = format!("workspace than the environment: rw instead of {WORKSPACE}");
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
    (json!({ "Tmpfs": { "/workspace": "rw" } }), workspace.as_str()),
    (
      json!({ "Tmpfs": { "/workspace": WORKSPACE, "/tmp": "rw" } }),
      "tmp.sizeMb (as mounted) than the environment: rw instead of none",
    ),
  ];
  for (change, difference) in rows {
    let error = verify(&inspection(&options, change), &options, None, Dialect::Docker).unwrap_err();
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
  verify(&inspection(&options, weak), &options, None, Dialect::Docker).unwrap();
  for change in [json!({ "PidsLimit": 65 }), json!({ "Memory": 1 }), json!({ "NetworkMode": "host" })] {
    assert_eq!(
      verify(&inspection(&options, change), &options, None, Dialect::Docker).unwrap_err().code(),
      ErrorCode::Conflict
    );
  }
}

#[test]
fn an_inspection_of_another_client_is_compared_as_far_as_it_goes() {
  let options = options(json!({}));
  let verify_json = |host: Value| {
    let found = serde_json::from_value(json!({ "Id": "c1", "State": {}, "HostConfig": host })).unwrap();
    verify(&found, &options, None, Dialect::Docker).map_err(|error| error.code())
  };
  assert_eq!(verify_json(json!({})), Ok(()));
  assert_eq!(verify_json(json!({ "NanoCpus": 500_000_000, "PidsLimit": 64, "Memory": 268_435_456 })), Ok(()));
  assert_eq!(verify_json(json!({ "PidsLimit": 63 })), Err(ErrorCode::Conflict));
}

#[test]
fn gaps_are_named() {
  let full = EngineInfo {
    memory_limit: true,
    swap_limit: true,
    pids_limit: true,
    cpu_cfs_quota: true,
    security_options: vec!["name=seccomp,profile=default".to_owned()],
    ..EngineInfo::default()
  };
  let whole = full.clone();
  assert_eq!(enforcement_gaps(&full, Dialect::Docker), Vec::<&str>::new());
  assert_eq!(
    enforcement_gaps(&EngineInfo { swap_limit: false, ..full.clone() }, Dialect::Docker),
    ["swap limits"]
  );
  let unconfined = vec!["name=seccomp,profile=unconfined".to_owned()];
  assert_eq!(
    enforcement_gaps(&EngineInfo { security_options: unconfined, ..full.clone() }, Dialect::Docker),
    ["seccomp profiles"]
  );
  assert_eq!(
    enforcement_gaps(
      &EngineInfo { security_options: Vec::new(), pids_limit: false, ..full },
      Dialect::Docker
    ),
    ["process limits", "seccomp profiles"]
  );
  assert_eq!(
    enforcement_gaps(&whole, Dialect::Podman),
    ["the number of files in the workspace", "a seccomp profile that refuses new user namespaces"]
  );
}

/// What Podman 4.3 said of a container that was asked for with these options.
const IN_PODMAN: &str = "rw,nosuid,nodev,noexec,size=67108864,uid=65534,gid=65534,mode=0700,rprivate";
const MASK_IN_PODMAN: &str = "ro,nosuid,nodev,noexec,size=4096,mode=0555,rprivate";

fn podman_spec(options: &Options, image: &ImageInspection) -> ContainerSpec {
  let identity = Identity { name: "n".to_owned(), labels: BTreeMap::new(), network: None };
  container_spec(options, image, &identity, Carrier::Exec, Dialect::Podman)
}

#[test]
fn podman_gets_no_bare_names_and_no_options_that_it_refuses() {
  let mask = "ro,nosuid,nodev,noexec,size=4096,mode=0555,notmpcopyup";
  let spec = podman_spec(&options(json!({ "env": { "MINE": "v" } })), &hostile_image());
  assert_eq!(
    spec.env,
    ["HOME=/workspace", "MINE=v", "PATH=/bin:/usr/bin", "TMPDIR=/workspace", "LD_PRELOAD=", "SECRET="]
  );
  assert_eq!(spec.tmpfs["/workspace"], "rw,nosuid,nodev,noexec,size=67108864,U,mode=0700,notmpcopyup");
  assert_eq!(spec.tmpfs["/workspace/deep"], "rw,nosuid,nodev,noexec,size=4096,U,mode=0700,notmpcopyup");
  for place in ["/data", "/logs", "/run", "/tmp", "/var/tmp"] {
    assert_eq!(spec.tmpfs[place], mask, "{place}");
  }
  let with_tmp = podman_spec(&options(json!({ "tmp": { "sizeMb": 1 } })), &ImageInspection::default());
  assert_eq!(with_tmp.tmpfs["/tmp"], "rw,nosuid,nodev,noexec,size=1048576,U,mode=0700,notmpcopyup");
}

#[test]
fn podmans_words_for_the_mounts_are_understood_and_a_missing_mask_is_not() {
  let plain = options(json!({}));
  let with_tmp = options(json!({ "tmp": { "sizeMb": 64 } }));
  let found = |mounts: Value| inspection(&plain, json!({ "Tmpfs": mounts }));
  let whole = |mounts: Value| {
    let mut all = json!({
      "/workspace": IN_PODMAN, "/run": MASK_IN_PODMAN, "/tmp": MASK_IN_PODMAN, "/var/tmp": MASK_IN_PODMAN,
    });
    all.as_object_mut().unwrap().extend(mounts.as_object().unwrap().clone());
    found(all)
  };
  let check = |found: &Inspection, options: &Options| {
    verify(found, options, None, Dialect::Podman).map_err(|error| error.message().to_owned())
  };
  assert_eq!(check(&whole(json!({})), &plain), Ok(()));
  assert_eq!(check(&whole(json!({ "/tmp": IN_PODMAN })), &with_tmp), Ok(()));
  let rows = [
    (whole(json!({ "/run": "rw,rprivate" })), "mask of /run"),
    (whole(json!({ "/var/tmp": IN_PODMAN })), "mask of /var/tmp"),
    (whole(json!({ "/tmp": IN_PODMAN })), "tmp.sizeMb"),
    (whole(json!({ "/workspace": format!("{IN_PODMAN},tmpcopyup") })), "workspace"),
    (whole(json!({ "/workspace": IN_PODMAN.replace("65534", "0") })), "workspace"),
    (
      found(json!({ "/workspace": IN_PODMAN, "/tmp": MASK_IN_PODMAN, "/run": MASK_IN_PODMAN })),
      "mask of /var/tmp",
    ),
  ];
  for (found, what) in rows {
    let message = check(&found, &plain).unwrap_err();
    assert!(message.starts_with(&format!("Container box has another {what}")), "{message}");
  }
  assert!(check(&whole(json!({})), &with_tmp).is_err());
}

#[test]
fn names_are_hashes() {
  assert_eq!(container_name(&"ab".repeat(32)), "zhivex-sandbox-abababababababababababab");
}

#[test]
fn each_network_has_a_name_that_tells_its_container() {
  let key = "ab".repeat(32);
  let container = container_name(&key);
  let (name, other) = (network_name(&container, [0xa1; 8]), network_name(&container, [0xb2; 8]));
  assert_eq!(name, format!("{container}-a1a1a1a1a1a1a1a1"));
  assert!(is_network_name(&name, &key) && is_network_name(&other, &key));
  assert!(!is_network_name(&name, &"cd".repeat(32)));
  for suffix in ["", "-", "-0123456789abcde", "-0123456789abcdef0", "-0123456789ABCDEF", "0123456789abcdef"] {
    assert!(!is_network_name(&format!("{container}{suffix}"), &key), "{suffix}");
  }
}

#[test]
fn an_allowlist_has_no_network_with_the_resident_transport_and_its_own_with_the_other() {
  let options = options(json!({
    "network": { "mode": "allowlist", "allowedDomains": ["example.com"] }, "env": { "NO_PROXY": "localhost" },
  }));
  let spec = spec_of(&options, &ImageInspection::default());
  assert_eq!((spec.network_mode.as_str(), spec.dns.len()), ("none", 0));
  for variable in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
    assert!(spec.env.contains(&format!("{variable}=http://127.0.0.1:3128")), "{variable}");
  }
  for variable in ["NO_PROXY=localhost", "no_proxy=", "NODE_USE_ENV_PROXY=1"] {
    assert!(spec.env.contains(&variable.to_owned()), "{variable}");
  }
  let site: Site = "172.18.0.1:3128 172.18.0.0/16".parse().unwrap();
  let identity =
    Identity { name: "n".to_owned(), labels: BTreeMap::new(), network: Some(("net".to_owned(), site)) };
  let spec = container_spec(&options, &ImageInspection::default(), &identity, Carrier::Exec, Dialect::Docker);
  assert_eq!((spec.network_mode.as_str(), spec.dns), ("net", vec!["127.0.0.1".to_owned()]));
  assert_eq!(spec.labels[LABEL_PROXY], site.to_string());
  assert_eq!(spec.sysctls["net.ipv4.ping_group_range"], "1 0");
  assert!(spec.env.contains(&"HTTP_PROXY=http://172.18.0.1:3128".to_owned()));
}
