//! File stores that many processes share, and what is left when one of them is killed. The processes are this test's own
//! program: it runs again with the name of a part to play in its environment.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_docker::store::file::{FileLeaseStore, FileSnapshotStore};
use sandbox_docker::store::lease::{LeaseRecord, LeaseStore};
use sandbox_docker::store::record::{lease_record, snapshot_meta};
use sandbox_docker::store::snapshot::{SnapshotMeta, SnapshotStore};
use sandbox_docker::stream::ByteStream;
use serde_json::json;

const PART: &str = "SANDBOX_FILE_STORES_PART";
const DIRECTORY: &str = "SANDBOX_FILE_STORES_DIRECTORY";
const PROCESSES: usize = 20;
const ROUNDS: u64 = 50;
const KILLS: u64 = 120;
/// Longest that a process lives before it is killed. The times are spread evenly over it.
const LONGEST_LIFE: Duration = Duration::from_millis(40);
const TAR_BYTES: usize = 300_000;

fn record(key: &str, fence: u64) -> LeaseRecord {
  lease_record(json!({
    "key": key, "runId": "r", "environmentId": "e", "workspaceId": "w", "fingerprint": "f", "ownerId": "o",
    "containerId": "c", "containerName": "n", "imageIds": [], "token": "t", "fence": fence, "holder": null,
    "expiresAt": 1, "status": "running", "snapshotState": "none",
  }))
  .unwrap()
}

fn meta(number: u64) -> SnapshotMeta {
  snapshot_meta(json!({ "runId": "r", "fingerprint": "f", "createdAt": number })).unwrap()
}

/// A tar that tells which one it is by every byte of it.
fn tar(number: u64) -> ByteStream {
  let piece = Bytes::from(vec![(number % 251) as u8; 10_000]);
  futures_util::stream::iter((0..TAR_BYTES / piece.len()).map(move |_| Ok(piece.clone()))).boxed()
}

/// The number of the snapshot that is there, after a look at every byte of it.
async fn loaded(store: &FileSnapshotStore) -> Option<u64> {
  let mut found = store.load("k").await.unwrap()?;
  let number = found.meta.created_at;
  let mut size = 0;
  while let Some(piece) = found.tar.next().await {
    let piece = piece.unwrap();
    assert!(piece.iter().all(|byte| *byte == (number % 251) as u8));
    size += piece.len();
  }
  assert_eq!(size, TAR_BYTES);
  Some(number)
}

fn open(directory: &Path) -> (FileLeaseStore, FileSnapshotStore) {
  let path = directory.to_str().unwrap();
  (FileLeaseStore::open(path).unwrap(), FileSnapshotStore::open(path).unwrap())
}

fn start(part: &str, directory: &Path) -> Child {
  Command::new(std::env::current_exe().unwrap())
    .args(["--exact", "part", "--nocapture", "--test-threads=1"])
    .env(PART, part)
    .env(DIRECTORY, directory)
    .stdout(Stdio::piped())
    .stdin(Stdio::piped())
    .spawn()
    .unwrap()
}

/// What a part said, a word and a number a line, until its process ended.
fn said(child: &mut Child) -> Vec<(String, u64)> {
  let lines = BufReader::new(child.stdout.take().unwrap()).lines();
  let words = lines.map_while(Result::ok).filter_map(|line| {
    // The first stands behind what the test's runner had to say.
    let (_, said) = line.split_once("> ")?;
    let (word, number) = said.split_once(' ')?;
    // The last line of a process that was killed may be cut; without its end it says nothing.
    let number = number.strip_suffix('.')?.parse().ok()?;
    Some((word.to_owned(), number))
  });
  words.collect()
}

fn say(word: &str, number: u64) {
  let mut out = std::io::stdout().lock();
  out.write_all(format!("> {word} {number}.\n").as_bytes()).unwrap();
  out.flush().unwrap();
}

/// In a process that was started by one of the tests below it plays its part; else it has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn part() {
  let Ok(part) = std::env::var(PART) else { return };
  let directory = std::env::var(DIRECTORY).unwrap();
  let (leases, snapshots) = open(Path::new(&directory));
  match part.as_str() {
    "race" => race(&leases).await,
    "write leases" => write_leases(&leases).await,
    "write snapshots" => write_snapshots(&snapshots).await,
    "pass a snapshot" => pass_a_snapshot(&snapshots).await,
    "use snapshots" => use_snapshots(&snapshots).await,
    other => panic!("{other}"),
  }
}

/// In each round every process wants a new key for itself, and the one shared key's next fence.
async fn race(store: &FileLeaseStore) {
  let mut line = String::new();
  std::io::stdin().read_line(&mut line).unwrap();
  for round in 0..ROUNDS {
    if store.save(&record(&format!("new-{round}"), 1), None).await.unwrap() {
      say("created", round);
    }
    if store.save(&record("shared", round + 1), Some(round)).await.unwrap() {
      say("took", round);
    }
    while store.load("shared").await.unwrap().unwrap().fence <= round {
      tokio::task::yield_now().await;
    }
    if store.remove(&format!("new-{round}"), 1).await.unwrap() {
      say("removed", round);
    }
  }
}

#[tokio::test]
async fn of_twenty_processes_one_wins_each_round() {
  let directory = tempfile::tempdir().unwrap();
  let (leases, _) = open(directory.path());
  assert!(leases.save(&record("shared", 0), None).await.unwrap());
  let mut children: Vec<_> = (0..PROCESSES).map(|_| start("race", directory.path())).collect();
  for child in &mut children {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
  }
  let mut words = Vec::new();
  for child in &mut children {
    words.extend(said(child));
    assert!(child.wait().unwrap().success());
  }
  let wins =
    |word: &str, round| words.iter().filter(|(said, number)| said == word && *number == round).count();
  for round in 0..ROUNDS {
    assert_eq!(wins("took", round), 1, "round {round}");
    // A slow process makes the key of a round anew that a fast one has removed; each making has one winner.
    assert!(wins("created", round) >= 1, "round {round}");
    assert_eq!(
      wins("created", round) - wins("removed", round),
      usize::from(leases.load(&format!("new-{round}")).await.unwrap().is_some()),
      "round {round}"
    );
  }
  assert_eq!(leases.load("shared").await.unwrap().unwrap().fence, ROUNDS);
}

async fn write_leases(store: &FileLeaseStore) {
  let mut fence = store.load("k").await.unwrap().unwrap().fence;
  loop {
    assert!(store.save(&record("k", fence + 1), Some(fence)).await.unwrap());
    fence += 1;
    say("saved", fence);
  }
}

/// Starts `part`, kills it after one of many times, and returns the last number that it had said.
fn killed(part: &str, directory: &Path, round: u64) -> Option<u64> {
  let mut child = start(part, directory);
  let micros = LONGEST_LIFE.as_micros() as u64 * round / KILLS;
  sleep(Duration::from_micros(micros));
  child.kill().unwrap();
  let last = said(&mut child).last().map(|(_, number)| *number);
  child.wait().unwrap();
  last
}

#[tokio::test]
async fn a_writer_that_is_killed_leaves_the_old_lease_or_the_new_one_and_no_lock() {
  let directory = tempfile::tempdir().unwrap();
  let (leases, _) = open(directory.path());
  let mut known = 1;
  assert!(leases.save(&record("k", known), None).await.unwrap());
  let mut advanced = 0;
  for round in 0..KILLS {
    let last = killed("write leases", directory.path(), round).unwrap_or(known);
    let found = leases.load("k").await.unwrap().unwrap().fence;
    // What it was told is saved, is; one more may be on the disk that it was not told of.
    assert!((last..=last + 1).contains(&found), "{found} after {last}");
    assert!(leases.save(&record("k", found + 1), Some(found)).await.unwrap());
    advanced += u64::from(found > known);
    known = found + 1;
  }
  assert!(advanced > KILLS / 10, "only {advanced} of the writers came to write");
  assert_eq!(leases.list("o").await.unwrap(), [record("k", known)]);
  assert_eq!(names(directory.path(), ".tmp"), 0);
}

async fn write_snapshots(store: &FileSnapshotStore) {
  let mut number = loaded(store).await.unwrap();
  loop {
    number += 1;
    store.save("k", meta(number), tar(number)).await.unwrap();
    say("saved", number);
  }
}

#[tokio::test]
async fn a_writer_that_is_killed_leaves_the_old_snapshot_or_the_new_one() {
  let directory = tempfile::tempdir().unwrap();
  let (_, snapshots) = open(directory.path());
  let mut known = 1;
  snapshots.save("k", meta(known), tar(known)).await.unwrap();
  let mut advanced = 0;
  for round in 0..KILLS {
    let last = killed("write snapshots", directory.path(), round).unwrap_or(known);
    let found = loaded(&snapshots).await.unwrap();
    assert!((last..=last + 1).contains(&found), "{found} after {last}");
    advanced += u64::from(found > known);
    known = found;
  }
  assert!(advanced > KILLS / 10, "only {advanced} of the writers came to write");
  // The next save collects what they left half written.
  snapshots.save("k", meta(known), tar(known)).await.unwrap();
  assert_eq!(names(directory.path(), ".tmp"), 0);
}

/// How many names end so.
fn names(directory: &Path, ending: &str) -> usize {
  let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
  names.filter(|name| name.to_str().unwrap().ends_with(ending)).count()
}

async fn use_snapshots(store: &FileSnapshotStore) {
  let mut line = String::new();
  std::io::stdin().read_line(&mut line).unwrap();
  for number in 0..ROUNDS {
    store.save("k", meta(number), tar(number)).await.unwrap();
    if loaded(store).await.is_some() {
      say("loaded", number);
    }
    if number % 5 == 0 {
      store.remove("k").await.unwrap();
    }
  }
}

#[tokio::test]
async fn saves_loads_and_removes_of_many_processes_are_whole() {
  let directory = tempfile::tempdir().unwrap();
  let (_, snapshots) = open(directory.path());
  let mut children: Vec<_> = (0..6).map(|_| start("use snapshots", directory.path())).collect();
  for child in &mut children {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
  }
  for child in &mut children {
    // Every snapshot that was found was whole, or the process had panicked.
    assert!(!said(child).is_empty());
    assert!(child.wait().unwrap().success());
  }
  loaded(&snapshots).await;
  assert_eq!(names(directory.path(), ".tmp"), 0);
}

/// The most memory that this process ever had, in KiB.
#[cfg(target_os = "linux")]
fn peak_kib() -> u64 {
  let status = std::fs::read_to_string("/proc/self/status").unwrap();
  let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
  peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(not(target_os = "linux"))]
fn peak_kib() -> u64 {
  0
}

const PASSED_PIECES: u64 = 1024;

async fn pass_a_snapshot(store: &FileSnapshotStore) {
  let before = peak_kib();
  // 64 MiB, each piece in memory of its own.
  let pieces = (0..PASSED_PIECES).map(|number| Ok(Bytes::from(vec![(number % 251) as u8; 65_536])));
  store.save("k", meta(1), futures_util::stream::iter(pieces).boxed()).await.unwrap();
  let mut found = store.load("k").await.unwrap().unwrap();
  let mut size = 0;
  while let Some(piece) = found.tar.next().await {
    size += piece.unwrap().len() as u64;
  }
  say("passed", size);
  say("grown", peak_kib() - before);
}

#[tokio::test]
async fn sixty_four_mebibytes_pass_in_a_few() {
  let directory = tempfile::tempdir().unwrap();
  let mut child = start("pass a snapshot", directory.path());
  let words = said(&mut child);
  assert!(child.wait().unwrap().success());
  assert_eq!(words.first(), Some(&("passed".to_owned(), 64 * 1024 * 1024)));
  let (_, grown) = words.last().unwrap();
  assert!(*grown <= 16 * 1024, "{grown} KiB");
}
