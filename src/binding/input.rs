//! The input of a command that JavaScript writes while it runs.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use napi::bindgen_prelude::{Env, Uint8Array};
use napi_derive::napi;
use tokio::sync::{Mutex, mpsc};

use super::convert::copy;
use super::outcome::{Promised, spawn};
use crate::docker::Stdin;
use crate::error::{Error, fail};

/// Pieces on their way: one that the command has not taken holds up the next.
const QUEUE: usize = 1;

/// A piece, or the end of the input.
type Part = Option<Bytes>;

/// Standard input for one command.
#[napi]
pub struct InputPipe {
  parts: Arc<Mutex<Option<mpsc::Sender<Part>>>>,
  queue: SyncMutex<Option<mpsc::Receiver<Part>>>,
}

impl Default for InputPipe {
  fn default() -> Self {
    let (parts, queue) = mpsc::channel(QUEUE);
    Self { parts: Arc::new(Mutex::new(Some(parts))), queue: SyncMutex::new(Some(queue)) }
  }
}

impl InputPipe {
  /// The end that a command reads; nothing the second time.
  pub(super) fn stdin(&self) -> Stdin {
    // No code panics while it holds the lock.
    let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(queue) = queue else { return Stdin::Empty };
    let pieces = futures_util::stream::unfold(queue, |mut queue| async move {
      match queue.recv().await {
        Some(part) => part.map(|piece| (Ok(piece), queue)),
        // JavaScript forgot the writing end without ending the input: that says nothing.
        None => std::future::pending().await,
      }
    });
    Stdin::Stream(pieces.boxed())
  }
}

#[napi]
impl InputPipe {
  /// An open one.
  #[napi(constructor)]
  pub fn new() -> Self {
    Self::default()
  }

  /// Passes the next piece on; resolves when there is room for another.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn write<'env>(&self, env: &'env Env, chunk: Uint8Array) -> Promised<'env, Option<u32>> {
    let (piece, parts) = (copy(&chunk), Arc::clone(&self.parts));
    spawn(env, async move {
      // Held while there is no room, so that pieces keep their order.
      let parts = parts.lock().await;
      let Some(sender) = parts.as_ref() else {
        return Err(fail!(Released, "The command's standard input was ended before."));
      };
      sender.send(Some(piece)).await.map_err(|_unread| ended())?;
      Ok(None)
    })
  }

  /// Ends the input behind what was written; the second time changes nothing.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn end<'env>(&self, env: &'env Env) -> Promised<'env, Option<u32>> {
    let parts = Arc::clone(&self.parts);
    spawn(env, async move {
      if let Some(sender) = parts.lock().await.take() {
        // A command that has ended needs no end of its input.
        sender.send(None).await.ok();
      }
      Ok(None)
    })
  }
}

fn ended() -> Error {
  fail!(Released, "Nothing reads the command's standard input any more: it has ended.")
}
