//! The host's end of the stream to a supervisor: one connection, many operations. Nothing that is heard is trusted:
//! what breaks the rules breaks the link, with a typed error for every operation, and never the process.

mod channels;
mod connection;
mod inbox;
mod opening;
mod operation;
mod outgoing;
mod pump;
mod terms;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use channels::Channels;
pub use connection::{Connection, Connections};
use inbox::{Foreign, Inbox};
pub use opening::{Previous, Via};
pub use operation::{Operation, Sink};
use outgoing::{Hurry, Outgoing, Pushed};
use terms::Terms;

use super::wire::{
  Close, CommandEnd, Credit, Encoder, Hello, INITIAL_WINDOW, Refusal, Reply, Started, Stream, ToInside,
  Token, Welcome, WireError,
};
use crate::cancel::Cancel;
use crate::docker::Engine;
use crate::docker::client::Client;
use crate::error::{Error, Result, fail};

/// What the supervisor may send of each stream of an operation before the host's reader has taken some.
pub const WINDOW: u32 = 512 * 1024;

/// How a host presents itself.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
  /// The lease's secret.
  pub token: Token,
  /// The lease's fence.
  pub fence: u64,
  /// The supervisor ends itself after so long without a heartbeat.
  pub dead_man: Duration,
}

/// What happens to an operation.
#[derive(Debug)]
pub enum Event {
  /// It began.
  Started(Started),
  /// A piece of its output.
  Data(Stream, Bytes),
  /// The end of one of its streams.
  End(Stream),
  /// So much of its input may be sent in all.
  Credit(u64),
  /// The command is gone with all it started.
  Exited(CommandEnd),
  /// The last word.
  Done(Reply),
}

/// A connection to a supervisor. Cheap to clone; it ends when the last clone is dropped, or when it breaks.
#[derive(Clone)]
pub struct Link(Arc<Owner>);

struct Owner {
  life: Life,
  welcome: Welcome,
  via: Via,
  identity: Identity,
}

/// Ends the tasks when it goes: with the last link, or with the attempt to open one.
struct Life(Arc<Shared>);

impl Drop for Life {
  fn drop(&mut self) {
    // Whoever the others wake finds it cancelled.
    self.0.life.cancel();
    self.0.outgoing.close();
    self.0.channels.close();
  }
}

/// What the tasks and the operations have in common.
struct Shared {
  encoder: Encoder,
  outgoing: Outgoing,
  engine: Client,
  container: String,
  slots: Mutex<Slots>,
  channels: Channels,
  /// One of the operations in [`Slots::left`] ended.
  left_ended: Notify,
  next_op: AtomicU64,
  life: Cancel,
  broken: OnceLock<Error>,
}

#[derive(Default)]
struct Slots {
  operations: HashMap<u64, Slot>,
  /// Operations of an earlier holder that have not ended yet.
  left: HashSet<u64>,
  welcome: Option<oneshot::Sender<Result<Welcome>>>,
}

/// What is known of an operation that is under way.
#[derive(Clone)]
struct Slot {
  inbox: Inbox,
  terms: Terms,
}

impl Link {
  /// What the supervisor said of itself.
  pub fn welcome(&self) -> &Welcome {
    &self.0.welcome
  }

  /// Which way it came.
  pub fn via(&self) -> Via {
    self.0.via
  }

  /// Why the link is broken, if it is.
  pub fn broken(&self) -> Option<Error> {
    self.shared().broken.get().cloned()
  }

  /// The engine's id of the container.
  pub fn container(&self) -> &str {
    &self.shared().container
  }

  /// Has the supervisor end itself after another time of silence than [`Identity::dead_man`]: it is greeted again.
  pub async fn outlive(&self, silence: Duration) -> Result<()> {
    self.shared().greet(Identity { dead_man: silence, ..self.0.identity }).await
  }

  /// Opens an operation.
  pub async fn request(&self, request: ToInside<'_>) -> Result<Operation> {
    let shared = self.shared();
    let op = shared.next_op.fetch_add(1, Ordering::Relaxed);
    let inbox = Inbox::default();
    {
      let mut slots = shared.slots();
      if shared.life.is_cancelled() {
        return Err(shared.reason());
      }
      let terms = Terms::new(&request, self.welcome());
      slots.operations.insert(op, Slot { inbox: inbox.clone(), terms });
    }
    let operation = Operation::new(self.clone(), op, inbox);
    shared.send(&request, op).await?;
    Ok(operation)
  }

  /// Stops the operations that an earlier holder left, and waits for the last word on each: from then on nobody but this
  /// holder changes anything.
  pub async fn dismiss_left(&self) -> Result<()> {
    let shared = self.shared();
    let left: Vec<u64> = shared.slots().left.iter().copied().collect();
    for op in left {
      shared.send(&ToInside::Cancel, op).await?;
      // What its pipes still hold would be offered for ever otherwise; nobody here listens to it.
      for stream in [Stream::Output, Stream::Error] {
        shared.send(&ToInside::Credit(Credit { stream, limit: u64::MAX }), op).await?;
      }
    }
    loop {
      let ended = shared.left_ended.notified();
      if shared.slots().left.is_empty() {
        return Ok(());
      }
      tokio::select! {
        biased;
        () = shared.life.cancelled() => return Err(shared.reason()),
        () = ended => {}
      }
    }
  }

  /// Whether somebody froze the container, so that nothing in it can answer.
  pub async fn is_frozen(&self) -> bool {
    self.shared().is_frozen().await
  }

  /// Ends the link; every operation that is under way fails.
  pub fn close(&self) {
    // What is connected to the proxy learns it now, and not once this side has been silent for long enough.
    self.shared().send_small(Hurry::Now, &ToInside::Close(Close::Reset), 0);
    self.shared().break_off(fail!(Released, "The stream to the sandbox was closed by this side."));
  }

  fn shared(&self) -> &Shared {
    &self.0.life.0
  }
}

impl Shared {
  fn slots(&self) -> MutexGuard<'_, Slots> {
    // No code panics while it holds the lock, and a map is whole between two changes.
    self.slots.lock().unwrap_or_else(PoisonError::into_inner)
  }

  /// Sends a frame; waits while too much is on its way.
  async fn send(&self, message: &ToInside<'_>, op: u64) -> Result<()> {
    self.push(|out| message.encode(&self.encoder, op, out)).await
  }

  /// Sends what `encode` appends, one time after another until there is room for it.
  async fn push(&self, encode: impl Fn(&mut Vec<u8>) -> Result<(), WireError>) -> Result<()> {
    loop {
      if self.life.is_cancelled() {
        return Err(self.reason());
      }
      let room = self.outgoing.room();
      match self.outgoing.push(&encode) {
        Ok(Pushed::Taken) => return Ok(()),
        Ok(Pushed::Full) => tokio::select! {
          biased;
          () = self.life.cancelled() => {}
          () = room => {}
        },
        Err(error) => {
          return Err(fail!(Limit, "The request is too long for the sandbox.").with_source(error));
        }
      }
    }
  }

  /// Says hello. The answer to a second one tells nothing new, and nobody waits for it.
  async fn greet(&self, identity: Identity) -> Result<()> {
    let Identity { token, dead_man, .. } = identity;
    let dead_man_ms = u32::try_from(dead_man.as_millis()).unwrap_or(u32::MAX);
    self.send(&ToInside::Hello(Hello { token, next_token: token, dead_man_ms }), 0).await
  }

  /// Sends a small frame that must not wait for others.
  fn send_small(&self, hurry: Hurry, message: &ToInside<'_>, op: u64) {
    // Small frames are within every bound of the encoder.
    if let Ok(Pushed::Full) = self.outgoing.push_always(hurry, |out| message.encode(&self.encoder, op, out)) {
      self.break_off(fail!(ContainerLost, "The sandbox's process 1 does not read what it is told."));
    }
  }

  /// Whether somebody froze the container, so that nothing in it can answer.
  async fn is_frozen(&self) -> bool {
    self.engine.inspect_container(&self.container).await.is_ok_and(|found| found.state.paused)
  }

  /// Ends the link: every operation learns why.
  fn break_off(&self, error: Error) {
    let reason = self.broken.get_or_init(|| error).clone();
    // Whoever the others wake finds it cancelled.
    self.life.cancel();
    self.outgoing.close();
    self.channels.close();
    let mut slots = self.slots();
    if let Some(welcome) = slots.welcome.take() {
      // Nobody may wait for it any more.
      welcome.send(Err(reason)).ok();
    }
    slots.operations.drain().for_each(|(_, slot)| slot.inbox.close());
  }

  fn reason(&self) -> Error {
    self
      .broken
      .get()
      .cloned()
      .unwrap_or_else(|| fail!(ContainerLost, "The stream to the sandbox was closed."))
  }

  /// The inbox of an operation. One that nobody waits for any more may still send what was granted.
  fn inbox(&self, op: u64) -> Option<Inbox> {
    self.slots().operations.get(&op).map(|slot| slot.inbox.clone())
  }

  /// Asks the supervisor to stop an operation that is still listened to.
  fn cancel(&self, op: u64) {
    if let Some(slot) = self.slots().operations.get_mut(&op) {
      slot.terms.cancel();
    }
    self.send_small(Hurry::Now, &ToInside::Cancel, op);
  }

  /// A command is gone.
  fn exited(&self, op: u64, end: CommandEnd) -> Result<(), Foreign> {
    let Some(Slot { inbox, terms }) = self.slots().operations.get(&op).cloned() else { return Ok(()) };
    terms.end(end.how)?;
    inbox.exited(end)
  }

  /// The last word on an operation arrived.
  fn finish(&self, op: u64, reply: Reply) -> Result<(), Foreign> {
    let (slot, was_left) = {
      let mut slots = self.slots();
      // What does not fit is not taken: the operation waits for the end of the link, which is near.
      slots.operations.get(&op).map_or(Ok(()), |slot| slot.terms.reply(&reply))?;
      (slots.operations.remove(&op), slots.left.remove(&op))
    };
    if let Some(slot) = slot {
      slot.inbox.done(reply);
    }
    if was_left {
      self.left_ended.notify_waiters();
    }
    // The reply is in this process now.
    self.send_small(Hurry::None, &ToInside::Ack, op);
    Ok(())
  }

  fn welcomed(&self, answer: Result<Welcome, Refusal>) {
    let answer = answer.map_err(|refusal| match refusal {
      Refusal::Fence | Refusal::Token => fail!(
        Conflict,
        "The sandbox's supervisor obeys another holder of this run ({refusal:?}); it was taken over."
      ),
      Refusal::Malformed => fail!(Internal, "The sandbox's supervisor does not understand this host."),
    });
    let mut slots = self.slots();
    if let Some(welcome) = slots.welcome.take() {
      if let Ok(welcome) = &answer {
        slots.left = welcome.operations.iter().filter(|left| !left.done).map(|left| left.op).collect();
      }
      welcome.send(answer).ok();
    }
  }
}

/// What may be sent of an operation's input before the supervisor grants more.
pub const fn initial_window() -> u64 {
  INITIAL_WINDOW
}
