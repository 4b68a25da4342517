//! An operation whose output is taken by somebody who may be slow, or never come.

use std::future::Future;

use super::{Operation, Source};
use crate::cancel::Cancel;
use crate::docker::Stdin;
use crate::error::{Result, fail};
use crate::supervisor::link::Event;
use crate::supervisor::wire::Reply;

/// Who takes the output.
pub trait Sink: Send {
  /// Whether more output is welcome now.
  fn has_room(&self) -> bool;
  /// Waits for that.
  fn room(&self) -> impl Future<Output = ()> + Send;
  /// Takes an event. Output comes only where there was room.
  fn take(&mut self, event: Event) -> Result<()>;
}

/// One that always has room.
pub(super) struct Roomy<F>(pub F);

impl<F: FnMut(Event) -> Result<()> + Send> Sink for Roomy<F> {
  fn has_room(&self) -> bool {
    true
  }

  fn room(&self) -> impl Future<Output = ()> + Send {
    std::future::ready(())
  }

  fn take(&mut self, event: Event) -> Result<()> {
    (self.0)(event)
  }
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
    let mut source = Source::new(stdin);
    loop {
      let (roomy, window) = (sink.has_room(), self.room());
      let event = tokio::select! {
        biased;
        () = cancel.cancelled() => return self.stop(what, sink).await,
        event = self.next_of(roomy) => event?,
        () = sink.room(), if !roomy => continue,
        piece = source.next(window) => {
          let piece = piece?;
          tokio::select! {
            biased;
            () = cancel.cancelled() => return self.stop(what, sink).await,
            fed = self.feed(piece) => fed?,
          }
          continue;
        }
      };
      match event {
        // Contents of which not all was sent are not where they belong, whoever says so.
        Event::Done(reply) if source.open && reply.is_of_all_input() => {
          let error = fail!(
            ContainerLost,
            "The sandbox's process 1 took half of something for the whole: it is not, or no longer, our supervisor. The session ends here."
          );
          self.link.shared().break_off(error.clone());
          return Err(error);
        }
        Event::Done(reply) => return Ok(reply),
        event => sink.take(event)?,
      }
    }
  }

  async fn next_of(&mut self, roomy: bool) -> Result<Event> {
    if roomy {
      return self.next().await;
    }
    let Some(event) = self.inbox.next_control().await else { return Err(self.link.shared().reason()) };
    if let Event::Credit(limit) = event {
      self.input.raise(limit);
    }
    Ok(event)
  }
}
