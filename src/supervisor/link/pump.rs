//! The tasks of a link: one reads frames and hands them out, one writes, one keeps both ends awake.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::{MissedTickBehavior, interval};

use super::Shared;
use super::inbox::Foreign;
use super::outgoing::Hurry;
use crate::docker::attach::AttachRead;
use crate::error::{Error, fail};
use crate::limits::HEARTBEAT_INTERVAL;
use crate::supervisor::wire::{Decoder, Frame, ToHost, ToInside, is_channel};

/// A supervisor that has not answered for so many heartbeats is gone, or starved beyond use.
const MISSED_HEARTBEATS: u64 = 6;

/// Starts the tasks; they end with the link's life.
pub fn start(shared: &Arc<Shared>, read: AttachRead) {
  let beats = Arc::new(Beats::default());
  let life = || shared.life.clone();
  tokio::spawn(until(life(), reading(Arc::clone(shared), read, Arc::clone(&beats))));
  tokio::spawn(until(life(), writing(Arc::clone(shared))));
  tokio::spawn(until(life(), beating(Arc::clone(shared), beats)));
}

async fn until(life: crate::cancel::Cancel, task: impl Future<Output = ()>) {
  tokio::select! {
    biased;
    () = life.cancelled() => {}
    () = task => {}
  }
}

async fn reading(shared: Arc<Shared>, mut read: AttachRead, beats: Arc<Beats>) {
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
        if let Err(error) = hand_out(&shared, &frame, &beats) {
          return shared.break_off(error);
        }
      }
    }
  }
}

/// Takes one frame. What breaks the rules of the protocol ends the link: the other end is not our supervisor.
fn hand_out(shared: &Shared, frame: &Frame<'_>, beats: &Beats) -> Result<(), Error> {
  let op = frame.op;
  let message = ToHost::decode(frame).map_err(|error| foreign(&error))?;
  if is_channel(op) {
    return match shared.channels.take(op, &message).map_err(|error| foreign(&error))? {
      Some(unwanted) => {
        shared.send_small(Hurry::Now, &ToInside::Close(unwanted), op);
        Ok(())
      }
      None => Ok(()),
    };
  }
  let inbox = || shared.inbox(op);
  let told = match message {
    ToHost::Welcome(welcome) => {
      shared.welcomed(Ok(welcome));
      Ok(())
    }
    ToHost::Refused(refusal) => {
      shared.welcomed(Err(refusal));
      Ok(())
    }
    ToHost::Heartbeat(number) => return beats.answered(number),
    ToHost::Notice(..) => Ok(()),
    ToHost::Started(started) => inbox().map_or(Ok(()), |inbox| inbox.started(started)),
    ToHost::Data(data) => inbox().map_or(Ok(()), |inbox| inbox.data(&data)),
    ToHost::End(stream) => inbox().map_or(Ok(()), |inbox| inbox.end(stream)),
    ToHost::Credit(credit) => inbox().map_or(Ok(()), |inbox| inbox.credit(credit.stream, credit.limit)),
    ToHost::Exited(end) => shared.exited(op, end),
    ToHost::Done(reply) => shared.finish(op, reply),
    ToHost::Connect(_) | ToHost::Close(_) => Err(Foreign::Order),
  };
  told.map_err(|error| foreign(&error))
}

/// Numbers of the heartbeats that were sent, and that came back.
#[derive(Default)]
struct Beats {
  sent: AtomicU64,
  answered: AtomicU64,
}

impl Beats {
  /// A number that was not sent would silence the watch for ever.
  fn answered(&self, number: u64) -> Result<(), Error> {
    if number > self.sent.load(Ordering::Relaxed) {
      return Err(foreign(&"a heartbeat came back that was not sent"));
    }
    self.answered.fetch_max(number, Ordering::Relaxed);
    Ok(())
  }
}

async fn writing(shared: Arc<Shared>) {
  let error = shared.outgoing.run().await;
  shared.break_off(ended().with_source(error));
}

async fn beating(shared: Arc<Shared>, beats: Arc<Beats>) {
  let mut beat = interval(HEARTBEAT_INTERVAL);
  // After a sleep of this process one beat is due, and not all that it slept through.
  beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
  // The first tick comes at once, before the hello.
  beat.tick().await;
  // No answer is missed before this one.
  let mut from = 0;
  for number in 1u64.. {
    beat.tick().await;
    // Nobody answers a heartbeat before the hello, and the engine may take its time to start the container.
    if shared.slots().welcome.is_some() {
      from = number;
      continue;
    }
    if number.saturating_sub(beats.answered.load(Ordering::Relaxed).max(from)) > MISSED_HEARTBEATS {
      if !shared.is_frozen().await {
        return shared.break_off(silent());
      }
      from = number;
    }
    beats.sent.store(number, Ordering::Relaxed);
    shared.send_small(Hurry::Now, &ToInside::Heartbeat(number), 0);
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
