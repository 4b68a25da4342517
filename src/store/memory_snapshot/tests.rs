use super::*;

fn meta() -> SnapshotMeta {
  SnapshotMeta {
    run_id: "run".to_owned(),
    fingerprint: "sha256:0".to_owned(),
    created_at: 1,
    extra: serde_json::Map::new(),
  }
}

fn stream(pieces: Vec<Result<Bytes>>) -> ByteStream {
  futures_util::stream::iter(pieces).boxed()
}

fn of(size: usize) -> ByteStream {
  stream(vec![Ok(vec![b'x'; size].into())])
}

async fn bytes(store: &MemorySnapshotStore, key: &str) -> Option<Vec<u8>> {
  let mut tar = store.load(key).await.unwrap()?.tar;
  let mut all = Vec::new();
  while let Some(piece) = tar.next().await {
    all.extend(piece.unwrap());
  }
  Some(all)
}

#[tokio::test]
async fn a_snapshot_is_saved_whole_or_not_at_all() {
  let store = MemorySnapshotStore::default();
  store.save("k", meta(), stream(vec![Ok("ab".into()), Ok("c".into())])).await.unwrap();
  let cut = stream(vec![Ok("x".into()), Err(fail!(DockerApi, "cut"))]);
  assert!(store.save("k", meta(), cut).await.is_err());
  assert_eq!(bytes(&store, "k").await.unwrap(), b"abc");
  store.remove("k").await.unwrap();
  store.remove("k").await.unwrap();
  assert_eq!(bytes(&store, "k").await, None);
  assert_eq!(store.used.load(Ordering::Acquire), 0);
}

#[tokio::test]
async fn the_sum_of_all_snapshots_is_bounded() {
  let store = MemorySnapshotStore::with_max_total(100);
  store.save("a", meta(), of(60)).await.unwrap();
  store.save("b", meta(), of(40)).await.unwrap();
  let refused = store.save("c", meta(), of(1)).await.unwrap_err();
  assert_eq!(refused.code().as_str(), "LIMIT");
  assert_eq!(
    refused.message(),
    "The snapshot of run run does not fit: a memory snapshot store keeps at most 100 bytes of all runs together. Use a file snapshot store, or end runs that wait."
  );
  assert_eq!(bytes(&store, "c").await, None);
  store.remove("b").await.unwrap();
  store.save("c", meta(), of(40)).await.unwrap();
  // A replacement that fails leaves the one before, and gives its own bytes back.
  assert!(store.save("c", meta(), of(1)).await.is_err());
  assert_eq!(bytes(&store, "c").await.unwrap().len(), 40);
  assert_eq!(store.used.load(Ordering::Acquire), 100);
}

#[tokio::test]
async fn what_a_reader_still_holds_counts() {
  let store = MemorySnapshotStore::with_max_total(100);
  store.save("a", meta(), of(100)).await.unwrap();
  let reading = store.load("a").await.unwrap().unwrap();
  store.remove("a").await.unwrap();
  assert!(store.save("b", meta(), of(1)).await.is_err());
  drop(reading);
  store.save("b", meta(), of(100)).await.unwrap();
}

#[tokio::test]
async fn by_default_it_is_one_gibibyte() {
  assert_eq!(MemorySnapshotStore::default().max_total, 1_073_741_824);
}
