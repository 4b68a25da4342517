use std::os::unix::fs::symlink;

use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::error::fail;
use crate::limits::{MAX_SNAPSHOT_HEAD_BYTES, SNAPSHOT_FILE_CHUNK_BYTES};
use crate::store::record::snapshot_meta;
use crate::store::snapshot::{SnapshotMeta, SnapshotStore};
use crate::stream::ByteStream;

fn meta() -> SnapshotMeta {
  snapshot_meta(json!({ "runId": "r", "fingerprint": "f", "createdAt": 7, "note": "mine" })).unwrap()
}

fn store() -> (TempDir, FileSnapshotStore) {
  let directory = tempfile::tempdir().unwrap();
  let store = FileSnapshotStore::open(directory.path().to_str().unwrap()).unwrap();
  (directory, store)
}

fn stream(pieces: Vec<Result<Bytes>>) -> ByteStream {
  futures_util::stream::iter(pieces).boxed()
}

fn of(bytes: &[u8]) -> ByteStream {
  stream(vec![Ok(Bytes::copy_from_slice(bytes))])
}

/// The snapshot to its end; the first error of the way.
async fn load(store: &FileSnapshotStore, key: &str) -> Result<Option<Vec<u8>>> {
  let Some(mut found) = store.load(key).await? else { return Ok(None) };
  assert_eq!(found.meta, meta());
  let mut all = Vec::new();
  while let Some(piece) = found.tar.next().await {
    all.extend(piece?);
  }
  Ok(Some(all))
}

#[tokio::test]
async fn a_snapshot_of_any_size_in_pieces_of_any_size_comes_back() {
  let (directory, store) = store();
  let chunk = SNAPSHOT_FILE_CHUNK_BYTES;
  for (size, piece) in [
    (0, 1),
    (1, 1),
    (chunk - 1, chunk),
    (chunk, chunk),
    (chunk + 1, 1000),
    (3 * chunk, 512),
    (3 * chunk + 7, 2 * chunk),
  ] {
    let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    let mut pieces: Vec<_> = bytes.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    pieces.push(Ok(Bytes::new()));
    store.save("k", meta(), stream(pieces)).await.unwrap();
    assert_eq!(load(&store, "k").await.unwrap(), Some(bytes));
  }
  assert_eq!(mode(&only_file(directory.path())), 0o600);
  store.remove("k").await.unwrap();
  store.remove("k").await.unwrap();
  assert_eq!(load(&store, "k").await.unwrap(), None);
}

#[tokio::test]
async fn any_text_is_a_key_and_none_shares_a_file() {
  let (directory, store) = store();
  let keys = hostile_keys();
  for key in &keys {
    store.save(key, meta(), of(key.as_bytes())).await.unwrap();
  }
  for key in &keys {
    assert_eq!(load(&store, key).await.unwrap(), Some(key.clone().into_bytes()));
  }
  assert_eq!(files(directory.path()).len(), keys.len());
}

#[tokio::test]
async fn a_save_that_fails_or_is_given_up_leaves_the_one_before_and_nothing_else() {
  let (directory, store) = store();
  store.save("k", meta(), of(b"before")).await.unwrap();
  let piece = || Ok(Bytes::from(vec![b'x'; SNAPSHOT_FILE_CHUNK_BYTES]));
  let cut = stream(vec![piece(), piece(), Err(fail!(DockerApi, "the engine went away"))]);
  assert_eq!(store.save("k", meta(), cut).await.unwrap_err().message(), "the engine went away");
  assert_eq!(files(directory.path()).len(), 1);

  let endless = stream(vec![piece(), piece()]).chain(futures_util::stream::pending()).boxed();
  let given_up =
    tokio::time::timeout(std::time::Duration::from_millis(200), store.save("k", meta(), endless));
  assert!(given_up.await.is_err());
  assert_eq!(files(directory.path()).len(), 1);
  assert_eq!(load(&store, "k").await.unwrap(), Some(b"before".to_vec()));
}

#[tokio::test]
async fn a_file_that_was_cut_or_altered_anywhere_is_refused() {
  let (directory, store) = store();
  store.save("k", meta(), of(b"the tar")).await.unwrap();
  let path = only_file(directory.path());
  let whole = fs::read(&path).unwrap();
  let mut cases: Vec<Vec<u8>> = (0..whole.len()).map(|length| whole[..length].to_vec()).collect();
  for index in 0..whole.len() {
    let mut altered = whole.clone();
    altered[index] ^= 1;
    cases.push(altered);
  }
  cases.push([whole.as_slice(), b"x"].concat());
  cases.push(vec![0; whole.len()]);
  for bytes in cases {
    fs::write(&path, &bytes).unwrap();
    let error = load(&store, "k").await.unwrap_err();
    assert_names(&error, "SNAPSHOT_INVALID", &path);
  }
  // The next save is the way out.
  store.save("k", meta(), of(b"again")).await.unwrap();
  assert_eq!(load(&store, "k").await.unwrap(), Some(b"again".to_vec()));
}

#[tokio::test]
async fn an_altered_tar_is_never_given_whole() {
  let (directory, store) = store();
  let bytes = vec![b'x'; 2 * SNAPSHOT_FILE_CHUNK_BYTES];
  store.save("k", meta(), of(&bytes)).await.unwrap();
  let path = only_file(directory.path());
  let mut altered = fs::read(&path).unwrap();
  let middle = altered.len() / 2;
  altered[middle] ^= 1;
  fs::write(&path, altered).unwrap();
  let mut tar = store.load("k").await.unwrap().unwrap().tar;
  assert_eq!(tar.next().await.unwrap().unwrap().len(), SNAPSHOT_FILE_CHUNK_BYTES);
  assert_names(&tar.next().await.unwrap().unwrap_err(), "SNAPSHOT_INVALID", &path);
  assert!(tar.next().await.is_none());
}

#[tokio::test]
async fn a_file_of_another_run_or_a_later_version_is_refused() {
  let (directory, store) = store();
  store.save("other", meta(), of(b"tar")).await.unwrap();
  let path = only_file(directory.path());
  let mine = directory.path().join(format!("{}.snapshot", stem("k")));
  fs::rename(&path, &mine).unwrap();
  let error = load(&store, "k").await.unwrap_err();
  assert_names(&error, "SNAPSHOT_INVALID", &mine);
  assert!(error.message().contains("another run"), "{error}");

  store.save("k", meta(), of(b"tar")).await.unwrap();
  let mut later = fs::read(&mine).unwrap();
  later[16] = 2;
  fs::write(&mine, later).unwrap();
  let error = load(&store, "k").await.unwrap_err();
  assert!(error.message().contains("its version is 2 and this package reads 1"), "{error}");
}

#[tokio::test]
async fn links_and_directories_in_a_snapshots_place_are_refused() {
  let (directory, store) = store();
  let elsewhere = tempfile::tempdir().unwrap();
  let target = elsewhere.path().join("target");
  fs::write(&target, "theirs").unwrap();
  let path = directory.path().join(format!("{}.snapshot", stem("k")));
  let act = async || {
    [
      load(&store, "k").await.unwrap_err(),
      store.save("k", meta(), of(b"tar")).await.unwrap_err(),
      store.remove("k").await.unwrap_err(),
    ]
  };
  symlink(&target, &path).unwrap();
  act().await.iter().for_each(|error| assert_names(error, "CONFIG_INVALID", &path));
  assert_eq!(fs::read(&target).unwrap(), b"theirs");
  fs::remove_file(&path).unwrap();
  fs::create_dir(&path).unwrap();
  act().await.iter().for_each(|error| assert_names(error, "CONFIG_INVALID", &path));
  assert_eq!(files(directory.path()), [path]);
}

#[tokio::test]
async fn only_files_of_writers_that_died_are_collected() {
  let (directory, store) = store();
  let temporary = |random: &str| directory.path().join(format!("{}.snapshot.{random}.tmp", stem("k")));
  let (dead, alive) = (temporary("00000000000000aa"), temporary("00000000000000bb"));
  fs::write(&dead, "half").unwrap();
  fs::write(&alive, "half").unwrap();
  let stranger = directory.path().join("stranger.tmp");
  fs::write(&stranger, "theirs").unwrap();
  let writing = fs::File::open(&alive).unwrap();
  writing.lock().unwrap();
  store.save("other", meta(), of(b"tar")).await.unwrap();
  assert_eq!((dead.exists(), alive.exists(), stranger.exists()), (false, true, true));
  drop(writing);
  store.save("other", meta(), of(b"tar")).await.unwrap();
  assert_eq!((alive.exists(), stranger.exists()), (false, true));
}

#[tokio::test]
async fn a_reader_keeps_what_it_began_to_read() {
  let (_directory, store) = store();
  let first = vec![b'1'; 3 * SNAPSHOT_FILE_CHUNK_BYTES];
  store.save("k", meta(), of(&first)).await.unwrap();
  let mut reading = store.load("k").await.unwrap().unwrap().tar;
  let mut read = reading.next().await.unwrap().unwrap().to_vec();
  store.save("k", meta(), of(b"2")).await.unwrap();
  store.remove("k").await.unwrap();
  while let Some(piece) = reading.next().await {
    read.extend(piece.unwrap());
  }
  assert!(read == first);
}

#[tokio::test]
async fn a_directory_that_is_gone_is_an_error_and_no_empty_store() {
  let (directory, store) = store();
  let path = directory.path().to_owned();
  drop(directory);
  assert_names(&load(&store, "k").await.unwrap_err(), "CONFIG_INVALID", &path);
  assert_names(&store.save("k", meta(), of(b"tar")).await.unwrap_err(), "CONFIG_INVALID", &path);
  assert_names(&store.remove("k").await.unwrap_err(), "CONFIG_INVALID", &path);
}

#[tokio::test]
async fn a_head_that_could_not_be_read_back_is_not_written() {
  let (directory, store) = store();
  let key = "k".repeat(MAX_SNAPSHOT_HEAD_BYTES as usize);
  let error = store.save(&key, meta(), of(b"tar")).await.unwrap_err();
  assert_eq!(error.code().as_str(), "LIMIT");
  assert_eq!(files(directory.path()), Vec::<PathBuf>::new());
}
