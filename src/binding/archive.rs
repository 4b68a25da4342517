//! Archives piece by piece: JavaScript pushes or pulls, one piece at a time, so that memory does not grow.

use std::future::Future;
use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Shared};
use futures_util::{FutureExt, StreamExt};
use napi::bindgen_prelude::{Either, Env, Uint8Array};
use napi_derive::napi;
use tokio::sync::{Mutex, oneshot};

use super::convert::copy;
use super::outcome::{Outcome, Promised, spawn};
use super::pieces::{Part, Reader, Writer, pieces};
use crate::cancel::{Cancel, cancelled};
use crate::docker::{ByteStream, Engine};
use crate::error::{Result, fail};

/// An archive that JavaScript writes into a container or a store.
#[napi]
pub struct ArchiveUpload {
  parts: SyncMutex<Option<Writer>>,
  done: Shared<BoxFuture<'static, Result<()>>>,
  cancel: Cancel,
}

impl ArchiveUpload {
  /// Begins `work` on the archive that is about to come. `what` names that for messages.
  pub fn start<F>(what: &'static str, work: impl FnOnce(ByteStream) -> F) -> Self
  where
    F: Future<Output = Result<()>> + Send + 'static,
  {
    let (parts, queue) = pieces();
    let work = work(body(what, queue));
    let cancel = Cancel::new();
    let put = cancel.clone();
    let (tell, told) = oneshot::channel();
    napi::bindgen_prelude::spawn(async move {
      // Nobody may listen any more.
      tell.send(put.guard(what, work).await).ok();
    });
    let done = async move {
      told.await.unwrap_or_else(|error| Err(fail!(Internal, "{what} failed.").with_source(error)))
    };
    Self { parts: SyncMutex::new(Some(parts)), done: done.boxed().shared(), cancel }
  }
}

impl ArchiveUpload {
  fn parts(&self) -> MutexGuard<'_, Option<Writer>> {
    // No code panics while it holds the lock.
    self.parts.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn writer(&self) -> Option<Writer> {
    self.parts().clone()
  }
}

fn body(what: &'static str, queue: Reader) -> ByteStream {
  let parts = futures_util::stream::unfold(Some(queue), move |queue| async move {
    let mut queue = queue?;
    match queue.next().await {
      Some(Part::Piece(piece)) => Some((Ok(piece), Some(queue))),
      Some(Part::End) => None,
      None => Some((Err(cancelled(what)), None)),
    }
  });
  parts.boxed()
}

#[napi]
impl ArchiveUpload {
  /// Passes the next piece on. False: the next one waits for `room`.
  #[napi(catch_unwind, ts_return_type = "Failure | boolean")]
  pub fn push(&self, chunk: Uint8Array) -> Outcome<bool> {
    let Some(writer) = self.writer() else {
      return Either::A(fail!(Released, "This archive was finished before.").into());
    };
    // Where the other side has ended it early, `room` says why.
    Either::B(writer.push(copy(&chunk)).unwrap_or(false))
  }

  /// Resolves when there is room for another piece.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn room<'env>(&self, env: &'env Env) -> Promised<'env, Option<u32>> {
    let (writer, done) = (self.writer(), self.done.clone());
    spawn(env, async move {
      let gone = match writer {
        Some(writer) => writer.room().await.is_err(),
        None => false,
      };
      if gone {
        done.await?;
      }
      Ok(None)
    })
  }

  /// Ends the archive and waits until it is unpacked or kept.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn finish<'env>(&self, env: &'env Env) -> Promised<'env, Option<u32>> {
    if let Some(writer) = self.parts().take() {
      // The other side may have ended it; the result says why.
      writer.end().ok();
    }
    let done = self.done.clone();
    spawn(env, async move { done.await.map(|()| None) })
  }

  /// Waits until the other side has ended, whoever ended it.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn closed<'env>(&self, env: &'env Env) -> Promised<'env, Option<u32>> {
    let done = self.done.clone();
    spawn(env, async move { done.await.map(|()| None) })
  }

  /// Gives it up.
  #[napi(catch_unwind)]
  pub fn abort(&self) {
    self.cancel.cancel();
  }
}

enum Reading {
  Wanted { engine: Arc<dyn Engine>, id: String, path: String, max_bytes: u64 },
  Open(ByteStream),
  Ended,
}

/// An archive that JavaScript reads from a container or a store.
#[napi]
#[derive(Clone)]
pub struct ArchiveDownload {
  reading: Arc<Mutex<Reading>>,
  cancel: Cancel,
}

impl ArchiveDownload {
  /// Begins at the first `next`.
  pub fn new(engine: Arc<dyn Engine>, id: String, path: String, max_bytes: u64) -> Self {
    let reading = Reading::Wanted { engine, id, path, max_bytes };
    Self { reading: Arc::new(Mutex::new(reading)), cancel: Cancel::new() }
  }

  /// One that is open.
  pub fn of(stream: ByteStream) -> Self {
    Self { reading: Arc::new(Mutex::new(Reading::Open(stream))), cancel: Cancel::new() }
  }
}

#[napi]
impl ArchiveDownload {
  /// The next piece, or null at the end.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | Uint8Array | null>")]
  pub fn next<'env>(&self, env: &'env Env) -> Promised<'env, Option<Uint8Array>> {
    let (reading, cancel) = (Arc::clone(&self.reading), self.cancel.clone());
    spawn(env, async move {
      let mut reading = reading.lock().await;
      let piece = cancel.guard("Reading an archive", advance(&mut reading)).await;
      if !matches!(piece, Ok(Some(_))) {
        *reading = Reading::Ended;
      }
      piece.map(|piece| piece.map(|piece| Vec::from(piece).into()))
    })
  }

  /// Stops reading.
  #[napi(catch_unwind)]
  pub fn cancel(&self) {
    self.cancel.cancel();
    if let Ok(mut reading) = self.reading.try_lock() {
      *reading = Reading::Ended;
    }
  }
}

async fn advance(reading: &mut Reading) -> Result<Option<Bytes>> {
  if let Reading::Wanted { engine, id, path, max_bytes } = reading {
    *reading = Reading::Open(engine.get_archive(id, path, *max_bytes).await?);
  }
  match reading {
    Reading::Open(stream) => stream.next().await.transpose(),
    Reading::Ended => Ok(None),
    Reading::Wanted { .. } => Err(cancelled("Reading an archive")),
  }
}
