//! Acquire, release, close and sweep where two want the same run, a store fails, or a process died half way.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::memory::{MemoryEngine, MemoryOptions};
use sandbox_docker::docker::{ByteStream, Engine, EngineKind};
use sandbox_docker::environment::acquire::{AcquireRequest, acquire};
use sandbox_docker::environment::core::{Core, Parts};
use sandbox_docker::environment::event::Events;
use sandbox_docker::environment::operations::ExecArguments;
use sandbox_docker::environment::options::Options;
use sandbox_docker::environment::session::Session;
use sandbox_docker::environment::sweep::{SweepReport, sweep};
use sandbox_docker::error::{Error, ErrorCode, Result};
use sandbox_docker::store::lease::{LeaseRecord, LeaseStore, MemoryLeaseStore, SnapshotState, run_key};
use sandbox_docker::store::snapshot::{MemorySnapshotStore, Snapshot, SnapshotMeta, SnapshotStore};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

type Hook = Box<dyn Fn(&MemoryLeaseStore, &LeaseRecord) -> Option<Result<bool>> + Send + Sync>;

/// A lease store that a test looks into and lets fail.
#[derive(Default)]
struct Leases {
  inner: MemoryLeaseStore,
  saves: AtomicU32,
  /// Asked before each save; what it returns is the answer.
  hook: Mutex<Option<Hook>>,
}

impl Leases {
  fn on_save(
    &self,
    hook: impl Fn(&MemoryLeaseStore, &LeaseRecord) -> Option<Result<bool>> + Send + Sync + 'static,
  ) {
    *self.hook.lock().unwrap() = Some(Box::new(hook));
  }

  fn as_usual(&self) {
    *self.hook.lock().unwrap() = None;
  }

  async fn record(&self) -> Option<LeaseRecord> {
    self.inner.load(&key()).await.unwrap()
  }
}

#[async_trait]
impl LeaseStore for Leases {
  async fn load(&self, key: &str) -> Result<Option<LeaseRecord>> {
    self.inner.load(key).await
  }

  async fn save(&self, record: &LeaseRecord, expected: Option<u64>) -> Result<bool> {
    self.saves.fetch_add(1, Ordering::Relaxed);
    let answer = self.hook.lock().unwrap().as_ref().and_then(|hook| hook(&self.inner, record));
    match answer {
      Some(answer) => answer,
      None => self.inner.save(record, expected).await,
    }
  }

  async fn remove(&self, key: &str, expected: u64) -> Result<bool> {
    self.inner.remove(key, expected).await
  }

  async fn list(&self, owner_id: &str) -> Result<Vec<LeaseRecord>> {
    self.inner.list(owner_id).await
  }
}

/// A snapshot store whose saves and loads wait until the test lets them go on.
struct Gate {
  inner: MemorySnapshotStore,
  open: Semaphore,
  /// How many saves were begun.
  saves: AtomicU32,
}

#[async_trait]
impl SnapshotStore for Gate {
  async fn load(&self, key: &str) -> Result<Option<Snapshot>> {
    let _passed = self.open.acquire().await.unwrap();
    self.inner.load(key).await
  }

  async fn save(&self, key: &str, meta: SnapshotMeta, tar: ByteStream) -> Result<()> {
    self.saves.fetch_add(1, Ordering::Relaxed);
    let _passed = self.open.acquire().await.unwrap();
    self.inner.save(key, meta, tar).await
  }

  async fn remove(&self, key: &str) -> Result<()> {
    self.inner.remove(key).await
  }
}

/// One engine and its stores, for any number of environments.
struct World {
  engine: Arc<MemoryEngine>,
  leases: Arc<Leases>,
  snapshots: Arc<Gate>,
}

impl World {
  fn new(engine: &str) -> Self {
    let engine = Arc::new(MemoryEngine::new(MemoryOptions::from_json(engine).unwrap()));
    let snapshots =
      Gate { inner: MemorySnapshotStore::default(), open: Semaphore::new(1), saves: AtomicU32::new(0) };
    Self { engine, leases: Arc::default(), snapshots: Arc::new(snapshots) }
  }

  fn core(&self) -> Arc<Core> {
    let json = json!({
      "ownerId": "o", "shell": "allow",
      "workspace": { "id": "w", "files": [{ "path": "seed", "contents": "s" }] },
    });
    let options = Options::from_json(&json, &[], EngineKind::Memory).unwrap();
    let parts = Parts {
      options,
      engine: Arc::clone(&self.engine) as _,
      leases: Arc::clone(&self.leases) as _,
      snapshots: Arc::clone(&self.snapshots) as _,
      events: Events::default(),
      resolver: None,
    };
    let core = Arc::new(Core::new(parts).unwrap());
    core.seal("{}");
    core
  }

  async fn acquire(&self, core: &Arc<Core>) -> Result<Session> {
    acquire(core, &request(), &Cancel::new()).await
  }

  async fn containers(&self) -> Vec<String> {
    let found = self.engine.list_containers("zhivex.sandbox.owner=o").await.unwrap();
    found.into_iter().map(|container| container.id).collect()
  }
}

fn request() -> AcquireRequest {
  AcquireRequest { run_id: "run".to_owned(), scope: None }
}

fn key() -> String {
  run_key(None, "run").unwrap()
}

fn broken() -> Error {
  Error::new(ErrorCode::Internal, "the store is broken".to_owned())
}

fn code<T>(result: Result<T>) -> ErrorCode {
  match result {
    Ok(_) => panic!("it worked"),
    Err(error) => error.code(),
  }
}

async fn write(session: &Session, path: &str) -> Result<()> {
  session.write_file(path, "x".into(), None, &Cancel::new()).await.map(drop)
}

async fn size(session: &Session, path: &str) -> Result<u64> {
  Ok(session.read_file(path, 0, None, &Cancel::new()).await?.1.size)
}

#[tokio::test]
async fn a_stale_session_spares_a_run_that_was_started_anew() {
  let world = World::new("{}");
  let stale = world.acquire(&world.core()).await.unwrap();
  // Somebody took the run over and ended it, and a third starts it again.
  let ended = world.leases.record().await.unwrap();
  world.engine.remove_container(&stale_container(&world).await).await.unwrap();
  assert!(world.leases.inner.remove(&key(), ended.fence).await.unwrap());
  let fresh = world.acquire(&world.core()).await.unwrap();
  let record = world.leases.record().await.unwrap();

  assert_eq!(code(size(&stale, "seed").await), ErrorCode::Conflict);
  assert!(stale.release("failed").await.is_none());
  assert_eq!(world.leases.record().await.unwrap(), record);
  assert_eq!(size(&fresh, "seed").await.unwrap(), 1);
  assert!(fresh.release("completed").await.is_none());
  assert_eq!(world.containers().await, [""; 0]);
}

#[tokio::test]
async fn a_run_that_is_started_anew_has_another_fence_within_32_bits() {
  let world = World::new("{}");
  let mut fences = std::collections::BTreeSet::new();
  for _ in 0..20 {
    let session = world.acquire(&world.core()).await.unwrap();
    let fence = world.leases.record().await.unwrap().fence;
    assert!((1..=1 << 30).contains(&fence), "{fence}");
    fences.insert(fence);
    assert!(session.release("completed").await.is_none());
  }
  assert_eq!(fences.len(), 20);
}

async fn stale_container(world: &World) -> String {
  world.leases.record().await.unwrap().container_id
}

#[tokio::test]
async fn a_release_that_loses_the_lease_at_its_last_look_removes_nothing() {
  let world = World::new("{}");
  let session = world.acquire(&world.core()).await.unwrap();
  world.leases.on_save(|_, record| (record.status == "completed").then_some(Ok(false)));
  assert_eq!(session.release("completed").await.unwrap().code(), ErrorCode::Conflict);
  assert_eq!(world.containers().await.len(), 1);
}

#[tokio::test]
async fn a_first_save_whose_answer_is_lost_leaves_nothing() {
  let world = World::new("{}");
  world.leases.on_save(|inner, record| {
    // The first; then what marks it as ended, whose answer is lost too.
    let expected = (record.status == "failed").then_some(record.fence);
    let saved = futures_util::FutureExt::now_or_never(inner.save(record, expected));
    assert!(saved.unwrap().unwrap());
    Some(Err(broken()))
  });
  assert_eq!(code(world.acquire(&world.core()).await), ErrorCode::Internal);
  assert_eq!(world.leases.saves.load(Ordering::Relaxed), 2);
  assert_eq!(world.leases.record().await, None);
  assert_eq!(world.containers().await, [""; 0]);
  world.leases.as_usual();
  world.acquire(&world.core()).await.unwrap();
}

/// A run that waits, with a file `kept`, whose container is lost.
async fn lost(world: &World) {
  let session = world.acquire(&world.core()).await.unwrap();
  write(&session, "kept").await.unwrap();
  assert!(session.release("suspended").await.is_none());
  world.engine.remove_container(&stale_container(world).await).await.unwrap();
}

#[tokio::test]
async fn a_restore_can_be_tried_again_whatever_step_of_it_failed() {
  // The calls before are those of the run's start, of its write, and of the test.
  for (fault, nth) in
    [("createContainer", 2), ("startContainer", 2), ("putArchive", 3), ("removeContainer", 2)]
  {
    let engine = json!({ "fail": [{ "method": fault, "nth": nth }] }).to_string();
    let world = World::new(&engine);
    lost(&world).await;
    assert_eq!(code(world.acquire(&world.core()).await), ErrorCode::DockerApi, "{fault}");
    assert_eq!(world.containers().await, [""; 0], "{fault}");
    let record = world.leases.record().await.unwrap();
    assert_eq!(record.snapshot_state, SnapshotState::Current, "{fault}");
    let session = world.acquire(&world.core()).await.unwrap();
    assert_eq!(size(&session, "kept").await.unwrap(), 1, "{fault}");
  }
}

#[tokio::test]
async fn a_restore_whose_last_save_failed_can_be_tried_again() {
  let world = World::new("{}");
  lost(&world).await;
  let gone = stale_container(&world).await;
  world.leases.on_save(move |_, record| (record.container_id != gone).then(|| Err(broken())));
  assert_eq!(code(world.acquire(&world.core()).await), ErrorCode::Internal);
  assert_eq!(world.containers().await, [""; 0]);
  world.leases.as_usual();
  let session = world.acquire(&world.core()).await.unwrap();
  assert_eq!(size(&session, "kept").await.unwrap(), 1);
}

/// As after a process that died between the making of a container and its record.
async fn off_the_record(world: &World) {
  let session = world.acquire(&world.core()).await.unwrap();
  write(&session, "kept").await.unwrap();
  assert!(session.release("suspended").await.is_none());
  let record = world.leases.record().await.unwrap();
  let record = LeaseRecord { container_id: "0123456789ab".to_owned(), ..record };
  assert!(world.leases.inner.save(&record, Some(record.fence)).await.unwrap());
}

#[tokio::test]
async fn a_restore_replaces_the_container_of_one_that_died_half_way() {
  let world = World::new("{}");
  off_the_record(&world).await;
  let session = world.acquire(&world.core()).await.unwrap();
  assert_eq!(size(&session, "kept").await.unwrap(), 1);
  assert_eq!(world.containers().await, [stale_container(&world).await]);
}

#[tokio::test]
async fn an_expired_run_takes_a_container_that_is_not_on_record_along() {
  let world = World::new("{}");
  off_the_record(&world).await;
  let record = world.leases.record().await.unwrap();
  let record = LeaseRecord { expires_at: 1, ..record };
  assert!(world.leases.inner.save(&record, Some(record.fence)).await.unwrap());
  assert_eq!(code(world.acquire(&world.core()).await), ErrorCode::LeaseExpired);
  assert_eq!(world.containers().await, [""; 0]);
  assert_eq!(world.leases.record().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_long_snapshot_and_a_long_removal_are_no_silence() {
  let world = World::new("{}");
  let session = world.acquire(&world.core()).await.unwrap();
  let shut = world.snapshots.open.acquire().await.unwrap();
  let before = world.leases.saves.load(Ordering::Relaxed);
  let releasing = tokio::spawn(async move { session.release("suspended").await.is_none() });
  tokio::time::sleep(Duration::from_secs(61)).await;
  // One save for each 5 s.
  assert_eq!(world.leases.saves.load(Ordering::Relaxed) - before, 12);
  assert!(world.leases.record().await.unwrap().holder.is_some());
  drop(shut);
  assert!(releasing.await.unwrap());
  assert_eq!(world.leases.record().await.unwrap().holder, None);
}

/// A session with a snapshot under way, which its store ends once it is open again.
async fn saving(world: &World) -> (Session, JoinHandle<Result<SnapshotMeta>>, SemaphorePermit<'_>) {
  let session = world.acquire(&world.core()).await.unwrap();
  let shut = world.snapshots.open.acquire().await.unwrap();
  let same = session.clone();
  let snapshot = tokio::spawn(async move { same.snapshot(&Cancel::new()).await });
  // On the one thread of a test: the snapshot waits in its store when nothing else is left to do.
  tokio::time::sleep(Duration::from_secs(1)).await;
  (session, snapshot, shut)
}

#[tokio::test(start_paused = true)]
async fn a_release_saves_nothing_beside_a_snapshot_that_does_not_end() {
  let world = World::new("{}");
  let (session, before, shut) = saving(&world).await;
  assert_eq!(world.snapshots.saves.load(Ordering::Relaxed), 1);
  assert_eq!(session.release("suspended").await.unwrap().code(), ErrorCode::Timeout);
  assert_eq!(world.snapshots.saves.load(Ordering::Relaxed), 1, "two at once");
  let record = world.leases.record().await.unwrap();
  assert_eq!((record.holder, record.snapshot_state), (None, SnapshotState::None));
  drop(shut);
  assert_eq!(code(before.await.unwrap()), ErrorCode::Released);
  let session = world.acquire(&world.core()).await.unwrap();
  assert_eq!(size(&session, "seed").await.unwrap(), 1);
  assert!(session.release("suspended").await.is_none());
  assert_eq!(world.leases.record().await.unwrap().snapshot_state, SnapshotState::Current);
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_a_snapshot_that_is_slow_to_end() {
  let world = World::new("{}");
  let (session, before, shut) = saving(&world).await;
  let releasing = tokio::spawn(async move { session.release("suspended").await.is_none() });
  // Longer than operations have to end.
  tokio::time::sleep(Duration::from_secs(40)).await;
  assert_eq!(world.snapshots.saves.load(Ordering::Relaxed), 1, "two at once");
  drop(shut);
  assert_eq!(code(before.await.unwrap()), ErrorCode::Released);
  assert!(releasing.await.unwrap());
  assert_eq!(world.snapshots.saves.load(Ordering::Relaxed), 2);
  assert_eq!(world.leases.record().await.unwrap().snapshot_state, SnapshotState::Current);
}

#[tokio::test]
async fn close_waits_for_an_acquire_that_it_ends() {
  let world = World::new("{}");
  lost(&world).await;
  let core = world.core();
  let shut = world.snapshots.open.acquire().await.unwrap();
  let acquiring = tokio::spawn({
    let core = Arc::clone(&core);
    async move { code(acquire(&core, &request(), &Cancel::new()).await) }
  });
  // On the one thread of this test, the acquire is waiting for its snapshot when this task goes on.
  tokio::task::yield_now().await;
  let closing = tokio::spawn(async move { core.close().await });
  tokio::task::yield_now().await;
  assert!(!closing.is_finished());
  drop(shut);
  assert_eq!(acquiring.await.unwrap(), ErrorCode::Released);
  closing.await.unwrap();
  assert_eq!(world.containers().await, [""; 0]);
  let session = world.acquire(&world.core()).await.unwrap();
  assert_eq!(size(&session, "kept").await.unwrap(), 1);
}

/// The holder's heartbeats say another time than the one who reads them has: they come all the same.
fn beats_of_another_clock(world: &World) {
  let beats = AtomicU32::new(0);
  world.leases.on_save(move |inner, record| {
    let mut record = record.clone();
    record.holder.as_mut()?.heartbeat_at = 1 + u64::from(beats.fetch_add(1, Ordering::Relaxed));
    record.expires_at = 1;
    futures_util::FutureExt::now_or_never(inner.save(&record, Some(record.fence)))
  });
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_clock_is_behind_is_alive_while_it_beats() {
  let world = World::new("{}");
  let session = world.acquire(&world.core()).await.unwrap();
  beats_of_another_clock(&world);
  tokio::time::sleep(Duration::from_secs(6)).await;
  let record = world.leases.record().await.unwrap();
  assert_eq!((record.holder.unwrap().heartbeat_at, record.expires_at), (1, 1));
  assert_eq!(code(world.acquire(&world.core()).await), ErrorCode::Conflict);
  let report = sweep(&world.core(), &Cancel::new()).await.unwrap();
  assert_eq!(report, SweepReport::default());
  assert_eq!(size(&session, "seed").await.unwrap(), 1);

  // Once its beats come no more it is silent, whatever its clock said.
  world.leases.on_save(|_, _| Some(Err(broken())));
  tokio::time::sleep(Duration::from_secs(6)).await;
  let waiting = tokio::time::Instant::now();
  let fence = world.leases.record().await.unwrap().fence;
  world.leases.on_save(move |_, record| (record.fence == fence).then(|| Err(broken())));
  assert_eq!(code(world.acquire(&world.core()).await), ErrorCode::LeaseExpired);
  assert!(waiting.elapsed() >= Duration::from_secs(6));
  assert_eq!(code(size(&session, "seed").await), ErrorCode::Conflict);
}

#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_second_look_at_a_silent_holder() {
  let world = World::new("{}");
  let _session = world.acquire(&world.core()).await.unwrap();
  beats_of_another_clock(&world);
  tokio::time::sleep(Duration::from_secs(6)).await;
  let (cancel, core) = (Cancel::new(), world.core());
  let aborted = async {
    tokio::time::sleep(Duration::from_secs(1)).await;
    cancel.cancel();
  };
  let request = request();
  let (acquired, ()) = tokio::join!(acquire(&core, &request, &cancel), aborted);
  assert_eq!(code(acquired), ErrorCode::Cancelled);
}

/// What comes of a command of nine seconds when another holder has the run after this many.
async fn taken_over_after(seconds: u64) -> Error {
  let world = World::new("{}");
  let session = world.acquire(&world.core()).await.unwrap();
  let never = Cancel::new();
  let sleep =
    ExecArguments { command: "sleep".to_owned(), args: vec!["9".to_owned()], ..ExecArguments::default() };
  let stolen = async {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let record = world.leases.record().await.unwrap();
    let stolen = LeaseRecord { fence: record.fence + 1, ..record };
    assert!(world.leases.inner.save(&stolen, Some(stolen.fence - 1)).await.unwrap());
  };
  let (slept, ()) = tokio::join!(session.exec(sleep, &never), stolen);
  slept.err().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_a_heartbeat_ends_says_that_the_run_was_taken_over() {
  let error = taken_over_after(1).await;
  assert_eq!(error.code(), ErrorCode::Conflict, "{error}");
  assert!(error.message().contains("taken over by another holder"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_ends_before_a_heartbeat_can_tell_says_so_too() {
  // The last heartbeat was that of the fifth second. A holder that was stopped reads the end of its command, which the
  // next holder has killed, before it comes to a heartbeat.
  let error = taken_over_after(6).await;
  assert_eq!(error.code(), ErrorCode::Conflict, "{error}");
  assert!(error.message().contains("taken over by another holder"), "{error}");
}

#[tokio::test]
async fn of_many_who_want_a_run_one_gets_it() {
  let world = Arc::new(World::new("{}"));
  for round in ["new", "waiting"] {
    let tries = (0..20).map(|_| {
      let world = Arc::clone(&world);
      tokio::spawn(async move { world.acquire(&world.core()).await })
    });
    let tries = futures_util::future::join_all(tries).await;
    let (won, lost): (Vec<_>, Vec<_>) =
      tries.into_iter().map(|tried| tried.unwrap()).partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 19), "{round}");
    assert!(lost.into_iter().all(|lost| code(lost) == ErrorCode::Conflict), "{round}");
    assert_eq!(world.containers().await.len(), 1, "{round}");
    for session in won.into_iter().flatten() {
      assert_eq!(size(&session, "seed").await.unwrap(), 1, "{round}");
      assert!(session.release("suspended").await.is_none(), "{round}");
    }
  }
}

#[tokio::test]
async fn an_image_that_was_removed_since_the_last_run_is_fetched_again() {
  let world = World::new("{}");
  let core = world.core();
  let session = world.acquire(&core).await.unwrap();
  assert!(session.release("completed").await.is_none());
  world.engine.remove_image("alpine:3.21").await.unwrap();
  world.acquire(&core).await.unwrap();
}
