use std::os::unix::fs::symlink;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::limits::{MAX_LEASE_FILE_BYTES, STORE_LOCK_TIMEOUT};
use crate::store::lease::{LeaseRecord, LeaseStore};
use crate::store::record::lease_record;

fn record(key: &str, fence: u64) -> LeaseRecord {
  lease_record(json!({
    "key": key, "runId": "r", "environmentId": "e", "workspaceId": "w", "fingerprint": "f", "ownerId": "o",
    "containerId": "c", "containerName": "n", "imageIds": [], "token": "t", "fence": fence, "holder": null,
    "expiresAt": 1, "status": "running", "snapshotState": "none", "kept": { "by": "others" },
  }))
  .unwrap()
}

fn store() -> (TempDir, FileLeaseStore) {
  let directory = tempfile::tempdir().unwrap();
  let store = FileLeaseStore::open(directory.path().to_str().unwrap()).unwrap();
  (directory, store)
}

#[tokio::test]
async fn compare_and_set_on_the_fence() {
  let (_directory, store) = store();
  assert_eq!(store.load("k").await.unwrap(), None);
  assert!(!store.save(&record("k", 2), Some(1)).await.unwrap());
  assert!(store.save(&record("k", 1), None).await.unwrap());
  assert!(!store.save(&record("k", 9), None).await.unwrap());
  assert!(store.save(&record("k", 2), Some(1)).await.unwrap());
  assert!(!store.save(&record("k", 3), Some(1)).await.unwrap());
  assert_eq!(store.load("k").await.unwrap(), Some(record("k", 2)));
  assert!(!store.remove("k", 1).await.unwrap());
  assert!(store.remove("k", 2).await.unwrap());
  assert!(!store.remove("k", 2).await.unwrap());
  assert_eq!(store.load("k").await.unwrap(), None);
}

#[tokio::test]
async fn any_text_is_a_key_and_none_shares_a_file() {
  let (directory, store) = store();
  let keys = hostile_keys();
  for (fence, key) in keys.iter().enumerate() {
    assert!(store.save(&record(key, fence as u64), None).await.unwrap());
  }
  for (fence, key) in keys.iter().enumerate() {
    assert_eq!(store.load(key).await.unwrap(), Some(record(key, fence as u64)));
  }
  let names: std::collections::BTreeSet<_> = files(directory.path())
    .iter()
    .map(|path| path.file_name().unwrap().to_str().unwrap().to_lowercase())
    .collect();
  assert_eq!(names.len(), keys.len());
  assert_eq!(store.list("o").await.unwrap().len(), keys.len());
}

#[tokio::test]
async fn a_list_has_one_owners_records_by_key() {
  let (directory, store) = store();
  FileSnapshotStore::open(directory.path().to_str().unwrap()).unwrap();
  let other = LeaseRecord { owner_id: "other".to_owned(), ..record("a", 1) };
  for record in [&other, &record("c", 1), &record("b", 1)] {
    assert!(store.save(record, None).await.unwrap());
  }
  assert_eq!(store.list("o").await.unwrap(), [record("b", 1), record("c", 1)]);
  assert_eq!(store.list("nobody").await.unwrap(), []);
}

#[tokio::test]
async fn files_are_for_their_owner_alone() {
  let (directory, store) = store();
  store.save(&record("k", 1), None).await.unwrap();
  for entry in fs::read_dir(directory.path()).unwrap() {
    assert_eq!(mode(&entry.unwrap().path()), 0o600);
  }
}

#[tokio::test]
async fn a_damaged_file_is_an_error_that_names_it_and_is_left_as_it_is() {
  let (directory, store) = store();
  store.save(&record("k", 1), None).await.unwrap();
  let path = only_file(directory.path());
  let whole = fs::read(&path).unwrap();
  let text = |change: fn(&mut Value)| {
    let mut file: Value = serde_json::from_slice(&whole).unwrap();
    change(&mut file);
    file.to_string().into_bytes()
  };
  let mut cases: Vec<Vec<u8>> = (0..whole.len() - 1).map(|length| whole[..length].to_vec()).collect();
  cases.push(vec![0; whole.len()]);
  cases.push(b"[]".to_vec());
  cases.push(vec![b' '; usize::try_from(MAX_LEASE_FILE_BYTES).unwrap() + 1]);
  cases.push(text(|file| file["format"] = json!("other")));
  cases.push(text(|file| file["version"] = json!("1")));
  cases.push(text(|file| file["version"] = json!(0)));
  cases.push(text(|file| file["record"]["fence"] = json!(-1)));
  cases.push(text(|file| file["record"]["key"] = json!("another")));
  for bytes in cases {
    fs::write(&path, &bytes).unwrap();
    let failed = [
      store.load("k").await.unwrap_err(),
      store.save(&record("k", 2), None).await.unwrap_err(),
      store.save(&record("k", 2), Some(1)).await.unwrap_err(),
      store.remove("k", 1).await.unwrap_err(),
      store.list("o").await.unwrap_err(),
    ];
    failed.iter().for_each(|error| assert_names(error, "CONFIG_INVALID", &path));
    assert_eq!(fs::read(&path).unwrap(), bytes);
  }
}

#[tokio::test]
async fn a_later_version_is_refused_and_fields_of_this_one_are_kept() {
  let (directory, store) = store();
  store.save(&record("k", 1), None).await.unwrap();
  let path = only_file(directory.path());
  let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
  assert_eq!(file["record"]["kept"], json!({ "by": "others" }));
  file["version"] = json!(2);
  fs::write(&path, file.to_string()).unwrap();
  let error = store.load("k").await.unwrap_err();
  assert_names(&error, "UNSUPPORTED", &path);
  assert!(error.message().contains("has version 2, and this package reads version 1"), "{error}");
}

#[tokio::test]
async fn links_pipes_and_directories_in_a_records_place_are_refused() {
  let (directory, store) = store();
  store.save(&record("k", 1), None).await.unwrap();
  let path = only_file(directory.path());
  let elsewhere = tempfile::tempdir().unwrap();
  let target = elsewhere.path().join("target");
  fs::rename(&path, &target).unwrap();
  let before = fs::read(&target).unwrap();

  symlink(&target, &path).unwrap();
  let act = async || {
    [
      store.load("k").await.unwrap_err(),
      store.save(&record("k", 2), Some(1)).await.unwrap_err(),
      store.remove("k", 1).await.unwrap_err(),
    ]
  };
  for error in act().await {
    assert_names(&error, "CONFIG_INVALID", &path);
    assert!(error.message().contains("symbolic link"), "{error}");
  }
  assert_eq!(fs::read(&target).unwrap(), before);
  fs::remove_file(&path).unwrap();

  fs::create_dir(&path).unwrap();
  act().await.iter().for_each(|error| assert_names(error, "CONFIG_INVALID", &path));
  fs::remove_dir(&path).unwrap();

  assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
  act().await.iter().for_each(|error| assert_names(error, "CONFIG_INVALID", &path));
}

#[tokio::test]
async fn a_link_in_the_place_of_a_lock_or_a_temporary_file_is_not_followed() {
  let (directory, store) = store();
  let elsewhere = tempfile::tempdir().unwrap();
  let target = elsewhere.path().join("target");
  fs::write(&target, "theirs").unwrap();
  let link = directory.path().join(lock::lock_name(&stem("k")));
  symlink(&target, &link).unwrap();
  assert_names(&store.save(&record("k", 1), None).await.unwrap_err(), "CONFIG_INVALID", &link);
  fs::remove_file(&link).unwrap();

  let temporary = directory.path().join(format!("{}.lease.tmp", stem("k")));
  symlink(&target, &temporary).unwrap();
  assert_names(&store.save(&record("k", 1), None).await.unwrap_err(), "CONFIG_INVALID", &temporary);
  assert_eq!(fs::read(&target).unwrap(), b"theirs");
  assert_eq!(store.load("k").await.unwrap(), None);
}

#[tokio::test]
async fn a_stranger_in_the_directory_is_reported_and_left_alone() {
  let (directory, store) = store();
  store.save(&record("k", 1), None).await.unwrap();
  for ignored in ["lost+found", ".DS_Store"] {
    fs::write(directory.path().join(ignored), "x").unwrap();
  }
  assert_eq!(store.list("o").await.unwrap().len(), 1);
  for name in ["notes.txt", "x.lease", "x.tmp"] {
    let stranger = directory.path().join(name);
    fs::write(&stranger, "theirs").unwrap();
    assert_names(&store.list("o").await.unwrap_err(), "CONFIG_INVALID", &stranger);
    assert_eq!(store.load("k").await.unwrap(), Some(record("k", 1)));
    assert_eq!(fs::read(&stranger).unwrap(), b"theirs");
    fs::remove_file(&stranger).unwrap();
  }
}

#[tokio::test]
async fn what_a_dead_writer_left_is_collected_and_a_live_ones_is_not() {
  let (directory, store) = store();
  let temporary = directory.path().join(format!("{}.lease.tmp", stem("k")));
  fs::write(&temporary, "half of a re").unwrap();
  let held = store.locks_for_tests().lock(&stem("k")).await.unwrap();
  assert_eq!(store.list("o").await.unwrap(), []);
  assert!(temporary.exists());
  drop(held);
  assert_eq!(store.list("o").await.unwrap(), []);
  assert!(!temporary.exists());
  // And a write does not trip over it.
  fs::write(&temporary, "half of a re").unwrap();
  assert!(store.save(&record("k", 1), None).await.unwrap());
  assert_eq!(files(directory.path()).len(), 1);
}

#[tokio::test]
async fn a_directory_that_is_gone_is_an_error_and_no_empty_store() {
  let (directory, store) = store();
  let path = directory.path().to_owned();
  drop(directory);
  let failed = [
    store.load("k").await.unwrap_err(),
    store.save(&record("k", 1), None).await.unwrap_err(),
    store.remove("k", 1).await.unwrap_err(),
    store.list("o").await.unwrap_err(),
  ];
  failed.iter().for_each(|error| assert_names(error, "CONFIG_INVALID", &path));
}

#[tokio::test]
async fn a_record_that_could_not_be_read_back_is_not_written() {
  let (directory, store) = store();
  let mut long = record("k", 1);
  long.extra.insert("long".to_owned(), json!("x".repeat(usize::try_from(MAX_LEASE_FILE_BYTES).unwrap())));
  assert_eq!(store.save(&long, None).await.unwrap_err().code().as_str(), "LIMIT");
  assert_eq!(files(directory.path()), Vec::<PathBuf>::new());
}

/// The full device says what a full disk says.
#[tokio::test]
async fn a_full_disk_is_a_limit_and_a_refusal_names_the_path() {
  use std::io::Error as Io;
  let path = Path::new("/d/f");
  for (errno, code) in [
    (rustix::io::Errno::NOSPC, "LIMIT"),
    (rustix::io::Errno::DQUOT, "LIMIT"),
    (rustix::io::Errno::ROFS, "CONFIG_INVALID"),
    (rustix::io::Errno::ACCESS, "CONFIG_INVALID"),
    (rustix::io::Errno::IO, "CONFIG_INVALID"),
  ] {
    let error = directory::failure("Cannot write", path, Io::from_raw_os_error(errno.raw_os_error()));
    assert_names(&error, code, path);
    assert!(std::error::Error::source(&error).is_some());
  }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_never_let_go_is_a_time_out_that_names_it() {
  let (directory, store) = store();
  let held = lock::try_lock(
    &directory::Directory::open(directory.path().to_str().unwrap(), "test").unwrap(),
    &lock::lock_name(&stem("k")),
  );
  let held = held.unwrap().unwrap();
  let before = tokio::time::Instant::now();
  let error = store.save(&record("k", 1), None).await.unwrap_err();
  assert_names(&error, "TIMEOUT", &directory.path().join(".lock-8"));
  assert!(before.elapsed() <= STORE_LOCK_TIMEOUT);
  assert_eq!(store.load("k").await.unwrap(), None);
  drop(held);
  assert!(store.save(&record("k", 1), None).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_calls_at_once_one_wins() {
  let (_directory, store) = store();
  let store = Arc::new(store);
  let calls: Vec<_> = (0..50)
    .map(|_| {
      let store = Arc::clone(&store);
      tokio::spawn(async move { store.save(&record("k", 1), None).await.unwrap() })
    })
    .collect();
  let mut wins = 0;
  for call in calls {
    wins += usize::from(call.await.unwrap());
  }
  assert_eq!(wins, 1);
}
