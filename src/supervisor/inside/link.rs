//! The current holder, and what is on its way to it.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::supervisor::wire::{
  Data, Encoder, Hello, Kind, MAX_DATA, MAX_PAYLOAD, Refusal, Stream, ToHost, Token,
};

/// Pieces of streams are added only while less than this waits to be written; replies always are.
const OUT_HIGH: usize = 256 * 1024;
/// Room for the pieces of one more turn and for every reply that can be due at once.
const OUT_CAPACITY: usize = 2 * OUT_HIGH + MAX_PAYLOAD;
/// A container whose host died before its first word ends itself after this long.
const FIRST_HELLO: Duration = Duration::from_secs(60);

/// Who is listened to, and the frames that wait for standard output, which never blocks.
pub struct Link {
  /// [`crate::supervisor::wire::image_digest`] of this program.
  pub digest: [u8; 32],
  encoder: Option<Encoder>,
  token: Option<Token>,
  out: Vec<u8>,
  written: usize,
  dead_man: Option<Duration>,
  heard: Instant,
}

/// What a hello came to.
pub enum Greeting {
  /// There is a holder now: a new one, or the same one again.
  Accepted,
  /// The stranger was told why not.
  Refused,
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
      dead_man: Some(FIRST_HELLO),
      heard: Instant::now(),
    }
  }

  /// Decides about a hello.
  pub fn greet(&mut self, key: u64, fence: u64, hello: Option<Hello>) -> Greeting {
    let stranger = Encoder::new(key, fence);
    let refusal = match hello {
      None => Some(Refusal::Malformed),
      Some(hello) => self.objection(&stranger, &hello),
    };
    if let Some(refusal) = refusal {
      // Strangers' hellos must not fill the memory either.
      if self.has_room() {
        let _ = ToHost::Refused(refusal).encode(&stranger, 0, &mut self.out);
      }
      return Greeting::Refused;
    }
    if let Some(hello) = hello {
      self.token = Some(hello.next_token);
      self.dead_man = (hello.dead_man_ms > 0).then(|| Duration::from_millis(hello.dead_man_ms.into()));
    }
    self.encoder = Some(stranger);
    self.heard = Instant::now();
    Greeting::Accepted
  }

  fn objection(&self, stranger: &Encoder, hello: &Hello) -> Option<Refusal> {
    let holder = self.encoder?;
    if self.token.is_some_and(|token| !is_same(&token, &hello.token)) {
      return Some(Refusal::Token);
    }
    let again = holder.key() == stranger.key() && holder.fence() == stranger.fence();
    (!again && stranger.fence() <= holder.fence()).then_some(Refusal::Fence)
  }

  /// The holder is alive.
  pub fn heard(&mut self) {
    self.heard = Instant::now();
  }

  /// When the holder counts as dead.
  pub fn dead_man_at(&self) -> Option<Instant> {
    self.dead_man.and_then(|silence| self.heard.checked_add(silence))
  }

  /// Sends a message that must arrive: replies and the like, whose number the table bounds.
  pub fn say(&mut self, op: u64, message: &ToHost<'_>) {
    if let Some(encoder) = &self.encoder {
      let _ = message.encode(encoder, op, &mut self.out);
    }
  }

  /// Sends a message that may be left out when the holder does not read.
  pub fn mention(&mut self, op: u64, message: &ToHost<'_>) {
    if self.has_room() {
      self.say(op, message);
    }
  }

  /// Whether pieces of streams may be added.
  pub fn has_room(&self) -> bool {
    self.encoder.is_some() && self.out.len() - self.written < OUT_HIGH
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
        self.out.truncate(contents + count);
        let _ = encoder.finish(&mut self.out, start, Kind::Data, op);
      }
      _ => self.out.truncate(start),
    }
    filled
  }

  /// Whether something waits to be written.
  pub fn wants_to_write(&self) -> bool {
    self.written < self.out.len()
  }

  /// Writes what can be written now. An error: nobody will ever read it.
  pub fn flush(&mut self) -> Result<(), Errno> {
    while self.wants_to_write() {
      match rustix::io::write(std::io::stdout(), self.out.get(self.written..).unwrap_or_default()) {
        Ok(count) => self.written += count,
        Err(Errno::AGAIN) => break,
        Err(Errno::INTR) => {}
        Err(error) => return Err(error),
      }
    }
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
