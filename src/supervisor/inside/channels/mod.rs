//! Connections to the proxy. There is no interface but the container's own loopback: what a program sends there goes over
//! the holder's stream, and nowhere else.
//!
//! Nothing of a connection outlives its holder. Whoever follows asks anew; until then, and while the holder is not heard,
//! connections are reset as soon as they are made.

mod channel;
mod listener;

use std::time::{Duration, Instant};

use rustix::io::Errno;

use self::channel::{Channel, Step};
use self::listener::Listener;
use super::link::Link;
use super::system::poll::{PollSet, READ};
use crate::limits::HOLDER_SILENCE;
use crate::supervisor::wire::{
  CHANNEL_WINDOW, Capability, Close, Connect, Credit, Data, Listen, MAX_CHANNELS, Stream, ToHost,
  channel_number,
};

/// Connections that are taken in one turn, so that a flood of them does not hold up the rest.
const ACCEPTS_A_TURN: usize = 8;
/// After the kernel could not give a connection (no descriptors, no memory), none is asked for so long.
const REST: Duration = Duration::from_millis(100);

/// The listening socket and the channels.
pub struct Channels {
  listener: Option<Listener>,
  /// What the holder takes of each channel at first; `None`: it has not asked for any.
  asked: Option<u32>,
  channels: Vec<Channel>,
  opened: u64,
  resting: Option<Instant>,
}

impl Channels {
  /// No channels, and nobody has asked for any.
  pub fn new() -> Self {
    let channels = Vec::with_capacity(MAX_CHANNELS);
    Self { listener: None, asked: None, channels, opened: 0, resting: None }
  }

  /// What of this can be had here, as bits of [`Capability`].
  pub fn capability() -> u64 {
    if Listener::is_possible() { Capability::Channels as u64 } else { 0 }
  }

  /// The holder asks for connections.
  pub fn listen(&mut self, request: &Listen) -> Result<(), Errno> {
    if self.listener.as_ref().is_none_or(|listener| listener.port() != request.port) {
      // The other one is let go of only once this one is there.
      self.listener = Some(Listener::bind(request.port)?);
    }
    self.asked = Some(request.window);
    Ok(())
  }

  /// The holder is another one, or is none any more: nobody is told anything.
  pub fn leave(&mut self) {
    self.asked = None;
    for channel in self.channels.drain(..) {
      channel.over(Close::Reset);
    }
  }

  /// A piece of a channel's input.
  pub fn take(&mut self, number: u64, data: &Data<'_>, link: &mut Link) {
    // Of one that is over the host learns by its last word, which is on the way.
    if let Some(channel) = self.find(number) {
      channel.take(data, link);
    }
  }

  /// The end of a channel's input.
  pub fn end_input(&mut self, number: u64) {
    if let Some(channel) = self.find(number) {
      channel.end_input();
    }
  }

  /// The host takes more of a channel.
  pub fn raise(&mut self, number: u64, credit: Credit) {
    if let Some(channel) = self.find(number).filter(|_| credit.stream == Stream::Output) {
      channel.raise(credit.limit);
    }
  }

  /// The host is done with a channel.
  pub fn close(&mut self, number: u64, how: Close, now: Instant) {
    if let Some(channel) = self.find(number) {
      channel.close(how, now);
    }
  }

  fn find(&mut self, number: u64) -> Option<&mut Channel> {
    self.channels.iter_mut().find(|channel| channel.number() == number)
  }

  /// What they wait for: `door` is the owner of the listening socket, the channels are those from `first` on.
  pub fn wait(&self, set: &mut PollSet, door: usize, first: usize, link: &Link) {
    if let Some(listener) = self.listener.as_ref().filter(|_| self.may_accept(link)) {
      set.add(listener.fd(), READ, door);
    }
    for (place, channel) in self.channels.iter().enumerate() {
      channel.wait(set, first + place, link);
    }
  }

  /// Whether connections can be taken now, be it to reset them.
  fn may_accept(&self, link: &Link) -> bool {
    let has_room = self.asked.is_none() || (self.channels.len() < MAX_CHANNELS && link.has_room());
    has_room && self.resting.is_none()
  }

  /// Something that the channel at this place waited for happened.
  pub fn wake(&mut self, place: usize) {
    if let Some(channel) = self.channels.get_mut(place) {
      channel.wake();
    }
  }

  /// Whether one of them has a turn coming.
  pub fn are_awake(&self) -> bool {
    self.channels.iter().any(Channel::is_awake)
  }

  /// When something is to be done at the latest.
  pub fn due(&self, link: &Link) -> Option<Instant> {
    let silence = (!self.channels.is_empty()).then(|| link.last_heard() + HOLDER_SILENCE);
    let closing = self.channels.iter().filter_map(Channel::due).min();
    [silence, closing, self.resting].into_iter().flatten().min()
  }

  /// Gives a turn to each that has something to do. `knock`: connections wait to be taken.
  pub fn turn(&mut self, knock: bool, link: &mut Link, now: Instant) {
    self.resting = self.resting.filter(|until| now < *until);
    self.mind_the_holder(link, now);
    if knock {
      self.accept(link, now);
    }
    // The first is another one each time, so that none has the room in the stream to itself.
    if let Some(last) = self.channels.pop() {
      self.channels.insert(0, last);
    }
    self.channels.retain_mut(|channel| {
      if !channel.is_awake() && channel.due().is_none_or(|due| now < due) {
        return true;
      }
      match channel.step(link, now) {
        Step::Wait | Step::Again => true,
        Step::Over(how) => {
          link.say(channel.number(), &ToHost::Close(how));
          false
        }
      }
    });
  }

  /// A holder that is not heard is taken for dead by the next one, and by what is connected to it.
  fn mind_the_holder(&mut self, link: &mut Link, now: Instant) {
    if is_silent(link, now) {
      for channel in self.channels.drain(..) {
        channel.over(Close::Reset);
        link.say(channel.number(), &ToHost::Close(Close::Reset));
      }
    }
  }

  fn accept(&mut self, link: &mut Link, now: Instant) {
    let served = self.asked.filter(|_| !is_silent(link, now));
    for _ in 0..ACCEPTS_A_TURN {
      let Some(listener) = self.listener.as_ref().filter(|_| self.may_accept(link)) else { return };
      match (listener.accept(), served) {
        (Ok(socket), None) => Listener::reset(&socket),
        (Ok(socket), Some(window)) => {
          self.opened += 1;
          let number = channel_number(self.opened);
          link.say(number, &ToHost::Connect(Connect { window: CHANNEL_WINDOW }));
          self.channels.push(Channel::new(number, socket, window));
        }
        (Err(Errno::AGAIN), _) => return,
        (Err(Errno::CONNABORTED | Errno::INTR), _) => {}
        (Err(_), _) => {
          self.resting = Some(now + REST);
          return;
        }
      }
    }
  }
}

fn is_silent(link: &Link, now: Instant) -> bool {
  now.saturating_duration_since(link.last_heard()) >= HOLDER_SILENCE
}
