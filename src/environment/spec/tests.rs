use serde_json::json;

use super::*;
use crate::docker::EngineKind;
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
  container_spec(options, image, &Identity { name: "n".to_owned(), labels })
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
  assert_eq!(spec.ulimits, [("core".to_owned(), 0), ("msgqueue".to_owned(), 0)].into());
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
  assert_eq!(masked, ["/data", "/logs", "/workspace/deep"]);
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

#[test]
fn a_container_with_other_limits_is_refused_by_name() {
  let options = options(json!({}));
  let mut found = Inspection { id: "c".to_owned(), ..Inspection::default() };
  found.host_config.memory = 256 * 1024 * 1024;
  found.host_config.nano_cpus = 500_000_000;
  found.host_config.pids_limit = Some(64);
  found.host_config.network_mode = "none".to_owned();
  found.host_config.readonly_rootfs = true;
  verify(&found, &options).unwrap();
  found.host_config.pids_limit = Some(65);
  let error = verify(&found, &options).unwrap_err();
  assert_eq!(error.code(), ErrorCode::Conflict);
  assert!(error.message().contains("process limit is 65 and should be 64"), "{error}");
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
  assert_eq!(enforcement_gaps(&full), Vec::<&str>::new());
  assert_eq!(enforcement_gaps(&EngineInfo { swap_limit: false, ..full.clone() }), ["swap limits"]);
  assert_eq!(
    enforcement_gaps(&EngineInfo { security_options: Vec::new(), pids_limit: false, ..full }),
    ["process limits", "seccomp profiles"]
  );
}

#[test]
fn names_are_hashes() {
  assert_eq!(container_name(&"ab".repeat(32)), "zhivex-sandbox-abababababababababababab");
}
