//! How a link comes about: by attaching to process 1, or by a stream that is new.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::channels::Channels;
use super::outgoing::Outgoing;
use super::{Identity, Life, Link, Owner, Shared, Slots, pump};
use crate::awake::within;
use crate::cancel::Cancel;
use crate::docker::attach::AttachRead;
use crate::docker::client::Client;
use crate::docker::connection::WriteHalf;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::random;
use crate::supervisor::volume::PROGRAM;
use crate::supervisor::wire::{Encoder, PREAMBLE, Welcome};

/// A supervisor answers a hello in well under a millisecond; one whose container is starved of CPU may need longer.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Without an answer for so long, half a frame of a dead host may be in the way. 60 spinning processes at half a CPU
/// held up process 1 for 34 ms on average and 0.8 s at worst; to say it again for nothing costs 1.3 MiB and does no harm.
const HELLO_AGAIN: Duration = Duration::from_millis(500);
/// And then for so long: whoever is still attached holds up the stream. The first way of two is given up.
const FIRST_WAY: Duration = Duration::from_secs(3);
/// Argument of the program with which it brings a stream to process 1.
const BRIDGE: &str = "bridge";

/// Which way a link came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
  /// Process 1's own input and output.
  Attach,
  /// A stream that a second process in the container handed over.
  Bridge,
}

/// What is known of the holder before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Previous {
  /// There was none, or it is proven dead: its attached stream is closed.
  Gone,
  /// It has not been heard of. It may hang with its stream open.
  Silent,
}

/// One attempt to become the holder. Both ways have the same key, so that a supervisor which took the first one's hello
/// and could not say so takes the second one's as the same again.
#[derive(Clone, Copy)]
struct Attempt<'a> {
  client: &'a Client,
  container: &'a str,
  user: &'a str,
  identity: Identity,
  key: u64,
}

impl Link {
  /// Attaches to `container`, lets `start` start it if it does not run yet, and says hello; a second time after 0.5 s
  /// without an answer. It is left to the caller to compare [`Welcome::digest`] with what must run there.
  ///
  /// # Errors
  ///
  /// `CONFLICT` where the supervisor obeys another holder; `UNSUPPORTED` where nobody answers within 10 s.
  pub async fn open(
    client: &Client,
    container: &str,
    identity: Identity,
    start: impl Future<Output = Result<()>>,
  ) -> Result<Self> {
    Attempt::new(client, container, "", identity)?.attach(HELLO_TIMEOUT, start).await
  }

  /// Becomes the holder of a running container over a fresh stream, whatever hangs on process 1's own. `user` is the
  /// container's, as `uid:gid`.
  ///
  /// # Errors
  ///
  /// `CONFLICT` where the supervisor obeys another holder; `UNSUPPORTED` where the program in the container cannot be
  /// run or does not answer within 10 s; errors of the engine.
  pub async fn bridge(client: &Client, container: &str, user: &str, identity: Identity) -> Result<Self> {
    Attempt::new(client, container, user, identity)?.bridge(HELLO_TIMEOUT).await
  }

  /// Becomes the holder of a running container, the quick way where the one before is gone and the way that it cannot
  /// hold up where it is silent; if that one brings nothing within 3 s, the other. [`Link::via`] says which it was.
  ///
  /// # Errors
  ///
  /// As of [`Link::bridge`]. After a `CONFLICT` the other way is not tried.
  pub async fn take_over(
    client: &Client,
    container: &str,
    user: &str,
    identity: Identity,
    previous: Previous,
  ) -> Result<Self> {
    let attempt = Attempt::new(client, container, user, identity)?;
    let first = match previous {
      Previous::Gone => attempt.attach(FIRST_WAY, running()).await,
      Previous::Silent => attempt.bridge(FIRST_WAY).await,
    };
    match first {
      Err(error) if !matches!(error.code(), ErrorCode::Conflict | ErrorCode::NotFound) => {
        let second = match previous {
          Previous::Gone => attempt.bridge(HELLO_TIMEOUT).await,
          Previous::Silent => attempt.attach(HELLO_TIMEOUT, running()).await,
        };
        second.map_err(|second| second.with_source(error))
      }
      opened => opened,
    }
  }
}

/// There is nothing to start.
async fn running() -> Result<()> {
  Ok(())
}

impl<'a> Attempt<'a> {
  fn new(client: &'a Client, container: &'a str, user: &'a str, identity: Identity) -> Result<Self> {
    let key = random::bytes().map(u64::from_ne_bytes)?;
    Ok(Self { client, container, user, identity, key })
  }

  async fn attach(self, patience: Duration, start: impl Future<Output = Result<()>>) -> Result<Link> {
    // While a host hangs on the stream, engines do not even answer the request to attach.
    let attached = within(patience, self.client.attach(self.container)).await;
    let (read, write) = attached.ok_or_else(|| silent(patience))??;
    let (life, answer) = self.begin(read, write);
    start.await?;
    let link = within(patience, self.greet(life, answer, Via::Attach)).await;
    link.ok_or_else(|| silent(patience))?
  }

  async fn bridge(self, patience: Duration) -> Result<Link> {
    let cmd = [PROGRAM.to_owned(), BRIDGE.to_owned()];
    let bridging = async {
      let (read, write) = self.client.attach_exec(self.container, &cmd, self.user).await?;
      let (life, answer) = self.begin(read, write);
      self.greet(life, answer, Via::Bridge).await
    };
    within(patience, bridging).await.ok_or_else(|| silent(patience))?
  }

  /// Starts the tasks of a stream.
  fn begin(&self, read: AttachRead, write: WriteHalf) -> (Life, oneshot::Receiver<Result<Welcome>>) {
    let (tell, told) = oneshot::channel();
    let shared = Arc::new(Shared {
      encoder: Encoder::new(self.key, self.identity.fence),
      outgoing: Outgoing::new(write),
      engine: self.client.clone(),
      container: self.container.to_owned(),
      slots: Mutex::new(Slots { welcome: Some(tell), ..Slots::default() }),
      channels: Channels::default(),
      left_ended: Notify::new(),
      // Numbers of an earlier holder are not used again; the highest bit is that of channels.
      next_op: AtomicU64::new(self.identity.fence.wrapping_shl(32) & (u64::MAX >> 1) | 1),
      life: Cancel::new(),
      broken: OnceLock::new(),
    });
    pump::start(&shared, read);
    (Life(shared), told)
  }

  async fn greet(&self, life: Life, answer: oneshot::Receiver<Result<Welcome>>, via: Via) -> Result<Link> {
    let welcome = self.hear(&life.0, answer, via).await?;
    Ok(Link(Arc::new(Owner { life, welcome, via, identity: self.identity })))
  }

  /// Says hello and waits for the answer. A stream that is new holds nothing that could swallow it.
  async fn hear(
    &self,
    shared: &Shared,
    mut answer: oneshot::Receiver<Result<Welcome>>,
    via: Via,
  ) -> Result<Welcome> {
    shared.greet(self.identity).await?;
    if via == Via::Attach {
      match timeout(HELLO_AGAIN, &mut answer).await {
        Ok(told) => return told.unwrap_or_else(|_closed| Err(shared.reason())),
        Err(_elapsed) => {
          shared
            .push(|out| {
              out.resize(out.len() + PREAMBLE, 0);
              Ok(())
            })
            .await?;
          shared.greet(self.identity).await?;
        }
      }
    }
    answer.await.unwrap_or_else(|_closed| Err(shared.reason()))
  }
}

fn silent(waited: Duration) -> Error {
  fail!(
    Unsupported,
    "The sandbox's supervisor did not answer within {} s. Its container may be starved of CPU, or something hangs on its stream.",
    waited.as_secs()
  )
}
