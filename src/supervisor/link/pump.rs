//! The tasks of a link: one reads frames and hands them out, one writes, one keeps both ends awake.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::interval;

use super::{Event, Shared};
use crate::docker::attach::AttachRead;
use crate::error::{Error, fail};
use crate::limits::HEARTBEAT_INTERVAL;
use crate::supervisor::wire::{Decoder, Frame, ToHost, ToInside};

/// A supervisor that has not answered for so many heartbeats is gone, or starved beyond use.
const MISSED_HEARTBEATS: u64 = 6;

/// Starts the tasks; they end with the link's life.
pub fn start(shared: &Arc<Shared>, read: AttachRead) {
  let answered = Arc::new(AtomicU64::new(0));
  let life = || shared.life.clone();
  tokio::spawn(until(life(), reading(Arc::clone(shared), read, Arc::clone(&answered))));
  tokio::spawn(until(life(), writing(Arc::clone(shared))));
  tokio::spawn(until(life(), beating(Arc::clone(shared), answered)));
}

async fn until(life: crate::cancel::Cancel, task: impl Future<Output = ()>) {
  tokio::select! {
    biased;
    () = life.cancelled() => {}
    () = task => {}
  }
}

async fn reading(shared: Arc<Shared>, mut read: AttachRead, answered: Arc<AtomicU64>) {
  let mut decoder = Decoder::for_host(shared.encoder.key(), shared.encoder.fence());
  loop {
    let bytes = match read.next().await {
      Ok(bytes) if bytes.is_empty() => return shared.break_off(ended()),
      Ok(bytes) => bytes,
      Err(error) => return shared.break_off(error),
    };
    let mut rest = bytes.as_ref();
    while !rest.is_empty() {
      let taken = decoder.feed(rest);
      rest = rest.get(taken..).unwrap_or_default();
      while let Some(frame) = decoder.next_frame() {
        if let Err(error) = hand_out(&shared, &frame, &answered) {
          return shared.break_off(error);
        }
      }
    }
  }
}

/// Takes one frame. What breaks the rules of the protocol ends the link: the other end is not our supervisor.
fn hand_out(shared: &Shared, frame: &Frame<'_>, answered: &AtomicU64) -> Result<(), Error> {
  let op = frame.op;
  match ToHost::decode(frame).map_err(|error| foreign(&error))? {
    ToHost::Welcome(welcome) => shared.welcomed(Ok(welcome)),
    ToHost::Refused(refusal) => shared.welcomed(Err(refusal)),
    ToHost::Heartbeat(number) => answered.store(number, Ordering::Relaxed),
    ToHost::Notice(..) => {}
    ToHost::Started(started) => shared.tell(op, Event::Started(started)),
    ToHost::Data(data) => {
      shared.receive(op, data.stream, data.offset, data.bytes).map_err(|error| foreign(&error))?;
    }
    ToHost::End(stream) => shared.tell(op, Event::End(stream)),
    ToHost::Credit(credit) => shared.tell(op, Event::Credit(credit.limit)),
    ToHost::Exited(end) => shared.tell(op, Event::Exited(end)),
    ToHost::Done(reply) => {
      shared.tell(op, Event::Done(reply));
      // The reply is in this process now.
      shared.send_lazily(&ToInside::Ack, op);
    }
  }
  Ok(())
}

async fn writing(shared: Arc<Shared>) {
  let error = shared.outgoing.run().await;
  shared.break_off(ended().with_source(error));
}

async fn beating(shared: Arc<Shared>, answered: Arc<AtomicU64>) {
  let mut beat = interval(HEARTBEAT_INTERVAL);
  // The first tick comes at once, before the hello.
  beat.tick().await;
  // No answer is missed before this one.
  let mut from = 0;
  for number in 1u64.. {
    beat.tick().await;
    if number.saturating_sub(answered.load(Ordering::Relaxed).max(from)) > MISSED_HEARTBEATS {
      if !shared.is_frozen().await {
        return shared.break_off(silent());
      }
      from = number;
    }
    if shared.send(&ToInside::Heartbeat(number), 0).await.is_err() {
      return;
    }
  }
}

fn ended() -> Error {
  fail!(ContainerLost, "The sandbox's process 1 has ended, or the engine closed the stream to it.")
}

fn silent() -> Error {
  let seconds = HEARTBEAT_INTERVAL.saturating_mul(u32::try_from(MISSED_HEARTBEATS).unwrap_or(1)).as_secs();
  fail!(ContainerLost, "The sandbox's process 1 has not answered for {seconds} s.")
}

fn foreign(error: &dyn std::fmt::Display) -> Error {
  fail!(
    ContainerLost,
    "The sandbox's process 1 broke the rules of the stream ({error}): it is not, or no longer, our supervisor. The session ends here."
  )
}
