//! One connection of a program to the proxy, and the channel that carries it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

use super::super::link::Link;
use super::super::system::poll::{PollSet, READ, WRITE};
use super::listener::Listener;
use crate::supervisor::wire::{
  CHANNEL_WINDOW, Close, Data, FlowError, MAX_DATA, ReceiveWindow, SendWindow, Stream, ToHost,
};

/// A program that does not read what the host sent before it closed the channel is waited for so long.
const LINGER: Duration = Duration::from_secs(10);

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
  /// Nothing to do until something happens.
  Wait,
  /// There is more to do right now.
  Again,
  /// It is over.
  Over(Close),
}

/// A connection that was accepted. Output is read straight into frames; of the input at most a window waits here.
pub struct Channel {
  number: u64,
  socket: OwnedFd,
  output: SendWindow,
  /// The program has ended its direction, which was said.
  output_ended: bool,
  waiting: VecDeque<u8>,
  input: ReceiveWindow,
  /// The host has ended its direction.
  input_ended: bool,
  /// The program was told.
  input_shut: bool,
  /// The host listens to no more, and waits for the rest to be written until then.
  closing: Option<Instant>,
  verdict: Option<Close>,
  /// It has a turn coming.
  awake: bool,
}

impl Channel {
  /// A channel of which the host has not heard yet, and whose output may go as far as `window`.
  pub fn new(number: u64, socket: OwnedFd, window: u32) -> Self {
    Self {
      number,
      socket,
      output: SendWindow::new(window.into()),
      output_ended: false,
      waiting: VecDeque::new(),
      input: ReceiveWindow::new(CHANNEL_WINDOW.into()),
      input_ended: false,
      input_shut: false,
      closing: None,
      verdict: None,
      awake: true,
    }
  }

  /// Its number.
  pub const fn number(&self) -> u64 {
    self.number
  }

  /// Whether it has a turn coming.
  pub const fn is_awake(&self) -> bool {
    self.awake
  }

  /// Something that it waited for happened.
  pub const fn wake(&mut self) {
    self.awake = true;
  }

  /// When it needs attention at the latest.
  pub const fn due(&self) -> Option<Instant> {
    self.closing
  }

  /// A piece of the input. A host that breaks the rules loses the connection.
  pub fn take(&mut self, data: &Data<'_>, link: &mut Link) {
    self.awake = true;
    if self.receive(data).is_err() {
      self.verdict = Some(Close::Reset);
      return;
    }
    let written = if self.waiting.is_empty() { self.write(data.bytes) } else { 0 };
    self.waiting.extend(data.bytes.get(written..).unwrap_or_default());
    link.used(self.number, &mut self.input, written as u64);
  }

  fn receive(&mut self, data: &Data<'_>) -> Result<(), FlowError> {
    if data.stream != Stream::Input || self.input_ended {
      return Err(FlowError::Overrun);
    }
    self.input.receive(data.offset, data.bytes.len() as u64)
  }

  /// The host has said all.
  pub const fn end_input(&mut self) {
    self.awake = true;
    self.input_ended = true;
  }

  /// The host takes more.
  pub const fn raise(&mut self, limit: u64) {
    self.awake = true;
    self.output.raise(limit);
  }

  /// The host is done with it.
  pub fn close(&mut self, how: Close, now: Instant) {
    self.awake = true;
    match how {
      Close::Ended => {
        self.input_ended = true;
        self.closing = Some(now + LINGER);
      }
      Close::Reset => self.verdict = Some(how),
    }
  }

  /// Waits for what would be of use. Nothing is waited for where nothing would: a socket that is broken is ready all the
  /// time.
  pub fn wait(&self, set: &mut PollSet, owner: usize, link: &Link) {
    let read = self.may_read() && link.has_room();
    let events = if read { READ } else { 0 } | if self.waiting.is_empty() { 0 } else { WRITE };
    if events != 0 {
      set.add(self.socket.as_fd(), events, owner);
    }
  }

  const fn may_read(&self) -> bool {
    !self.output_ended && self.closing.is_none() && self.output.room() > 0
  }

  /// One turn: writes what can be written, and sends at most one piece.
  pub fn step(&mut self, link: &mut Link, now: Instant) -> Step {
    self.awake = false;
    self.pump_input(link);
    if let Some(how) = self.verdict {
      return self.over(how);
    }
    let said_all = self.input_ended && self.waiting.is_empty();
    if said_all && !std::mem::replace(&mut self.input_shut, said_all) && self.closing.is_none() {
      // A socket that is broken says so when it is read.
      let _ = shutdown(&self.socket, Shutdown::Write);
    }
    if let Some(until) = self.closing {
      return match said_all {
        true => self.over(Close::Ended),
        false if now >= until => self.over(Close::Reset),
        false => Step::Wait,
      };
    }
    let step = self.pump_output(link);
    match step {
      Step::Wait if self.output_ended && self.input_shut => self.over(Close::Ended),
      step => step,
    }
  }

  /// The connection goes with it. A reset is no end: whoever waits for the rest must learn that there is none.
  pub fn over(&self, how: Close) -> Step {
    if how == Close::Reset {
      Listener::reset(&self.socket);
    }
    Step::Over(how)
  }

  fn pump_output(&mut self, link: &mut Link) -> Step {
    if !self.may_read() {
      return Step::Wait;
    }
    if !link.has_room() {
      return self.again();
    }
    let most = usize::try_from(self.output.room()).unwrap_or(MAX_DATA).min(MAX_DATA);
    // As for commands: no more room than what is there needs.
    let held = rustix::io::ioctl_fionread(&self.socket).unwrap_or(0);
    let room = most.min(usize::try_from(held).unwrap_or(most).max(1));
    let (number, socket) = (self.number, &self.socket);
    match link.piece(number, Stream::Output, self.output.sent(), room, |room| rustix::io::read(socket, room))
    {
      Ok(count @ 1..) => {
        self.output.advance(count as u64);
        self.again()
      }
      Ok(_) => {
        self.output_ended = true;
        link.say(number, &ToHost::End(Stream::Output));
        Step::Wait
      }
      Err(Errno::AGAIN) => Step::Wait,
      Err(Errno::INTR) => self.again(),
      Err(_) => self.over(Close::Reset),
    }
  }

  const fn again(&mut self) -> Step {
    self.awake = true;
    Step::Again
  }

  fn pump_input(&mut self, link: &mut Link) {
    while !self.waiting.is_empty() {
      let waiting = std::mem::take(&mut self.waiting);
      let written = self.write(waiting.as_slices().0);
      self.waiting = waiting;
      self.waiting.drain(..written);
      link.used(self.number, &mut self.input, written as u64);
      if written == 0 {
        return;
      }
    }
    // What a burst needed is not kept for a quiet connection.
    self.waiting = VecDeque::new();
  }

  /// How many bytes the socket took.
  fn write(&mut self, bytes: &[u8]) -> usize {
    match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
      Ok(count) => count,
      Err(Errno::AGAIN | Errno::INTR) => 0,
      Err(_) => {
        self.verdict = Some(Close::Reset);
        0
      }
    }
  }
}
