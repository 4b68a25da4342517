//! An operation whose output is taken by somebody who may be slow, or never come.

use std::future::Future;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::{CANCEL_TIMEOUT, Operation};
use crate::cancel::{Cancel, cancelled};
use crate::docker::{ByteStream, Stdin};
use crate::error::{Result, fail};
use crate::supervisor::link::Event;
use crate::supervisor::wire::{Data, MAX_DATA, Reply, Stream, ToInside};

/// Who takes the output.
pub trait Sink: Send {
  /// Whether more output is welcome now.
  fn has_room(&self) -> bool;
  /// Waits for that.
  fn room(&self) -> impl Future<Output = ()> + Send;
  /// Takes an event. Output comes only where there was room.
  fn take(&mut self, event: Event) -> Result<()>;
}

impl Operation {
  /// Goes on until the last word, with `stdin` as its input. Without room in `sink` the operation may send what its windows
  /// allow and is then held back; its input goes on, and its end is told all the same. On cancellation it is stopped
  /// inside, what it sent and was not taken is dropped, and the error is `CANCELLED`.
  pub async fn run_paced(
    mut self,
    stdin: Stdin,
    what: &str,
    cancel: &Cancel,
    sink: &mut impl Sink,
  ) -> Result<Reply> {
    let mut input = Input::new(stdin);
    loop {
      let (roomy, window) = (sink.has_room(), self.input_room());
      let event = tokio::select! {
        biased;
        () = cancel.cancelled() => return self.stop_paced(what, sink).await,
        event = self.next_of(roomy) => event?,
        piece = input.next(window) => {
          self.feed_paced(piece?).await?;
          continue;
        }
        () = sink.room(), if !roomy => continue,
      };
      match event {
        Event::Done(reply) => return Ok(reply),
        event => sink.take(event)?,
      }
    }
  }

  async fn next_of(&mut self, roomy: bool) -> Result<Event> {
    if roomy { self.next().await } else { self.next_control().await }
  }

  /// How many bytes of input may be sent now, in one piece.
  fn input_room(&self) -> usize {
    if self.input_ended {
      return 0;
    }
    usize::try_from(self.input.room()).unwrap_or(MAX_DATA).min(MAX_DATA)
  }

  /// Sends a piece that fits, or the end of the input.
  async fn feed_paced(&mut self, piece: Option<Bytes>) -> Result<()> {
    let Some(bytes) = piece else {
      self.input_ended = true;
      return self.link.shared().send(&ToInside::End(Stream::Input), self.op).await;
    };
    let data = Data { stream: Stream::Input, offset: self.input.sent(), bytes: &bytes };
    self.link.shared().send(&ToInside::Data(data), self.op).await?;
    self.input.advance(bytes.len() as u64);
    Ok(())
  }

  /// Stops the operation and waits for its last word. How a command ended, which may be another way, is told.
  async fn stop_paced(mut self, what: &str, sink: &mut impl Sink) -> Result<Reply> {
    self.link.shared().send(&ToInside::Cancel, self.op).await?;
    let deadline = Instant::now() + CANCEL_TIMEOUT;
    loop {
      match timeout_at(deadline, self.next()).await {
        Ok(Ok(Event::Done(_))) => return Err(cancelled(what)),
        Ok(Ok(event @ Event::Exited(_))) => sink.take(event)?,
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(error),
        // Frozen, it is stopped when it thaws.
        Err(_elapsed) if self.link.is_frozen().await => return Err(cancelled(what)),
        Err(_elapsed) => {
          let error =
            fail!(ContainerLost, "{what} could not be stopped within {} s.", CANCEL_TIMEOUT.as_secs());
          self.link.shared().break_off(error.clone());
          return Err(error);
        }
      }
    }
  }
}

/// Where the input comes from.
struct Input {
  /// What came and does not fit yet.
  rest: Bytes,
  more: Option<ByteStream>,
  /// Its end is still to be said.
  open: bool,
}

impl Input {
  fn new(stdin: Stdin) -> Self {
    match stdin {
      Stdin::Empty => Self { rest: Bytes::new(), more: None, open: false },
      Stdin::Bytes(rest) => Self { rest, more: None, open: true },
      Stdin::Stream(pieces) => Self { rest: Bytes::new(), more: Some(pieces), open: true },
    }
  }

  /// The next piece, at most `room` bytes, `None` once at the end; never resolves without room, or when nothing comes any
  /// more. Nothing is lost when this is dropped.
  async fn next(&mut self, room: usize) -> Result<Option<Bytes>> {
    if room == 0 || !self.open {
      return std::future::pending().await;
    }
    while self.rest.is_empty() {
      let Some(pieces) = &mut self.more else {
        self.open = false;
        return Ok(None);
      };
      match pieces.next().await {
        Some(piece) => self.rest = piece?,
        None => self.more = None,
      }
    }
    Ok(Some(self.rest.split_to(self.rest.len().min(room))))
  }
}
