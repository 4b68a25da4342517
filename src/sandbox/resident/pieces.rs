//! Bytes on their way out, piece by piece: a file, or the workspace as a tar.

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::files::output;
use super::unexpected;
use super::watch::{Patience, Watch};
use crate::cancel::Cancel;
use crate::docker::ByteStream;
use crate::error::{Error, Result};
use crate::supervisor::link::{Event, Link, Operation};
use crate::supervisor::wire::{Failed, Reply};

/// An operation whose output somebody reads at a pace of their own, which is no matter to process 1's deadlines.
pub(super) struct Pieces<P> {
  pub(super) operation: Operation,
  pub(super) link: Link,
  pub(super) cancel: Cancel,
  /// What is under way, for messages.
  pub(super) what: String,
  pub(super) kind: P,
  /// The most that comes, in bytes.
  pub(super) most: u64,
}

/// What differs between the kinds of output.
pub(super) trait Kind: Send + 'static {
  /// For messages: "a read".
  const NAME: &'static str;
  /// How long process 1 may take.
  const PATIENCE: Patience;
  /// Whether that is for each piece, or for all of them.
  const EACH: bool;

  /// How many bytes the last word says were sent; `None` where it is another operation's.
  fn sent(reply: &Reply) -> Option<u64>;

  /// Why it came to nothing.
  fn failure(&self, failed: Failed) -> Error;
}

impl<P: Kind> Pieces<P> {
  /// The bytes, each piece when it is asked for.
  pub(super) fn stream(self) -> ByteStream {
    let state = (self, Watch::new(P::PATIENCE), 0);
    stream::try_unfold(state, |(mut pieces, mut watch, mut read)| async move {
      let piece = pieces.next(&mut watch, &mut read).await?;
      Ok(piece.map(|bytes| (bytes, (pieces, watch, read))))
    })
    .boxed()
  }

  /// The next piece, `None` behind the last.
  async fn next(&mut self, watch: &mut Watch, read: &mut u64) -> Result<Option<Bytes>> {
    if P::EACH {
      *watch = Watch::new(P::PATIENCE);
    }
    loop {
      let event = self.cancel.guard(&self.what, self.operation.next());
      match watch.over(&self.link, &self.what, event).await? {
        Event::Done(Reply::Failed(failed)) => return Err(self.kind.failure(failed)),
        Event::Done(reply) if P::sent(&reply) == Some(*read) => return Ok(None),
        Event::Done(_) => return Err(unexpected(P::NAME)),
        event => {
          let Some(bytes) = output(event, P::NAME)? else { continue };
          *read = read.saturating_add(bytes.len() as u64);
          return if *read > self.most { Err(unexpected(P::NAME)) } else { Ok(Some(bytes)) };
        }
      }
    }
  }
}
