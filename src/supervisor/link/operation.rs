//! One operation of a link, from its request to its last word.

mod paced;

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;

use super::inbox::Inbox;
use super::outgoing::Hurry;
use super::{Event, Link, initial_window};
use crate::awake::within;
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
  inbox: Inbox,
  input: SendWindow,
  input_ended: bool,
  done: bool,
}

impl Operation {
  pub(super) const fn new(link: Link, op: u64, inbox: Inbox) -> Self {
    Self { link, op, inbox, input: SendWindow::new(initial_window()), input_ended: false, done: false }
  }

  /// The next event. A piece of output counts as read when this returns it. Nothing is lost when this is dropped.
  pub async fn next(&mut self) -> Result<Event> {
    let Some((event, grant)) = self.inbox.next().await else { return Err(self.link.shared().reason()) };
    match &event {
      Event::Data(stream, _) => {
        if let Some(limit) = grant {
          let credit = ToInside::Credit(Credit { stream: *stream, limit });
          self.link.shared().send_small(Hurry::Now, &credit, self.op);
        }
      }
      Event::Credit(limit) => self.input.raise(*limit),
      Event::Done(_) => self.done = true,
      Event::Started(_) | Event::End(_) | Event::Exited(_) => {}
    }
    Ok(event)
  }

  /// [`Self::run_paced`] with a `sink` that takes whatever comes.
  pub async fn run(
    self,
    stdin: Stdin,
    what: &str,
    cancel: &Cancel,
    sink: impl FnMut(Event) -> Result<()> + Send,
  ) -> Result<Reply> {
    self.run_paced(stdin, what, cancel, &mut paced::Roomy(sink)).await
  }

  /// How many bytes of input may be sent now, in one piece.
  fn room(&self) -> usize {
    if self.input_ended {
      return 0;
    }
    usize::try_from(self.input.room()).unwrap_or(MAX_DATA).min(MAX_DATA)
  }

  /// Sends a piece of the input that fits into [`Self::room`], or its end.
  async fn feed(&mut self, piece: Option<Bytes>) -> Result<()> {
    let Some(bytes) = piece else {
      self.input_ended = true;
      return self.link.shared().send(&ToInside::End(Stream::Input), self.op).await;
    };
    let data = Data { stream: Stream::Input, offset: self.input.sent(), bytes: &bytes };
    self.link.shared().send(&ToInside::Data(data), self.op).await?;
    self.input.advance(bytes.len() as u64);
    Ok(())
  }

  /// Stops it inside and waits for its last word. Of what is told before that, `sink` sees how a command ended, which may
  /// have been before it was stopped.
  async fn stop(mut self, what: &str, sink: &mut impl Sink) -> Result<Reply> {
    self.link.shared().cancel(self.op);
    match within(CANCEL_TIMEOUT, self.last_word(sink)).await {
      Some(told) => told?,
      // It is stopped when it thaws.
      None if self.link.is_frozen().await => {}
      None => {
        let error =
          fail!(ContainerLost, "An operation could not be stopped within {} s.", CANCEL_TIMEOUT.as_secs());
        self.link.shared().break_off(error.clone());
        return Err(error);
      }
    }
    Err(crate::cancel::cancelled(what))
  }

  async fn last_word(&mut self, sink: &mut impl Sink) -> Result<()> {
    loop {
      match self.next().await? {
        Event::Done(_) => return Ok(()),
        event @ Event::Exited(_) => sink.take(event)?,
        _ => {}
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
    shared.send_small(Hurry::Now, &ToInside::Cancel, self.op);
  }
}

/// Where an operation's input comes from.
struct Source {
  /// What came and does not fit yet.
  rest: Bytes,
  more: Option<crate::docker::ByteStream>,
  /// Its end is still to be said.
  open: bool,
}

impl Source {
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
