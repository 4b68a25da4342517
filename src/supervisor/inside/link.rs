//! The current holder, and what is on its way to it.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::supervisor::wire::{
  Credit, Data, Encoder, Hello, Kind, MAX_DATA, MAX_PAYLOAD, ReceiveWindow, Refusal, SendWindow, Stream,
  ToHost, Token,
};

/// Pieces of streams are added only while less than this waits to be written; replies always are.
const OUT_HIGH: usize = 256 * 1024;
/// With so much to be written the holder is not listened to until it reads: each frame of it may have an answer that must
/// arrive. Streams alone stay below, at [`OUT_HIGH`] and a piece.
const OUT_FULL: usize = OUT_HIGH + 2 * MAX_PAYLOAD;
/// Room for the pieces of one more turn and for every reply that can be due at once.
const OUT_CAPACITY: usize = 2 * OUT_HIGH + MAX_PAYLOAD;
/// How long what is in no hurry waits for company: longer than most short commands take to end.
const HINT_DELAY: Duration = Duration::from_millis(2);
/// A container whose host died before its first word ends itself after this long.
const FIRST_HELLO: Duration = Duration::from_secs(60);

/// Who is listened to, and the frames that wait to be written, which never blocks.
pub struct Link {
  /// [`crate::supervisor::wire::image_digest`] of this program.
  pub digest: [u8; 32],
  encoder: Option<Encoder>,
  token: Option<Token>,
  out: Vec<u8>,
  written: usize,
  /// All that waits is hints, since then.
  hints: Option<Instant>,
  /// The holder's stream is over, and no other holder has come.
  left: bool,
  dead_man: Option<Duration>,
  heard: Instant,
}

/// Where a hello came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
  /// Process 1's own input, or the stream that the holder is at.
  Own,
  /// A stream that was offered.
  Bridge,
}

impl Link {
  /// A link that has heard nobody.
  pub fn new(digest: [u8; 32]) -> Self {
    Self {
      digest,
      encoder: None,
      token: None,
      out: Vec::with_capacity(OUT_CAPACITY),
      written: 0,
      hints: None,
      left: false,
      dead_man: Some(FIRST_HELLO),
      heard: Instant::now(),
    }
  }

  /// Whether a hello makes its sender the holder. On process 1's own stream the first that was ever heard is believed:
  /// nothing had run, and nobody else was attached. What comes by a bridge must always bring the token.
  pub fn judge(&self, stranger: &Encoder, hello: Option<&Hello>, way: Way) -> Result<(), Refusal> {
    let hello = hello.ok_or(Refusal::Malformed)?;
    let holder = match (self.encoder, way) {
      (Some(holder), _) => holder,
      (None, Way::Own) => return Ok(()),
      (None, Way::Bridge) => return Err(Refusal::Token),
    };
    if self.token.is_some_and(|token| !is_same(&token, &hello.token)) {
      return Err(Refusal::Token);
    }
    if self.is_held_by(stranger) || stranger.fence() > holder.fence() { Ok(()) } else { Err(Refusal::Fence) }
  }

  /// Whether this is the holder, on the stream that it was at.
  pub fn is_held_by(&self, holder: &Encoder) -> bool {
    let same = |held: Encoder| held.key() == holder.key() && held.fence() == holder.fence();
    self.encoder.is_some_and(same)
  }

  /// There is a holder now: a new one, or the same one again.
  pub fn accept(&mut self, holder: Encoder, hello: &Hello) {
    self.token = Some(hello.next_token);
    self.dead_man = (hello.dead_man_ms > 0).then(|| Duration::from_millis(hello.dead_man_ms.into()));
    self.encoder = Some(holder);
    self.left = false;
    self.heard = Instant::now();
  }

  /// Tells a stranger on process 1's own stream why not. Their hellos must not fill the memory either.
  pub fn refuse(&mut self, stranger: &Encoder, refusal: Refusal) {
    if self.waiting() < OUT_HIGH {
      let _ = ToHost::Refused(refusal).encode(stranger, 0, &mut self.out);
    }
  }

  /// Frames go elsewhere from now on: what was not written, or half written, to the old stream is dropped. Replies are
  /// said again to whoever comes next.
  pub fn restart(&mut self) {
    self.hints = None;
    self.out.clear();
    self.written = 0;
  }

  /// The holder's stream is over: until the next hello there is nobody to say anything to.
  pub fn leave(&mut self) {
    self.restart();
    self.left = true;
  }

  /// The holder is alive.
  pub fn heard(&mut self) {
    self.heard = Instant::now();
  }

  /// When the holder was heard last.
  pub const fn last_heard(&self) -> Instant {
    self.heard
  }

  /// When the holder counts as dead.
  pub fn dead_man_at(&self) -> Option<Instant> {
    self.dead_man.and_then(|silence| self.heard.checked_add(silence))
  }

  /// Sends a message that must arrive: replies and the like. The table bounds how many there are at once, and
  /// [`Self::is_full`] how many one after the other.
  pub fn say(&mut self, op: u64, message: &ToHost<'_>) {
    if let Some(encoder) = self.encoder.as_ref().filter(|_| !self.left) {
      self.hints = None;
      let _ = message.encode(encoder, op, &mut self.out);
    }
  }

  /// Sends a message that must arrive and is worth no write of its own: it goes with the next one, or by itself after
  /// [`HINT_DELAY`]. Each write wakes up three programs on its way to the host.
  pub fn hint(&mut self, op: u64, message: &ToHost<'_>, now: Instant) {
    let alone = !self.wants_to_write();
    self.say(op, message);
    if alone {
      self.hints = Some(now);
    }
  }

  /// When hints go by themselves.
  pub fn hints_due(&self) -> Option<Instant> {
    self.hints.map(|since| since + HINT_DELAY)
  }

  /// Sends a message that may be left out when the holder does not read.
  pub fn mention(&mut self, op: u64, message: &ToHost<'_>) {
    if self.has_room() {
      self.say(op, message);
    }
  }

  /// Whether pieces of streams may be added.
  pub fn has_room(&self) -> bool {
    self.encoder.is_some() && !self.left && self.waiting() < OUT_HIGH
  }

  /// Whether the holder has to read before it is listened to again.
  pub const fn is_full(&self) -> bool {
    self.waiting() >= OUT_FULL
  }

  const fn waiting(&self) -> usize {
    self.out.len() - self.written
  }

  /// Sends what `fill` puts into room for at most `most` bytes of a stream, without a copy between. It says how many
  /// bytes it put there; with none, or an error, nothing is sent.
  pub fn piece(
    &mut self,
    op: u64,
    stream: Stream,
    offset: u64,
    most: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
  ) -> Result<usize, Errno> {
    let Some(encoder) = self.encoder else { return Err(Errno::AGAIN) };
    let start = encoder.begin(&mut self.out);
    let prefix = Data { stream, offset, bytes: &[] };
    prefix.write_prefix(&mut self.out);
    let contents = self.out.len();
    self.out.resize(contents + most.min(MAX_DATA), 0);
    let filled = fill(self.out.get_mut(contents..).unwrap_or_default());
    match filled {
      Ok(count @ 1..) => {
        self.hints = None;
        self.out.truncate(contents + count);
        let _ = encoder.finish(&mut self.out, start, Kind::Data, op);
      }
      _ => self.out.truncate(start),
    }
    filled
  }

  /// Sends what of `waiting` fits into `window`, at most [`MAX_DATA`]; how many bytes that was.
  pub fn pour(&mut self, op: u64, window: &mut SendWindow, waiting: &[u8]) -> usize {
    let room = usize::try_from(window.room()).unwrap_or(MAX_DATA).min(MAX_DATA);
    let bytes = waiting.get(..room).unwrap_or(waiting);
    let poured = self.piece(op, Stream::Output, window.sent(), bytes.len(), |space| {
      space.copy_from_slice(bytes);
      Ok(bytes.len())
    });
    let count = poured.unwrap_or(0);
    window.advance(count as u64);
    count
  }

  /// `count` bytes of input are out of the way: the sender is told when it may send more.
  pub fn used(&mut self, op: u64, window: &mut ReceiveWindow, count: u64) {
    if let Some(limit) = window.consume(count) {
      self.say(op, &ToHost::Credit(Credit { stream: Stream::Input, limit }));
    }
  }

  /// Whether something waits to be written.
  pub const fn wants_to_write(&self) -> bool {
    self.written < self.out.len()
  }

  /// Whether it should be written now.
  pub fn must_write(&self, now: Instant) -> bool {
    self.wants_to_write() && self.hints_due().is_none_or(|due| now >= due)
  }

  /// Writes what can be written now. An error: nobody will ever read it there.
  pub fn flush(&mut self, to: BorrowedFd<'_>) -> Result<(), Errno> {
    while self.wants_to_write() {
      match rustix::io::write(to, self.out.get(self.written..).unwrap_or_default()) {
        Ok(count) => self.written += count,
        Err(Errno::AGAIN) => break,
        Err(Errno::INTR) => {}
        Err(error) => return Err(error),
      }
    }
    self.hints = None;
    // Moves the rest to the front seldom enough that each byte is moved at most once.
    if self.written * 2 >= self.out.len() {
      self.out.drain(..self.written);
      self.written = 0;
    }
    Ok(())
  }
}

/// Compares without telling by its time how much is the same.
fn is_same(one: &Token, other: &Token) -> bool {
  one.0.iter().zip(&other.0).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}
