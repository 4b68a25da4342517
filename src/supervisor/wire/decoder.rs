//! From bytes to frames, whatever the bytes are.

use super::MAX_PAYLOAD;
use super::frame::{HEADER, Header, Kind, MAGIC, payload_check};

/// A whole frame of the current holder, or a hello of somebody who wants to be it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
  /// What it is.
  pub kind: Kind,
  /// Its key.
  pub key: u64,
  /// Its fence.
  pub fence: u64,
  /// Its operation; 0 where it belongs to none.
  pub op: u64,
  /// Its payload, checked to be the one that was written.
  pub payload: &'a [u8],
}

/// What was passed over since the last time somebody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
  /// Bytes that belonged to no frame.
  pub bytes: u64,
  /// Frames of another key or fence; their bytes are among the above.
  pub stale: u64,
  /// Whole frames of the current holder of a kind that this version does not know.
  pub unknown: u64,
}

/// Bytes of an ordinary buffer: a frame, and as much again so that one read brings more than one.
const CAPACITY: usize = 2 * (HEADER + MAX_PAYLOAD);

/// Finds frames in a stream of bytes. It looks at nothing but whole frames with right checks whose key and fence are
/// the current ones, and at hellos if it [`takes hellos`](Self::for_supervisor). Its memory is bounded: two frames, and
/// one request to run a command where the current holder sends such.
#[derive(Debug)]
pub struct Decoder {
  buffer: Box<[u8]>,
  start: usize,
  end: usize,
  holder: Option<(u64, u64)>,
  hellos: bool,
  skipped: Skipped,
}

impl Decoder {
  /// The host's: frames with this key and fence, nothing else.
  pub fn for_host(key: u64, fence: u64) -> Self {
    Self { holder: Some((key, fence)), ..Self::empty(false) }
  }

  /// The supervisor's: nothing but hellos until [`Self::bind`].
  pub fn for_supervisor() -> Self {
    Self::empty(true)
  }

  fn empty(hellos: bool) -> Self {
    let buffer = vec![0; CAPACITY].into_boxed_slice();
    Self { buffer, start: 0, end: 0, holder: None, hellos, skipped: Skipped::default() }
  }

  /// From now on frames with this key and fence are taken. The caller has checked the hello.
  pub const fn bind(&mut self, key: u64, fence: u64) {
    self.holder = Some((key, fence));
  }

  /// Room for bytes that arrive; tell [`Self::filled`] how many were put there. Never empty once
  /// [`Self::next_frame`] returned `None`.
  pub fn space(&mut self) -> &mut [u8] {
    if self.start > 0 {
      self.buffer.copy_within(self.start..self.end, 0);
      self.end -= self.start;
      self.start = 0;
    }
    self.buffer.get_mut(self.end..).unwrap_or_default()
  }

  /// So many bytes were put into [`Self::space`].
  pub fn filled(&mut self, count: usize) {
    self.end = (self.end + count).min(self.buffer.len());
  }

  /// Copies as many bytes as there is room for and says how many. Ask for frames, then bring the rest.
  pub fn feed(&mut self, bytes: &[u8]) -> usize {
    let space = self.space();
    let count = bytes.len().min(space.len());
    if let (Some(to), Some(from)) = (space.get_mut(..count), bytes.get(..count)) {
      to.copy_from_slice(from);
    }
    self.filled(count);
    count
  }

  /// What was skipped since the last call.
  pub fn take_skipped(&mut self) -> Skipped {
    std::mem::take(&mut self.skipped)
  }

  /// Drops what waits for the rest of its frame: the next bytes are those of another stream.
  pub const fn forget(&mut self) {
    self.start = 0;
    self.end = 0;
  }

  /// Bytes that wait for the rest of their frame.
  pub const fn pending(&self) -> usize {
    self.end - self.start
  }

  /// The next frame; `None`: more bytes are needed.
  pub fn next_frame(&mut self) -> Option<Frame<'_>> {
    let (header, kind) = loop {
      match self.step() {
        Step::Frame(header, kind) => break (header, kind),
        Step::Skip(count) => {
          self.start += count;
          self.skipped.bytes += count as u64;
        }
        Step::Unknown(length) => {
          self.start += length;
          self.skipped.unknown += 1;
        }
        Step::Wait => return None,
      }
    };
    let payload_at = self.start + HEADER;
    self.start = payload_at + header.length;
    let payload = self.buffer.get(payload_at..self.start)?;
    Some(Frame { kind, key: header.key, fence: header.fence, op: header.op, payload })
  }

  fn step(&mut self) -> Step {
    let bytes = self.buffer.get(self.start..self.end).unwrap_or_default();
    let garbage = before_magic(bytes);
    if garbage > 0 {
      return Step::Skip(garbage);
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else { return Step::Wait };
    let Some(header) = Header::parse(head) else { return Step::Skip(1) };
    if !self.is_ours(&header) {
      self.skipped.stale += 1;
      return Step::Skip(1);
    }
    let Some(payload) = rest.get(..header.length) else {
      self.make_room(HEADER + header.length);
      return Step::Wait;
    };
    if payload_check(header.key, payload) != header.check {
      return Step::Skip(1);
    }
    header.kind.map_or(Step::Unknown(HEADER + header.length), |kind| Step::Frame(header, kind))
  }

  fn is_ours(&self, header: &Header) -> bool {
    let hello = self.hellos && header.kind == Some(Kind::Hello);
    hello || self.holder == Some((header.key, header.fence))
  }

  // Only a header with the holder's key gets here with more than the buffer holds, and no kind allows more than
  // `MAX_EXEC_PAYLOAD`.
  fn make_room(&mut self, frame: usize) {
    if frame > self.buffer.len() {
      let mut larger = vec![0; frame];
      let pending = self.buffer.get(self.start..self.end).unwrap_or_default();
      larger.iter_mut().zip(pending).for_each(|(to, from)| *to = *from);
      self.end = pending.len();
      self.start = 0;
      self.buffer = larger.into_boxed_slice();
    }
  }
}

enum Step {
  Frame(Header, Kind),
  Skip(usize),
  Unknown(usize),
  Wait,
}

/// How many bytes at the front cannot begin a frame.
fn before_magic(bytes: &[u8]) -> usize {
  let mut at = 0;
  while let Some(rest) = bytes.get(at..) {
    let Some(candidate) = rest.iter().position(|byte| *byte == MAGIC[0]) else { return bytes.len() };
    at += candidate;
    let rest = rest.get(candidate..).unwrap_or_default();
    if rest.iter().zip(&MAGIC).all(|(byte, magic)| byte == magic) {
      return at;
    }
    at += 1;
  }
  bytes.len()
}

impl<'a> Frame<'a> {
  /// The frame that these bytes are, from the first to the last, whoever its holder is; `None`: they are no frame, less
  /// than one, or more.
  pub fn whole(bytes: &'a [u8]) -> Option<Self> {
    let (head, payload) = bytes.split_first_chunk::<HEADER>()?;
    let header = Header::parse(head)?;
    let is_whole = payload.len() == header.length && payload_check(header.key, payload) == header.check;
    let kind = header.kind.filter(|_| is_whole)?;
    Some(Self { kind, key: header.key, fence: header.fence, op: header.op, payload })
  }

  pub(super) const fn reader(&self) -> super::codec::Reader<'a> {
    super::codec::Reader::new(self.payload)
  }
}
