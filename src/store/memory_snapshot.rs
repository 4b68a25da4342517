//! Snapshots in this process's memory: for one process, and for tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream;

use super::snapshot::{Snapshot, SnapshotMeta, SnapshotStore, TarStream};
use crate::error::{Result, fail};

/// All snapshots of one store together, 1 GiB: sixteen full workspaces of the default size. Applications with more runs
/// that wait need a store outside of the process.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Contents are copied into pieces of this size: a piece of a network buffer would keep all of the buffer alive.
const PIECE_BYTES: usize = 256 * 1024;

/// A snapshot store that ends with the process. What it holds and what is being written into it is bounded.
#[derive(Debug)]
pub struct MemorySnapshotStore {
  state: Arc<Mutex<State>>,
  max_bytes: u64,
}

#[derive(Debug, Default)]
struct State {
  stored: BTreeMap<String, Stored>,
  /// Bytes of all snapshots, those that are being written included.
  used: u64,
}

#[derive(Debug)]
struct Stored {
  meta: SnapshotMeta,
  pieces: Vec<Bytes>,
  size: u64,
}

impl MemorySnapshotStore {
  /// An empty one with room for 1 GiB.
  pub fn new() -> Self {
    Self::with_capacity(MAX_BYTES)
  }

  /// An empty one with room for this many bytes in all.
  pub fn with_capacity(max_bytes: u64) -> Self {
    Self { state: Arc::default(), max_bytes }
  }
}

impl Default for MemorySnapshotStore {
  fn default() -> Self {
    Self::new()
  }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
  // Nothing between two steps of a change can panic.
  state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room that is taken while a snapshot is written, and given back unless it is kept.
struct Room {
  state: Arc<Mutex<State>>,
  taken: u64,
  max_bytes: u64,
}

impl Room {
  fn take(&mut self, bytes: u64) -> Result<()> {
    let mut state = lock(&self.state);
    if state.used.saturating_add(bytes) > self.max_bytes {
      return Err(fail!(
        Limit,
        "The memory snapshot store is full: it holds at most {} bytes in all. Release runs that are done, or use a store outside of memory.",
        self.max_bytes
      ));
    }
    state.used += bytes;
    self.taken += bytes;
    Ok(())
  }

  fn keep(mut self, key: &str, meta: SnapshotMeta, pieces: Vec<Bytes>) {
    let mut state = lock(&self.state);
    let size = std::mem::take(&mut self.taken);
    if let Some(before) = state.stored.insert(key.to_owned(), Stored { meta, pieces, size }) {
      state.used = state.used.saturating_sub(before.size);
    }
  }
}

impl Drop for Room {
  fn drop(&mut self) {
    if self.taken > 0 {
      let mut state = lock(&self.state);
      state.used = state.used.saturating_sub(self.taken);
    }
  }
}

#[async_trait]
impl SnapshotStore for MemorySnapshotStore {
  async fn load(&self, key: &str) -> Result<Option<Snapshot>> {
    let state = lock(&self.state);
    Ok(state.stored.get(key).map(|found| Snapshot {
      meta: found.meta.clone(),
      tar: stream::iter(found.pieces.clone()).map(Ok).boxed(),
    }))
  }

  async fn save(&self, key: &str, meta: SnapshotMeta, mut tar: TarStream) -> Result<()> {
    let mut room = Room { state: Arc::clone(&self.state), taken: 0, max_bytes: self.max_bytes };
    let mut pieces = Vec::new();
    let mut piece = BytesMut::new();
    while let Some(chunk) = tar.next().await {
      let mut chunk = chunk?;
      room.take(chunk.len() as u64)?;
      while !chunk.is_empty() {
        let part = chunk.split_to(chunk.len().min(PIECE_BYTES - piece.len()));
        piece.extend_from_slice(&part);
        if piece.len() == PIECE_BYTES {
          pieces.push(std::mem::take(&mut piece).freeze());
        }
      }
    }
    if !piece.is_empty() {
      pieces.push(piece.freeze());
    }
    room.keep(key, meta, pieces);
    Ok(())
  }

  async fn remove(&self, key: &str) -> Result<()> {
    let mut state = lock(&self.state);
    if let Some(removed) = state.stored.remove(key) {
      state.used = state.used.saturating_sub(removed.size);
    }
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::error::ErrorCode;

  fn meta(created_at: u64) -> SnapshotMeta {
    SnapshotMeta { run_id: "run".into(), fingerprint: "sha256:00".into(), created_at }
  }

  fn tar(chunks: Vec<Result<Bytes>>) -> TarStream {
    stream::iter(chunks).boxed()
  }

  fn bytes(count: usize, byte: u8) -> Result<Bytes> {
    Ok(vec![byte; count].into())
  }

  async fn loaded(store: &MemorySnapshotStore, key: &str) -> Option<(u64, Vec<u8>)> {
    let snapshot = store.load(key).await.unwrap()?;
    let contents = snapshot.tar.map(|chunk| chunk.unwrap().to_vec()).concat().await;
    Some((snapshot.meta.created_at, contents))
  }

  fn used(store: &MemorySnapshotStore) -> u64 {
    lock(&store.state).used
  }

  #[tokio::test]
  async fn keeps_and_replaces_and_removes() {
    let store = MemorySnapshotStore::new();
    assert_eq!(loaded(&store, "k").await, None);
    store.save("k", meta(1), tar(vec![bytes(1, 1), bytes(0, 9), bytes(600_000, 2)])).await.unwrap();
    let expected = [vec![1], vec![2; 600_000]].concat();
    assert_eq!(loaded(&store, "k").await, Some((1, expected)));
    store.save("k", meta(2), tar(vec![])).await.unwrap();
    assert_eq!(loaded(&store, "k").await, Some((2, vec![])));
    assert_eq!(used(&store), 0);
    store.remove("k").await.unwrap();
    store.remove("k").await.unwrap();
    assert_eq!(loaded(&store, "k").await, None);
  }

  #[tokio::test]
  async fn a_failed_save_changes_nothing() {
    let store = MemorySnapshotStore::with_capacity(10);
    store.save("k", meta(1), tar(vec![bytes(4, 1)])).await.unwrap();
    let broken = tar(vec![bytes(3, 2), Err(fail!(DockerApi, "stream lost"))]);
    assert_eq!(store.save("k", meta(2), broken).await.unwrap_err().message(), "stream lost");
    assert_eq!(loaded(&store, "k").await, Some((1, vec![1; 4])));
    assert_eq!(used(&store), 4);
  }

  #[tokio::test]
  async fn room_is_bounded_at_the_limit_and_one_past_it() {
    let store = MemorySnapshotStore::with_capacity(10);
    store.save("a", meta(1), tar(vec![bytes(4, 1)])).await.unwrap();
    store.save("b", meta(1), tar(vec![bytes(6, 1)])).await.unwrap();
    let error = store.save("c", meta(1), tar(vec![bytes(1, 1)])).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Limit);
    assert_eq!(loaded(&store, "c").await, None);
    store.remove("b").await.unwrap();
    assert_eq!(used(&store), 4);
    store.save("c", meta(1), tar(vec![bytes(6, 1)])).await.unwrap();
  }

  #[tokio::test]
  async fn what_is_being_written_counts_and_is_given_back() {
    let store = MemorySnapshotStore::with_capacity(10);
    let endless = stream::iter([bytes(8, 1)]).chain(stream::pending()).boxed();
    let mut first = store.save("a", meta(1), endless);
    assert!(futures_util::poll!(&mut first).is_pending());
    assert_eq!(used(&store), 8);
    let error = store.save("b", meta(1), tar(vec![bytes(3, 1)])).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Limit);
    drop(first);
    assert_eq!(used(&store), 0);
    store.save("b", meta(1), tar(vec![bytes(10, 1)])).await.unwrap();
  }
}
