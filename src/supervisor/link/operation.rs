//! One operation of a link, from its request to its last word.

mod paced;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::{Event, Link, initial_window};
use crate::cancel::Cancel;
use crate::docker::Stdin;
use crate::error::{Result, fail};
use crate::supervisor::wire::{Credit, Data, MAX_DATA, Reply, SendWindow, Stream, ToInside};

pub use paced::Sink;

/// An operation that was cancelled ends with its last word. One that does not within this time leaves the link broken:
/// the supervisor cannot end the command, and the container has to go.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// A running operation. Dropping it cancels it.
pub struct Operation {
  link: Link,
  op: u64,
  events: mpsc::UnboundedReceiver<Event>,
  /// What came while only control was asked for.
  held: VecDeque<Event>,
  input: SendWindow,
  input_ended: bool,
  done: bool,
}

impl Operation {
  pub(super) const fn new(link: Link, op: u64, events: mpsc::UnboundedReceiver<Event>) -> Self {
    Self {
      link,
      op,
      events,
      held: VecDeque::new(),
      input: SendWindow::new(initial_window()),
      input_ended: false,
      done: false,
    }
  }

  /// The next event. A piece of output counts as read when this returns it.
  pub async fn next(&mut self) -> Result<Event> {
    let event = match self.held.pop_front() {
      Some(event) => event,
      None => self.events.recv().await.ok_or_else(|| self.link.shared().reason())?,
    };
    match &event {
      Event::Data(stream, bytes) => {
        if let Some(limit) = self.link.shared().consumed(self.op, *stream, bytes.len() as u64) {
          self.link.shared().send(&ToInside::Credit(Credit { stream: *stream, limit }), self.op).await?;
        }
      }
      Event::Credit(limit) => self.input.raise(*limit),
      Event::Done(_) => self.done = true,
      Event::Started(_) | Event::End(_) | Event::Exited(_) => {}
    }
    Ok(event)
  }

  /// The next event that no reader of output has to make room for. What such a reader must take waits, within the windows.
  async fn next_control(&mut self) -> Result<Event> {
    loop {
      match self.events.recv().await {
        Some(Event::Credit(limit)) => {
          self.input.raise(limit);
          return Ok(Event::Credit(limit));
        }
        Some(event @ (Event::Started(_) | Event::Exited(_))) => return Ok(event),
        Some(event) => self.held.push_back(event),
        None => return Err(self.link.shared().reason()),
      }
    }
  }

  /// Goes on until the last word, with `stdin` as its input, every event to `sink`. On cancellation the operation is
  /// stopped inside, and the error is `CANCELLED`.
  pub async fn run(
    mut self,
    stdin: Stdin,
    what: &str,
    cancel: &Cancel,
    mut sink: impl FnMut(Event) -> Result<()>,
  ) -> Result<Reply> {
    let mut source = Source::new(stdin);
    loop {
      let wants_input = self.wants_input();
      let event = tokio::select! {
        biased;
        () = cancel.cancelled() => return self.stop(what).await,
        event = self.next() => event?,
        piece = source.next(wants_input) => {
          self.feed(piece?).await?;
          continue;
        }
      };
      match event {
        Event::Done(reply) => return Ok(reply),
        event => sink(event)?,
      }
    }
  }

  const fn wants_input(&self) -> bool {
    !self.input_ended && self.input.room() > 0
  }

  async fn feed(&mut self, piece: Option<Bytes>) -> Result<()> {
    let Some(mut piece) = piece else {
      self.input_ended = true;
      return self.link.shared().send(&ToInside::End(Stream::Input), self.op).await;
    };
    while !piece.is_empty() {
      let room = usize::try_from(self.input.room()).unwrap_or(usize::MAX);
      if room == 0 {
        self.wait_for_room().await?;
        if self.input_ended {
          return Ok(());
        }
        continue;
      }
      let bytes = piece.split_to(piece.len().min(room).min(MAX_DATA));
      let data = Data { stream: Stream::Input, offset: self.input.sent(), bytes: &bytes };
      self.link.shared().send(&ToInside::Data(data), self.op).await?;
      self.input.advance(bytes.len() as u64);
    }
    Ok(())
  }

  /// Pieces are cut to the room that there is before they get here, so this is for the rare larger one.
  async fn wait_for_room(&mut self) -> Result<()> {
    match self.next().await? {
      Event::Done(_) => {
        self.input_ended = true;
        Ok(())
      }
      _ => Ok(()),
    }
  }

  async fn stop(mut self, what: &str) -> Result<Reply> {
    self.link.shared().send(&ToInside::Cancel, self.op).await?;
    let deadline = Instant::now() + CANCEL_TIMEOUT;
    loop {
      match timeout_at(deadline, self.next()).await {
        Ok(Ok(Event::Done(_))) => return Err(crate::cancel::cancelled(what)),
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(error),
        // Frozen, it is stopped when it thaws.
        Err(_elapsed) if self.link.is_frozen().await => return Err(crate::cancel::cancelled(what)),
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

impl Drop for Operation {
  fn drop(&mut self) {
    if self.done {
      return;
    }
    let shared = self.link.shared();
    shared.slots().operations.remove(&self.op);
    // Whoever stops listening stops the work.
    shared.send_lazily(&ToInside::Cancel, self.op);
  }
}

/// Where an operation's input comes from.
enum Source {
  Pieces(crate::docker::ByteStream),
  Bytes(Bytes),
  Ended,
}

impl Source {
  fn new(stdin: Stdin) -> Self {
    match stdin {
      Stdin::Empty => Self::Ended,
      Stdin::Bytes(bytes) => Self::Bytes(bytes),
      Stdin::Stream(pieces) => Self::Pieces(pieces),
    }
  }

  /// The next piece, `None` once at the end; never resolves while nothing is wanted or nothing comes any more.
  async fn next(&mut self, wanted: bool) -> Result<Option<Bytes>> {
    if !wanted {
      return std::future::pending().await;
    }
    match self {
      Self::Ended => std::future::pending().await,
      Self::Bytes(bytes) if bytes.is_empty() => {
        *self = Self::Ended;
        Ok(None)
      }
      Self::Bytes(bytes) => Ok(Some(bytes.split_to(bytes.len().min(MAX_DATA)))),
      Self::Pieces(pieces) => match pieces.next().await {
        Some(piece) => piece.map(Some),
        None => {
          *self = Self::Ended;
          Ok(None)
        }
      },
    }
  }
}
