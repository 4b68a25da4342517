//! What an environment tells of a run, over the in-memory engine: which events, in which order, with which fields, and
//! nothing of what only the application may know.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::memory::{MemoryEngine, MemoryOptions};
use sandbox_docker::docker::{Engine, EngineKind, Stdin};
use sandbox_docker::environment::acquire::{AcquireRequest, acquire};
use sandbox_docker::environment::core::{Core, Parts};
use sandbox_docker::environment::event::Events;
use sandbox_docker::environment::operations::ExecArguments;
use sandbox_docker::environment::options::Options;
use sandbox_docker::environment::session::Session;
use sandbox_docker::environment::sweep::sweep;
use sandbox_docker::error::{Error, ErrorCode, Result};
use sandbox_docker::store::lease::{LeaseRecord, LeaseStore, MemoryLeaseStore, run_key};
use sandbox_docker::store::snapshot::MemorySnapshotStore;
use serde_json::{Value, json};

/// Recognisable, and nobody's business but the application's.
const SECRETS: [&str; 7] = [
  "SECRET-value",
  "SECRET-contents",
  "SECRET-argument",
  "SECRET-input",
  "SECRET-path",
  "SECRET-variable",
  "SECRET-store",
];

/// A lease store that fails on demand, with words that quote what it holds.
#[derive(Default)]
struct Leases {
  inner: MemoryLeaseStore,
  broken: AtomicBool,
  /// What fails is done all the same.
  loses_answers: AtomicBool,
}

impl Leases {
  fn check(&self) -> Result<()> {
    if self.broken.load(Ordering::Relaxed) {
      return Err(Error::new(ErrorCode::Internal, "SECRET-store is broken"));
    }
    Ok(())
  }

  fn set_broken(&self, broken: bool) {
    self.broken.store(broken, Ordering::Relaxed);
  }
}

#[async_trait]
impl LeaseStore for Leases {
  async fn load(&self, key: &str) -> Result<Option<LeaseRecord>> {
    self.inner.load(key).await
  }

  async fn save(&self, record: &LeaseRecord, expected: Option<u64>) -> Result<bool> {
    if self.loses_answers.load(Ordering::Relaxed) {
      self.inner.save(record, expected).await?;
    }
    self.check()?;
    self.inner.save(record, expected).await
  }

  async fn remove(&self, key: &str, expected: u64) -> Result<bool> {
    self.check()?;
    self.inner.remove(key, expected).await
  }

  async fn list(&self, owner_id: &str) -> Result<Vec<LeaseRecord>> {
    self.inner.list(owner_id).await
  }
}

/// An environment on an engine of its own, and all that it told.
struct World {
  engine: Arc<MemoryEngine>,
  leases: Arc<Leases>,
  core: Arc<Core>,
  heard: Arc<Mutex<Vec<Value>>>,
}

impl World {
  fn new(engine: &Value, options: &Value) -> Self {
    let engine = Arc::new(MemoryEngine::new(MemoryOptions::from_json(&engine.to_string()).unwrap()));
    let mut json = json!({
      "ownerId": "o", "shell": "allow", "transport": "exec", "env": { "KEY": "SECRET-value" },
      "workspace": { "id": "w", "files": [{ "path": "SECRET-path/seed", "contents": "SECRET-contents" }] },
    });
    json.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let leases = Arc::new(Leases::default());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&heard);
    let parts = Parts {
      options: Options::from_json(&json, &[], EngineKind::Memory).unwrap(),
      engine: Arc::clone(&engine) as _,
      leases: Arc::clone(&leases) as _,
      snapshots: Arc::new(MemorySnapshotStore::default()),
      events: Events::to(move |event| into.lock().unwrap().push(json!(event))),
      resolver: None,
    };
    let core = Arc::new(Core::new(parts).unwrap());
    core.seal("{}");
    Self { engine, leases, core, heard }
  }

  async fn acquire(&self) -> Result<Session> {
    acquire(&self.core, &AcquireRequest { run_id: "run".to_owned(), scope: None }, &Cancel::new()).await
  }

  async fn record(&self) -> LeaseRecord {
    self.leases.inner.load(&key()).await.unwrap().unwrap()
  }

  /// What was told since the last call, without times, durations and sentences.
  fn heard(&self) -> Vec<Value> {
    let mut heard = std::mem::take(&mut *self.heard.lock().unwrap());
    for event in &mut heard {
      let fields = event.as_object_mut().unwrap();
      assert!(fields.remove("at").unwrap().as_u64().unwrap() > 1_700_000_000_000);
      assert!(fields.remove("message").unwrap().as_str().unwrap().len() > 10);
      if let Some(duration) = fields.remove("durationMs") {
        assert!(duration.as_u64().unwrap() < 60_000);
      }
    }
    heard
  }

  /// Everything told so far, as it was told.
  fn text(&self) -> String {
    Value::from(self.heard.lock().unwrap().clone()).to_string()
  }
}

fn key() -> String {
  run_key(None, "run").unwrap()
}

fn acquired(how: &str) -> Value {
  json!({ "type": "acquired", "how": how, "transport": "exec", "runId": "run" })
}

fn operation(operation: &str, outcome: &str, bytes_in: u64, bytes_out: u64) -> Value {
  json!({
    "type": "operation", "operation": operation, "outcome": outcome, "bytesIn": bytes_in, "bytesOut": bytes_out,
    "runId": "run",
  })
}

fn refused(which: &str, code: &str, bytes_in: u64) -> Value {
  let mut event = operation(which, "failed", bytes_in, 0);
  event["code"] = json!(code);
  event
}

/// Does everything that a session can, well and badly.
async fn use_all(session: &Session) {
  let never = Cancel::new();
  let path = "SECRET-path/f";
  session.write_file(path, "SECRET-contents".into(), None, &never).await.unwrap();
  assert_eq!(session.read_file(path, 0, Some(6), &never).await.unwrap().1.data, "SECRET");
  assert_eq!(session.list("SECRET-path", None, None, &never).await.unwrap().1.entries.len(), 2);
  let command = |command: &str, args: &[&str]| ExecArguments {
    command: command.to_owned(),
    args: args.iter().map(|&arg| arg.to_owned()).collect(),
    env: BTreeMap::from([("A".to_owned(), "SECRET-variable".to_owned())]),
    stdin: Some(Stdin::Bytes("SECRET-input".into())),
    ..ExecArguments::default()
  };
  let echoed = session.exec(command("echo", &["SECRET-argument"]), &never).await.unwrap();
  assert_eq!(echoed.stdout, b"SECRET-argument\n");
  session.read_file("SECRET-path/none", 0, None, &never).await.unwrap_err();
  session.read_file("../SECRET-path", 0, None, &never).await.unwrap_err();
  session.write_file("SECRET-path", "x".into(), None, &never).await.unwrap_err();
  session.exec(command("/SECRET-path/program", &[]), &never).await.unwrap_err();
}

#[tokio::test]
async fn a_whole_run_in_order_and_no_secrets() {
  let world = World::new(&json!({ "images": [] }), &json!({}));
  let session = world.acquire().await.unwrap();
  let token = world.record().await.token;
  use_all(&session).await;
  assert!(session.release("suspended").await.is_none());
  let again = world.acquire().await.unwrap();
  assert!(again.release("completed").await.is_none());
  sweep(&world.core, &Cancel::new()).await.unwrap();
  world.core.close().await;
  world.core.close().await;
  again.read_file("f", 0, None, &Cancel::new()).await.unwrap_err();

  let text = world.text();
  for secret in SECRETS.iter().copied().chain([token.as_str()]) {
    assert!(!text.contains(secret), "{secret} is in {text}");
  }
  let heard = world.heard();
  let bytes =
    heard.iter().find(|event| event["type"] == "snapshot_saved").unwrap()["bytes"].as_u64().unwrap();
  // Whole blocks: two directories, two files and the end at least.
  assert!(bytes >= 7 * 512 && bytes.is_multiple_of(512), "{bytes}");
  let wanted = [
    json!({ "type": "image_pulled", "image": "alpine:3.21" }),
    acquired("started"),
    operation("write_file", "done", 15, 0),
    operation("read_file", "done", 0, 6),
    operation("list", "done", 0, 29),
    operation("exec", "exited", 12, 16),
    refused("read_file", "NOT_FOUND", 0),
    refused("read_file", "PATH_INVALID", 0),
    refused("write_file", "PATH_INVALID", 1),
    refused("exec", "DENIED", 12),
    json!({ "type": "snapshot_saved", "bytes": bytes, "runId": "run" }),
    json!({ "type": "released", "status": "suspended", "kept": true, "snapshotBytes": bytes, "runId": "run" }),
    acquired("resumed"),
    json!({ "type": "released", "status": "completed", "kept": false, "runId": "run" }),
    json!({ "type": "swept", "expiredRuns": 0, "removedContainers": 0, "failures": 0 }),
    json!({ "type": "closed" }),
    refused("read_file", "RELEASED", 0),
  ];
  assert_eq!(heard, wanted);
}

#[tokio::test]
async fn auto_tells_why_it_could_not_have_the_resident_transport() {
  let world = World::new(&json!({}), &json!({ "transport": "auto" }));
  let session = world.acquire().await.unwrap();
  let reason = session.instead().unwrap().to_owned();
  let mut started = acquired("started");
  started["fallbackReason"] = json!(reason);
  let fallback = json!({ "type": "transport_fallback", "reason": reason, "runId": "run" });
  assert_eq!(world.heard(), [fallback, started]);
}

fn left(resource: &str, id: &str) -> Value {
  json!({
    "type": "cleanup_failed", "resource": resource, "id": id, "code": "DOCKER_API", "reason": "Busy.",
    "runId": "run",
  })
}

fn fault(method: &str, nth: u32) -> Value {
  json!({ "fail": [{ "method": method, "nth": nth, "message": "Busy." }] })
}

fn release_failed(status: &str, undone: &str, code: &str) -> Value {
  json!({ "type": "release_failed", "status": status, "undone": undone, "code": code, "runId": "run" })
}

#[tokio::test]
async fn a_release_that_cannot_remove_says_what_is_left() {
  let world = World::new(&fault("removeContainer", 1), &json!({}));
  let session = world.acquire().await.unwrap();
  let id = world.record().await.container_id;
  assert!(session.release("completed").await.is_some());
  let wanted =
    [acquired("started"), left("container", &id), release_failed("completed", "removal", "DOCKER_API")];
  assert_eq!(world.heard(), wanted);
  // The next acquire finishes it.
  let next = world.acquire().await.unwrap();
  assert!(next.release("completed").await.is_none());
  let released = json!({ "type": "released", "status": "completed", "kept": false, "runId": "run" });
  assert_eq!(world.heard(), [acquired("started"), released]);
}

#[tokio::test]
async fn a_release_that_cannot_save_says_so() {
  let world = World::new(&fault("getArchive", 1), &json!({}));
  let session = world.acquire().await.unwrap();
  assert!(session.release("suspended").await.is_some());
  let failed = json!({ "type": "snapshot_failed", "code": "DOCKER_API", "runId": "run" });
  let wanted = [acquired("started"), failed, release_failed("suspended", "snapshot", "DOCKER_API")];
  assert_eq!(world.heard(), wanted);
}

#[tokio::test]
async fn a_lease_store_that_fails_is_told_without_its_words() {
  let world = World::new(&json!({}), &json!({}));
  let session = world.acquire().await.unwrap();
  world.leases.set_broken(true);
  assert!(session.release("suspended").await.is_some());
  assert!(!world.text().contains("SECRET"));
  let heard = world.heard();
  assert_eq!(heard.len(), 3);
  assert_eq!(heard[1]["type"], "snapshot_saved");
  assert_eq!(heard[2], release_failed("suspended", "lease", "INTERNAL"));
}

#[tokio::test]
async fn a_start_that_fails_says_what_it_left() {
  let faults = json!({ "fail": [
    { "method": "startContainer", "nth": 1 }, { "method": "removeContainer", "nth": 1, "message": "Busy." },
  ] });
  let world = World::new(&faults, &json!({}));
  assert_eq!(world.acquire().await.err().unwrap().code(), ErrorCode::DockerApi);
  let found = world.engine.list_containers("zhivex.sandbox.owner=o").await.unwrap();
  assert_eq!(world.heard(), [left("container", &found[0].id)]);
}

#[tokio::test]
async fn a_first_save_whose_answer_is_lost_says_which_lease_it_left() {
  let world = World::new(&json!({}), &json!({}));
  world.leases.set_broken(true);
  world.leases.loses_answers.store(true, Ordering::Relaxed);
  assert_eq!(world.acquire().await.err().unwrap().code(), ErrorCode::Internal);
  let left = json!({
    "type": "cleanup_failed", "resource": "lease", "id": key(), "code": "INTERNAL", "runId": "run",
  });
  assert_eq!(world.heard(), [left]);
}

#[tokio::test(start_paused = true)]
async fn beats_that_fail_are_told_once_a_row() {
  let world = World::new(&json!({}), &json!({}));
  let session = world.acquire().await.unwrap();
  assert_eq!(world.heard(), [acquired("started")]);
  let failed = json!({ "type": "heartbeat_failed", "code": "INTERNAL", "runId": "run" });
  for _row in 0..2 {
    world.leases.set_broken(true);
    tokio::time::sleep(Duration::from_secs(17)).await;
    world.leases.set_broken(false);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(world.heard(), std::slice::from_ref(&failed));
  }
  assert!(session.release("completed").await.is_none());
}

/// Somebody else takes the run over.
async fn steal(world: &World) {
  let record = world.record().await;
  let stolen = LeaseRecord { fence: record.fence + 1, ..record };
  assert!(world.leases.inner.save(&stolen, Some(stolen.fence - 1)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_told_once_whoever_notices_it() {
  let lost = || json!({ "type": "lease_lost", "runId": "run" });
  let by_heartbeat = World::new(&json!({}), &json!({}));
  let session = by_heartbeat.acquire().await.unwrap();
  steal(&by_heartbeat).await;
  tokio::time::sleep(Duration::from_secs(12)).await;
  assert_eq!(by_heartbeat.heard(), [acquired("started"), lost()]);
  session.list("", None, None, &Cancel::new()).await.unwrap_err();
  assert!(session.release("completed").await.is_none());
  assert_eq!(by_heartbeat.heard(), [refused("list", "CONFLICT", 0)]);

  let by_operation = World::new(&json!({}), &json!({}));
  let session = by_operation.acquire().await.unwrap();
  steal(&by_operation).await;
  session.list("", None, None, &Cancel::new()).await.unwrap_err();
  assert_eq!(by_operation.heard(), [acquired("started"), lost(), refused("list", "CONFLICT", 0)]);

  let by_release = World::new(&json!({}), &json!({}));
  let session = by_release.acquire().await.unwrap();
  steal(&by_release).await;
  assert!(session.release("suspended").await.is_none());
  assert_eq!(by_release.heard(), [acquired("started"), lost()]);
}

#[tokio::test]
async fn a_holder_that_died_is_told_at_the_take_over() {
  let world = World::new(&json!({}), &json!({}));
  let _dead = world.acquire().await.unwrap();
  let mut record = world.record().await;
  record.holder.as_mut().unwrap().heartbeat_at = 0;
  assert!(world.leases.inner.save(&record, Some(record.fence)).await.unwrap());
  world.acquire().await.unwrap();
  assert_eq!(world.heard(), [acquired("started"), acquired("taken_over")]);
}

#[tokio::test]
async fn a_lost_container_is_told_once_and_then_restored() {
  let world = World::new(&json!({}), &json!({}));
  let session = world.acquire().await.unwrap();
  assert!(session.release("suspended").await.is_none());
  world.engine.remove_container(&world.record().await.container_id).await.unwrap();
  world.heard();
  let again = world.acquire().await.unwrap();
  let lost = |reason: &str| json!({ "type": "container_lost", "code": "CONTAINER_LOST", "reason": reason, "runId": "run" });
  assert_eq!(world.heard(), [lost("it is gone"), acquired("restored")]);

  let id = world.record().await.container_id;
  world.engine.remove_container(&id).await.unwrap();
  for _again in 0..2 {
    again.list("", None, None, &Cancel::new()).await.unwrap_err();
  }
  let reason = format!(
    "The sandbox's container {id} is gone. Release this run; acquiring it again restores it where a snapshot allows."
  );
  let refusal = || refused("list", "CONTAINER_LOST", 0);
  assert_eq!(world.heard(), [lost(&reason), refusal(), refusal()]);
}

#[tokio::test]
async fn a_sweep_counts_and_names_what_it_could_not_remove() {
  let busy = json!({ "method": "removeContainer", "nth": 1, "message": "Busy." });
  let world = World::new(&json!({ "fail": [busy] }), &json!({}));
  let session = world.acquire().await.unwrap();
  assert!(session.release("suspended").await.is_none());
  let record = LeaseRecord { expires_at: 1, ..world.record().await };
  assert!(world.leases.inner.save(&record, Some(record.fence)).await.unwrap());
  world.heard();
  let swept = |expired: u32, failures: u32| json!({ "type": "swept", "expiredRuns": expired, "removedContainers": 0, "failures": failures });
  sweep(&world.core, &Cancel::new()).await.unwrap();
  assert_eq!(world.heard(), [left("container", &record.container_id), swept(0, 1)]);
  sweep(&world.core, &Cancel::new()).await.unwrap();
  assert_eq!(world.heard(), [swept(1, 0)]);
}
