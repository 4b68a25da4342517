//! Pieces from JavaScript on their way to whoever takes them. A writer that has filled the queue goes on when most of it was
//! taken, not after each piece: every time costs a turn of the event loop.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use tokio::sync::{mpsc, watch};

/// Bytes with which the queue is full; one piece may pass it.
const FULL: usize = 512 * 1024;
/// Bytes with which a full queue has room again.
const ROOM: usize = 128 * 1024;

/// What goes through. The end is said: without that, pieces whose sender is gone would look like all of them.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
  /// Some bytes.
  Piece(Bytes),
  /// There are no more.
  End,
}

/// Nobody takes anything any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Gone;

#[derive(Debug)]
struct Level {
  bytes: AtomicUsize,
  full: watch::Sender<bool>,
}

/// The writing end.
#[derive(Clone, Debug)]
pub struct Writer {
  parts: mpsc::UnboundedSender<Part>,
  level: Arc<Level>,
}

/// The other end.
#[derive(Debug)]
pub struct Reader {
  parts: mpsc::UnboundedReceiver<Part>,
  level: Arc<Level>,
}

/// A queue with nothing in it.
pub fn pieces() -> (Writer, Reader) {
  let (writer, reader) = mpsc::unbounded_channel();
  let level = Arc::new(Level { bytes: AtomicUsize::new(0), full: watch::Sender::new(false) });
  (Writer { parts: writer, level: Arc::clone(&level) }, Reader { parts: reader, level })
}

impl Writer {
  /// Adds a piece. False: [`Self::room`] is to be awaited before the next one.
  pub fn push(&self, piece: Bytes) -> Result<bool, Gone> {
    let size = piece.len();
    let full = self.level.bytes.fetch_add(size, Ordering::AcqRel).saturating_add(size) >= FULL;
    if full {
      // Before the piece is there to be taken: whoever takes it looks at the level afterwards.
      self.level.full.send_replace(true);
    }
    self.parts.send(Part::Piece(piece)).map_err(|_unsent| Gone)?;
    Ok(!full)
  }

  /// Waits for room.
  pub fn room(self) -> BoxFuture<'static, Result<(), Gone>> {
    let waiting = async move {
      let mut full = self.level.full.subscribe();
      tokio::select! {
        biased;
        () = self.parts.closed() => Err(Gone),
        // The sender is part of this.
        _ = full.wait_for(|full| !full) => Ok(()),
      }
    };
    waiting.boxed()
  }

  /// Says that there are no more.
  pub fn end(&self) -> Result<(), Gone> {
    self.parts.send(Part::End).map_err(|_unsent| Gone)
  }
}

/// Its end where none was said: the writer is gone.
impl Stream for Reader {
  type Item = Part;

  fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
    let part = ready!(self.parts.poll_recv(cx));
    if let Some(Part::Piece(piece)) = &part {
      let before = self.level.bytes.fetch_sub(piece.len(), Ordering::AcqRel);
      if before.saturating_sub(piece.len()) <= ROOM {
        self.level.full.send_if_modified(|full| std::mem::replace(full, false));
      }
    }
    Poll::Ready(part)
  }
}

#[cfg(test)]
mod tests {
  use futures_util::StreamExt;

  use super::*;

  fn piece(size: usize) -> Bytes {
    vec![0; size].into()
  }

  #[tokio::test]
  async fn a_full_queue_has_room_once_most_of_it_was_taken() {
    let (writer, mut reader) = pieces();
    let size = ROOM / 2;
    for _ in 1..FULL / size {
      assert_eq!(writer.push(piece(size)), Ok(true));
    }
    assert_eq!(writer.clone().room().now_or_never(), Some(Ok(())));
    assert_eq!(writer.push(piece(size)), Ok(false));
    for _ in ROOM / size..FULL / size {
      assert_eq!(writer.clone().room().now_or_never(), None);
      assert_eq!(reader.next().await, Some(Part::Piece(piece(size))));
    }
    assert_eq!(writer.clone().room().now_or_never(), Some(Ok(())));
  }

  #[tokio::test]
  async fn a_piece_larger_than_the_queue_passes_by_itself() {
    let (writer, mut reader) = pieces();
    assert_eq!(writer.push(piece(2 * FULL)), Ok(false));
    assert_eq!(writer.clone().room().now_or_never(), None);
    assert_eq!(reader.next().await, Some(Part::Piece(piece(2 * FULL))));
    assert_eq!(writer.clone().room().now_or_never(), Some(Ok(())));
  }

  #[tokio::test]
  async fn the_end_is_behind_all_pieces_and_a_writer_that_is_gone_is_none() {
    let (writer, mut reader) = pieces();
    writer.push(piece(1)).unwrap();
    writer.end().unwrap();
    drop(writer);
    assert_eq!(reader.next().await, Some(Part::Piece(piece(1))));
    assert_eq!(reader.next().await, Some(Part::End));
    assert_eq!(reader.next().await, None);
  }

  #[tokio::test]
  async fn a_reader_that_is_gone_ends_the_waiting() {
    let (writer, reader) = pieces();
    assert_eq!(writer.push(piece(FULL)), Ok(false));
    let waiting = {
      let writer = writer.clone();
      tokio::spawn(async move { writer.room().await })
    };
    tokio::task::yield_now().await;
    drop(reader);
    assert_eq!(waiting.await.unwrap(), Err(Gone));
    assert_eq!((writer.push(piece(1)), writer.end()), (Err(Gone), Err(Gone)));
  }

  #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
  async fn nobody_waits_for_ever() {
    let (writer, mut reader) = pieces();
    let size = FULL / 3;
    let reading = tokio::spawn(async move {
      let mut count = 0;
      while let Some(Part::Piece(_)) = reader.next().await {
        count += 1;
      }
      count
    });
    for _ in 0..20_000 {
      if !writer.push(Bytes::from_static(&[0; FULL]).slice(..size)).unwrap() {
        writer.clone().room().await.unwrap();
      }
    }
    writer.end().unwrap();
    assert_eq!(reading.await.unwrap(), 20_000);
  }
}
