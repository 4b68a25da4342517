//! The host's end of the stream to a supervisor: one connection, many operations. Nothing that is heard is trusted:
//! what breaks the rules breaks the link, with a typed error for every operation, and never the process.

mod operation;
mod pump;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub use operation::Operation;

use super::wire::{
  CommandEnd, Encoder, FlowError, Hello, INITIAL_WINDOW, ReceiveWindow, Refusal, Reply, Started, Stream,
  ToInside, Token, Welcome,
};
use crate::cancel::Cancel;
use crate::docker::client::Client;
use crate::error::{Error, Result, fail};

/// What the supervisor may send of each stream of an operation before the host's reader has taken some.
pub const WINDOW: u32 = 512 * 1024;
/// Frames on their way out; each is at most a piece of 64 KiB or one request.
const OUTGOING_FRAMES: usize = 16;
/// A supervisor answers a hello in well under a millisecond; one whose container is starved of CPU may need longer.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

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

/// Ends the tasks when the last link goes.
struct Owner {
  shared: Arc<Shared>,
  welcome: Welcome,
}

impl Drop for Owner {
  fn drop(&mut self) {
    self.shared.life.cancel();
  }
}

/// What the tasks and the operations have in common.
struct Shared {
  encoder: Encoder,
  outgoing: mpsc::Sender<Vec<u8>>,
  slots: Mutex<Slots>,
  next_op: AtomicU64,
  life: Cancel,
  broken: OnceLock<Error>,
}

#[derive(Default)]
struct Slots {
  operations: HashMap<u64, Slot>,
  welcome: Option<oneshot::Sender<Result<Welcome>>>,
}

struct Slot {
  events: mpsc::UnboundedSender<Event>,
  windows: [ReceiveWindow; 3],
}

impl Link {
  /// Attaches to `container`, lets `start` start it if it does not run yet, and says hello. `digest` is what the
  /// supervisor must prove.
  pub async fn open(
    client: &Client,
    container: &str,
    identity: Identity,
    start: impl Future<Output = Result<()>>,
  ) -> Result<Self> {
    let (read, write) = client.attach(container).await?;
    let (outgoing, frames) = mpsc::channel(OUTGOING_FRAMES);
    let (tell, told) = oneshot::channel();
    let key = random_key()?;
    let shared = Arc::new(Shared {
      encoder: Encoder::new(key, identity.fence),
      outgoing,
      slots: Mutex::new(Slots { operations: HashMap::new(), welcome: Some(tell) }),
      // Numbers of an earlier holder are not used again.
      next_op: AtomicU64::new(identity.fence.wrapping_shl(32) | 1),
      life: Cancel::new(),
      broken: OnceLock::new(),
    });
    pump::start(&shared, read, write, frames);
    let opened = Self::greet(&shared, identity, start, told).await;
    if opened.is_err() {
      shared.life.cancel();
    }
    Ok(Self(Arc::new(Owner { shared, welcome: opened? })))
  }

  async fn greet(
    shared: &Shared,
    identity: Identity,
    start: impl Future<Output = Result<()>>,
    told: oneshot::Receiver<Result<Welcome>>,
  ) -> Result<Welcome> {
    start.await?;
    let dead_man_ms = u32::try_from(identity.dead_man.as_millis()).unwrap_or(u32::MAX);
    let hello = Hello { token: identity.token, next_token: identity.token, dead_man_ms };
    shared.send(&ToInside::Hello(hello), 0).await?;
    match timeout(HELLO_TIMEOUT, told).await {
      Ok(Ok(welcome)) => welcome,
      Ok(Err(_closed)) => Err(shared.reason()),
      Err(_elapsed) => Err(fail!(
        Unsupported,
        "The sandbox's supervisor did not answer within {} s.",
        HELLO_TIMEOUT.as_secs()
      )),
    }
  }

  /// What the supervisor said of itself.
  pub fn welcome(&self) -> &Welcome {
    &self.0.welcome
  }

  /// Why the link is broken, if it is.
  pub fn broken(&self) -> Option<Error> {
    self.0.shared.broken.get().cloned()
  }

  /// Opens an operation.
  pub async fn request(&self, request: ToInside<'_>) -> Result<Operation> {
    let shared = &self.0.shared;
    let op = shared.next_op.fetch_add(1, Ordering::Relaxed);
    let (events, told) = mpsc::unbounded_channel();
    {
      let mut slots = shared.slots();
      if shared.life.is_cancelled() {
        return Err(shared.reason());
      }
      slots.operations.insert(op, Slot { events, windows: [ReceiveWindow::new(u64::from(WINDOW)); 3] });
    }
    let operation = Operation::new(self.clone(), op, told);
    shared.send(&request, op).await?;
    Ok(operation)
  }

  /// Asks the supervisor to cancel an operation that an earlier holder left, and to forget its reply.
  pub async fn dismiss(&self, op: u64) -> Result<()> {
    self.0.shared.send(&ToInside::Cancel, op).await?;
    self.0.shared.send(&ToInside::Ack, op).await
  }

  /// Ends the link; every operation that is under way fails.
  pub fn close(&self) {
    self.0.shared.break_off(fail!(Released, "The stream to the sandbox was closed by this side."));
  }

  fn shared(&self) -> &Shared {
    &self.0.shared
  }
}

impl Shared {
  fn slots(&self) -> MutexGuard<'_, Slots> {
    // No code panics while it holds the lock, and a map is whole between two changes.
    self.slots.lock().unwrap_or_else(PoisonError::into_inner)
  }

  /// Sends a frame; waits while too many are on their way.
  async fn send(&self, message: &ToInside<'_>, op: u64) -> Result<()> {
    let mut frame = Vec::new();
    message
      .encode(&self.encoder, op, &mut frame)
      .map_err(|error| fail!(Limit, "The request is too long for the sandbox.").with_source(error))?;
    tokio::select! {
      biased;
      () = self.life.cancelled() => Err(self.reason()),
      sent = self.outgoing.send(frame) => sent.map_err(|_closed| self.reason()),
    }
  }

  /// Ends the link: every operation learns why.
  fn break_off(&self, error: Error) {
    let reason = self.broken.get_or_init(|| error).clone();
    self.life.cancel();
    let mut slots = self.slots();
    if let Some(welcome) = slots.welcome.take() {
      // Nobody may wait for it any more.
      welcome.send(Err(reason)).ok();
    }
    slots.operations.clear();
  }

  fn reason(&self) -> Error {
    self
      .broken
      .get()
      .cloned()
      .unwrap_or_else(|| fail!(ContainerLost, "The stream to the sandbox was closed."))
  }

  /// A piece of an operation's output arrived.
  fn receive(&self, op: u64, stream: Stream, offset: u64, bytes: &[u8]) -> Result<(), FlowError> {
    let mut slots = self.slots();
    // An operation that nobody waits for any more may still send what was granted.
    let Some(slot) = slots.operations.get_mut(&op) else { return Ok(()) };
    if let Some(window) = slot.windows.get_mut(stream as usize) {
      window.receive(offset, bytes.len() as u64)?;
    }
    slot.events.send(Event::Data(stream, Bytes::copy_from_slice(bytes))).ok();
    Ok(())
  }

  fn tell(&self, op: u64, event: Event) {
    let mut slots = self.slots();
    if matches!(event, Event::Done(_)) {
      if let Some(slot) = slots.operations.remove(&op) {
        slot.events.send(event).ok();
      }
    } else if let Some(slot) = slots.operations.get(&op) {
      slot.events.send(event).ok();
    }
  }

  /// `count` bytes of a stream found their reader; the new limit, where one is due.
  fn consumed(&self, op: u64, stream: Stream, count: u64) -> Option<u64> {
    let mut slots = self.slots();
    slots.operations.get_mut(&op)?.windows.get_mut(stream as usize)?.consume(count)
  }

  fn welcomed(&self, answer: Result<Welcome, Refusal>) {
    let answer = answer.map_err(|refusal| match refusal {
      Refusal::Fence | Refusal::Token => fail!(
        Conflict,
        "The sandbox's supervisor obeys another holder of this run ({refusal:?}); it was taken over."
      ),
      Refusal::Malformed => fail!(Internal, "The sandbox's supervisor does not understand this host."),
    });
    if let Some(welcome) = self.slots().welcome.take() {
      welcome.send(answer).ok();
    }
  }
}

/// What may be sent of an operation's input before the supervisor grants more.
pub const fn initial_window() -> u64 {
  INITIAL_WINDOW
}

fn random_key() -> Result<u64> {
  getrandom::u64().map_err(|error| fail!(Internal, "The system gave no random bytes.").with_source(error))
}
