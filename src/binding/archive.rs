//! Archives piece by piece: JavaScript pushes or pulls, one piece at a time, so that memory does not grow.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, Shared};
use futures_util::{FutureExt, StreamExt};
use napi::bindgen_prelude::{Env, Uint8Array};
use napi_derive::napi;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::convert::copy;
use super::outcome::{Promised, spawn};
use crate::cancel::{Cancel, cancelled};
use crate::docker::{ArchiveBody, ByteStream, Engine};
use crate::error::{Result, fail};

/// Pieces on their way to the engine.
const QUEUE: usize = 4;

type Pieces = mpsc::Sender<Result<Bytes>>;

/// An archive that JavaScript writes into a container.
#[napi]
pub struct ArchiveUpload {
  pieces: Arc<Mutex<Option<Pieces>>>,
  done: Shared<BoxFuture<'static, Result<()>>>,
  cancel: Cancel,
}

impl ArchiveUpload {
  /// Begins to unpack below `path`.
  pub fn start(engine: Arc<dyn Engine>, id: String, path: String) -> Self {
    let (pieces, mut queue) = mpsc::channel::<Result<Bytes>>(QUEUE);
    let body = futures_util::stream::poll_fn(move |context| queue.poll_recv(context)).boxed();
    let cancel = Cancel::new();
    let put = cancel.clone();
    let (tell, told) = oneshot::channel();
    napi::bindgen_prelude::spawn(async move {
      let unpacking = engine.put_archive(&id, &path, ArchiveBody::Stream(body));
      // Nobody may listen any more.
      tell.send(put.guard("Unpacking an archive", unpacking).await).ok();
    });
    let done = async move {
      told
        .await
        .unwrap_or_else(|error| Err(fail!(Internal, "Unpacking an archive failed.").with_source(error)))
    };
    Self { pieces: Arc::new(Mutex::new(Some(pieces))), done: done.boxed().shared(), cancel }
  }
}

#[napi]
impl ArchiveUpload {
  /// Passes the next piece on; resolves when there is room for another.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn write<'env>(&self, env: &'env Env, chunk: Uint8Array) -> Promised<'env, Option<u32>> {
    let (piece, pieces, done) = (copy(&chunk), Arc::clone(&self.pieces), self.done.clone());
    spawn(env, async move {
      let pieces = pieces.lock().await;
      let Some(sender) = pieces.as_ref() else {
        return Err(fail!(Released, "This archive was finished before."));
      };
      if sender.send(Ok(piece)).await.is_err() {
        // The engine ended it early; the result says why.
        done.await?;
      }
      Ok(None)
    })
  }

  /// Ends the archive and waits until it is unpacked.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn finish<'env>(&self, env: &'env Env) -> Promised<'env, Option<u32>> {
    let (pieces, done) = (Arc::clone(&self.pieces), self.done.clone());
    spawn(env, async move {
      drop(pieces.lock().await.take());
      done.await.map(|()| None)
    })
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

/// An archive that JavaScript reads from a container.
#[napi]
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
