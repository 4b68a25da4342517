//! A command's output, or a file's bytes, on the way to a reader who takes it when it likes. What waits here is bounded;
//! the writer asks for room, and holds back the command meanwhile.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use super::Outcome;
use crate::error::{Error, Result, fail};

/// Bytes that wait here before the writer has to stop: what one look of the reader takes.
const HELD_BYTES: usize = BATCH_BYTES;
/// And pieces, so that a command which writes byte by byte costs little more than its bytes.
const HELD_PIECES: usize = 1024;
/// Most bytes that a reader is given at a time, but for a single piece that is larger.
pub const BATCH_BYTES: usize = 64 * 1024;

/// Where a command wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
  /// Standard output. The bytes of files come here too.
  Stdout,
  /// Standard error.
  Stderr,
}

/// Bytes of one stream that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
  /// Where they were written.
  pub stream: OutputStream,
  /// The bytes, at least one.
  pub data: Bytes,
}

/// How a command ended whose output was streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
  /// Its exit code; `None` where it has none or nobody knows it.
  pub exit_code: Option<i64>,
  /// The name of the signal that ended it, where the transport can tell.
  pub signal: Option<&'static str>,
  /// How it ended.
  pub outcome: Outcome,
  /// From the request to the end, our side's clock.
  pub duration: Duration,
}

/// A channel for one command or file.
pub fn output() -> (OutputWriter, OutputReader) {
  let shared = Arc::new(Shared::default());
  (OutputWriter(Arc::clone(&shared)), OutputReader(shared))
}

#[derive(Default)]
struct Shared {
  state: Mutex<State>,
  changed: Notify,
}

#[derive(Default)]
struct State {
  pieces: VecDeque<Piece>,
  waiting: usize,
  passed: u64,
  end: Option<ProcessEnd>,
  closed: Option<Result<()>>,
}

impl State {
  fn has_room(&self) -> bool {
    self.waiting < HELD_BYTES && self.pieces.len() < HELD_PIECES
  }

  /// At least one piece, and more while they are small; neighbours of one stream become one piece.
  fn take(&mut self) -> Vec<Piece> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while let Some(first) = self.pieces.pop_front() {
      let stream = first.stream;
      bytes += first.data.len();
      let mut row = vec![first.data];
      while let Some(next) = self.pieces.pop_front_if(|next| next.stream == stream && fits(bytes, next)) {
        bytes += next.data.len();
        row.push(next.data);
      }
      batch.push(Piece { stream, data: joined(row) });
      if self.pieces.front().is_none_or(|next| !fits(bytes, next)) {
        break;
      }
    }
    self.waiting -= bytes;
    batch
  }
}

fn fits(bytes: usize, next: &Piece) -> bool {
  bytes + next.data.len() <= BATCH_BYTES
}

fn joined(mut row: Vec<Bytes>) -> Bytes {
  match row.pop() {
    Some(only) if row.is_empty() => only,
    last => {
      let row = row.into_iter().chain(last);
      let mut all = BytesMut::new();
      row.for_each(|data| all.extend_from_slice(&data));
      all.freeze()
    }
  }
}

impl Shared {
  fn state(&self) -> MutexGuard<'_, State> {
    // No code panics while it holds the lock, and the state is whole between two uses.
    self.state.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
    let value = change(&mut self.state());
    self.changed.notify_waiters();
    value
  }

  /// Waits until `look` sees what it looks for.
  async fn until<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
    loop {
      let changed = self.changed.notified();
      tokio::pin!(changed);
      // From here on no change is missed.
      changed.as_mut().enable();
      if let Some(found) = look(&mut self.state()) {
        return found;
      }
      changed.await;
    }
  }
}

/// The end that is written to. Its reader sees an error if it is dropped before [`Self::close`].
pub struct OutputWriter(Arc<Shared>);

impl OutputWriter {
  /// Whether the reader has caught up so far that more is welcome.
  pub fn has_room(&self) -> bool {
    self.0.state().has_room()
  }

  /// Waits for that.
  pub fn room(&self) -> impl Future<Output = ()> + Send + '_ {
    self.0.until(|state| state.has_room().then_some(()))
  }

  /// Adds a piece, room or not.
  pub fn push(&self, stream: OutputStream, data: Bytes) {
    if data.is_empty() {
      return;
    }
    self.0.change(|state| {
      state.waiting += data.len();
      state.passed = state.passed.saturating_add(data.len() as u64);
      state.pieces.push_back(Piece { stream, data });
    });
  }

  /// Bytes that passed in all.
  pub fn passed(&self) -> u64 {
    self.0.state().passed
  }

  /// The command is gone; some of its output may still be on the way. The first call counts.
  pub fn exited(&self, end: ProcessEnd) {
    self.0.change(|state| state.end = state.end.take().or(Some(end)));
  }

  /// Waits until the command is gone.
  pub fn has_exited(&self) -> impl Future<Output = Result<()>> + Send + '_ {
    self.0.until(|state| state.end.is_some().then_some(Ok(())))
  }

  /// There is no more, or an error in place of the rest.
  pub fn close(self, result: Result<()>) {
    self.shut(|| result);
  }

  fn shut(&self, result: impl FnOnce() -> Result<()>) {
    self.0.change(|state| state.closed = state.closed.take().or_else(|| Some(result())));
  }
}

impl Drop for OutputWriter {
  fn drop(&mut self) {
    self.shut(|| Err(fail!(Internal, "The output of the sandbox broke off. Please report this.")));
  }
}

/// The end that is read.
#[derive(Clone)]
pub struct OutputReader(Arc<Shared>);

impl OutputReader {
  /// What came, at most [`BATCH_BYTES`] unless one piece alone is larger; `None` at the end. An error outruns what still
  /// waits.
  pub async fn next(&self) -> Result<Option<Vec<Piece>>> {
    let taken = self.0.until(|state| match &state.closed {
      Some(Err(error)) => Some(Err(error.clone())),
      _ if !state.pieces.is_empty() => Some(Ok(Some(state.take()))),
      Some(Ok(())) => Some(Ok(None)),
      None => None,
    });
    let taken = taken.await;
    self.0.changed.notify_waiters();
    taken
  }

  /// How the command ended, as soon as it did, its output read or not.
  pub async fn end(&self) -> Result<ProcessEnd> {
    let found = self.0.until(|state| match (&state.end, &state.closed) {
      (Some(end), _) => Some(Ok(end.clone())),
      (None, Some(Err(error))) => Some(Err(error.clone())),
      (None, Some(Ok(()))) => Some(Err(no_end())),
      (None, None) => None,
    });
    found.await
  }

  /// Waits until nothing is written any more.
  pub async fn closed(&self) {
    self.0.until(|state| state.closed.is_some().then_some(())).await;
  }
}

fn no_end() -> Error {
  fail!(Internal, "The sandbox did not say how a command ended. Please report this.")
}

#[cfg(test)]
mod tests;
