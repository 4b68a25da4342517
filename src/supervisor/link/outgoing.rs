//! Frames on their way to a supervisor.
//!
//! Whoever sends a frame writes it, so that a request costs no wake-up of another task; what the stream does not take at
//! once is written by a task of its own, in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::docker::connection::WriteHalf;
use crate::supervisor::wire::WireError;

/// With so many bytes waiting nothing more is taken. One frame of at most 1.3 MiB may be above it.
const HIGH: usize = 256 * 1024;
/// And for small frames that must not wait this is the end: some ten thousand of them above the largest frame.
const HARD: usize = 4 * 1024 * 1024;
/// What can wait, waits so long for something that cannot, and goes with it.
const LAZY_DELAY: Duration = Duration::from_millis(10);
/// But no more of it than this: the replies that are acknowledged hold places inside.
const MAX_LAZY: usize = 64;

/// The writing end of a stream and what waits for it.
pub struct Outgoing {
  /// `None` once closed.
  write: Mutex<Option<Arc<WriteHalf>>>,
  queue: Mutex<Queue>,
  /// There is something for the writing task.
  work: Notify,
  /// There is room again.
  room: Notify,
}

#[derive(Default)]
struct Queue {
  bytes: Vec<u8>,
  written: usize,
  /// Who waits for room, each by a number of its own.
  wakers: Vec<(u64, Waker)>,
  /// Frames that can wait, where there are no others.
  lazy: usize,
  /// Somebody was told that it is full, and not yet that it no longer is.
  was_full: bool,
  failed: bool,
}

/// Whether a small frame is written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hurry {
  /// Now.
  Now,
  /// With the next one, or by itself a little later.
  None,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
  /// It is written, or will be.
  Taken,
  /// Too much waits; try again after [`Outgoing::room`].
  Full,
}

impl Outgoing {
  /// Frames for this stream.
  pub fn new(write: WriteHalf) -> Self {
    let write = Mutex::new(Some(Arc::new(write)));
    Self { write, queue: Mutex::default(), work: Notify::new(), room: Notify::new() }
  }

  /// Takes the frame that `encode` appends. An error of `encode` leaves nothing behind.
  pub fn push(
    &self,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
  ) -> Result<Pushed, WireError> {
    self.append(&mut self.queue(), encode)
  }

  /// As [`Self::push`]; where it is full, `waker` is woken when there may be room. `who` tells whose it is: the last one of
  /// each counts.
  pub fn push_or_wake(
    &self,
    who: u64,
    waker: &Waker,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
  ) -> Result<Pushed, WireError> {
    let mut queue = self.queue();
    let pushed = self.append(&mut queue, encode)?;
    if pushed == Pushed::Full {
      queue.wakers.retain(|(waiting, _)| *waiting != who);
      queue.wakers.push((who, waker.clone()));
    }
    Ok(pushed)
  }

  fn append(
    &self,
    queue: &mut Queue,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
  ) -> Result<Pushed, WireError> {
    if queue.waiting() > HIGH {
      queue.was_full = true;
      return Ok(Pushed::Full);
    }
    encode(&mut queue.bytes)?;
    queue.lazy = 0;
    self.write_now(queue);
    if queue.waiting() > 0 {
      self.work.notify_one();
    }
    Ok(Pushed::Taken)
  }

  /// Takes a small frame that must not wait for others, such as a cancellation or what more may be sent. [`Pushed::Full`]
  /// where the peer has caused so many and reads none that it cannot be ours.
  pub fn push_always(
    &self,
    hurry: Hurry,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
  ) -> Result<Pushed, WireError> {
    let mut queue = self.queue();
    if queue.waiting() > HARD {
      return Ok(Pushed::Full);
    }
    let idle = queue.waiting() == 0;
    encode(&mut queue.bytes)?;
    if hurry == Hurry::None && (idle || queue.lazy > 0) && queue.lazy < MAX_LAZY {
      queue.lazy += 1;
    } else {
      queue.lazy = 0;
      self.write_now(&mut queue);
    }
    if queue.waiting() > 0 {
      self.work.notify_one();
    }
    Ok(Pushed::Taken)
  }

  /// Writes what the stream takes now and lets go of it. Whoever keeps the link then holds no socket open: an attached
  /// stream that nobody reads holds up the engine's copying for every holder after it.
  pub fn close(&self) {
    let mut queue = self.queue();
    self.write_now(&mut queue);
    // They find that there is nobody to send to.
    queue.wake_all();
    drop(queue);
    self.write_half().take();
  }

  /// Resolves when there may be room. Ask for it before [`Self::push`], or the moment may pass unseen.
  pub fn room(&self) -> tokio::sync::futures::Notified<'_> {
    self.room.notified()
  }

  /// Writes what the senders could not. Ends with the stream's error.
  pub async fn run(&self) -> std::io::Error {
    loop {
      self.work.notified().await;
      let company = Instant::now() + LAZY_DELAY;
      // Each frame that is added tells of itself; one that cannot wait ends the waiting.
      while self.queue().lazy > 0 && timeout_at(company, self.work.notified()).await.is_ok() {}
      while self.queue().waiting() > 0 {
        let Some(write) = self.write_half().clone() else { return std::io::ErrorKind::NotConnected.into() };
        if let Err(error) = write.writable().await {
          return error;
        }
        drop(write);
        let mut queue = self.queue();
        queue.lazy = 0;
        self.write_now(&mut queue);
        if queue.failed {
          return std::io::ErrorKind::BrokenPipe.into();
        }
      }
    }
  }

  /// Writes what the stream takes now. Whoever of all senders makes room this way tells those who wait for it: the writing
  /// task may find nothing left to do.
  fn write_now(&self, queue: &mut Queue) {
    self.write_what_fits(queue);
    queue.tidy();
    if queue.was_full && queue.waiting() <= HIGH {
      queue.was_full = false;
      self.room.notify_waiters();
      queue.wake_all();
    }
  }

  fn write_what_fits(&self, queue: &mut Queue) {
    let write = self.write_half();
    let Some(write) = write.as_ref() else { return };
    while let Some(rest) = queue.bytes.get(queue.written..).filter(|rest| !rest.is_empty()) {
      match write.try_write(rest) {
        Ok(0) => queue.failed = true,
        Ok(count) => queue.written += count,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
        Err(_) => queue.failed = true,
      }
      if queue.failed {
        break;
      }
    }
  }

  fn write_half(&self) -> MutexGuard<'_, Option<Arc<WriteHalf>>> {
    // As below.
    self.write.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn queue(&self) -> MutexGuard<'_, Queue> {
    // Nothing panics while it is held, and the bytes are whole frames between two uses.
    self.queue.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

impl Queue {
  const fn waiting(&self) -> usize {
    self.bytes.len() - self.written
  }

  fn wake_all(&mut self) {
    self.wakers.drain(..).for_each(|(_, waker)| waker.wake());
  }

  /// Moves the rest to the front seldom enough that each byte is moved at most once, and lets go of the room that a large
  /// frame took.
  fn tidy(&mut self) {
    if self.written * 2 >= self.bytes.len() {
      self.bytes.drain(..self.written);
      self.written = 0;
      if self.bytes.is_empty() && self.bytes.capacity() > 2 * HIGH {
        self.bytes = Vec::new();
      }
    }
  }
}

#[cfg(test)]
mod tests;
