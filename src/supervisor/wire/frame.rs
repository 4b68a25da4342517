//! The header of a frame, and writing frames.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::codec::Put;
use super::{MAX_EXEC_PAYLOAD, MAX_PAYLOAD, VERSION, WireError};

/// First bytes of a frame. Two of them never occur in UTF-8, so text is no candidate.
pub const MAGIC: [u8; 4] = [0xF5, b'Z', b'S', 0xFB];
/// Bytes of a header.
pub const HEADER: usize = 48;
/// Offset of the header's own check, which covers all before it.
const HEADER_CHECK: usize = 44;

macro_rules! kinds {
  ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
    /// What a frame is. The numbers are the protocol's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Kind { $($(#[$doc])* $name = $number,)* }

    impl Kind {
      /// Every kind.
      pub const ALL: &[Self] = &[$(Self::$name,)*];

      /// The kind of that number.
      pub const fn from_u8(number: u8) -> Option<Self> {
        match number { $($number => Some(Self::$name),)* _ => None }
      }
    }
  };
}

kinds! {
  /// Host: who I am. The only frame that is looked at under a key that is not the current one.
  Hello = 0x01,
  /// Supervisor: who I am, and what is going on.
  Welcome = 0x02,
  /// Supervisor: this hello is not accepted.
  Refused = 0x03,
  /// Both: alive. The supervisor sends the host's number back.
  Heartbeat = 0x04,
  /// Host: kill everything and end.
  Shutdown = 0x05,
  /// Host: the reply of this operation arrived; forget it.
  Ack = 0x06,
  /// Supervisor: something that belongs to no operation.
  Notice = 0x07,
  /// Host: read a part of a file.
  ReadFile = 0x10,
  /// Host: replace a file.
  WriteFile = 0x11,
  /// Host: list a directory.
  List = 0x12,
  /// Host: run a command.
  Exec = 0x13,
  /// Host: a tar of the workspace, please.
  TarOut = 0x14,
  /// Host: unpack a tar into the workspace.
  TarIn = 0x15,
  /// Host: try the known attacks once more.
  SelfTest = 0x16,
  /// Host: listen inside for connections to the proxy.
  Listen = 0x17,
  /// Supervisor: a connection to the proxy was accepted; it is a new channel.
  Connect = 0x18,
  /// Both: a piece of a stream.
  Data = 0x20,
  /// Both: the end of a stream.
  End = 0x21,
  /// Both: how far a stream may be sent.
  Credit = 0x22,
  /// Host: stop this operation.
  Cancel = 0x23,
  /// Host: send a signal to this command's first process.
  Signal = 0x24,
  /// Both: the end of a channel; the host's with number 0: of all, and none is opened any more.
  Close = 0x25,
  /// Supervisor: the operation began; what is known by now.
  Started = 0x30,
  /// Supervisor: the command and everything it started is gone. Output may still follow.
  Exited = 0x31,
  /// Supervisor: the last word on an operation, kept until acknowledged.
  Done = 0x32,
}

impl Kind {
  /// Longest payload of this kind.
  pub const fn max_payload(self) -> usize {
    match self {
      Self::Exec => MAX_EXEC_PAYLOAD,
      Self::Hello | Self::Refused | Self::Heartbeat | Self::Shutdown | Self::Ack => 256,
      _ => MAX_PAYLOAD,
    }
  }
}

/// Writes the frames of one holder (or, inside, to one holder).
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
  key: u64,
  fence: u64,
}

impl Encoder {
  /// `key` is random and chosen by the host for each connection: contents of files and output of commands cannot
  /// know it, so no frame can be hidden in them. `fence` is the epoch of the host's lease.
  pub const fn new(key: u64, fence: u64) -> Self {
    Self { key, fence }
  }

  /// The key of its frames.
  pub const fn key(&self) -> u64 {
    self.key
  }

  /// The fence of its frames.
  pub const fn fence(&self) -> u64 {
    self.fence
  }

  /// Appends a whole frame. On an error nothing was appended.
  pub fn frame(
    &self,
    out: &mut Vec<u8>,
    kind: Kind,
    op: u64,
    payload: impl FnOnce(&mut Vec<u8>),
  ) -> Result<(), WireError> {
    let start = self.begin(out);
    payload(out);
    self.finish(out, start, kind, op)
  }

  /// Makes room for a header; the payload is appended after it, then [`Self::finish`] is called with what this
  /// returned.
  pub fn begin(&self, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    start
  }

  /// Fills in the header that [`Self::begin`] made room for. On an error the frame is taken back.
  pub fn finish(&self, out: &mut Vec<u8>, start: usize, kind: Kind, op: u64) -> Result<(), WireError> {
    let header = match out.get(start..).and_then(|frame| frame.split_first_chunk::<HEADER>()) {
      Some((_, payload)) if payload.len() <= kind.max_payload() => self.header(kind, op, payload),
      _ => {
        out.truncate(start);
        return Err(WireError::TooLong);
      }
    };
    if let Some(room) = out.get_mut(start..start + HEADER) {
      room.copy_from_slice(&header);
    }
    Ok(())
  }

  fn header(&self, kind: Kind, op: u64, payload: &[u8]) -> [u8; HEADER] {
    let mut bytes = Vec::with_capacity(HEADER);
    bytes.put(&MAGIC);
    bytes.put(&[VERSION, kind as u8, 0, 0]);
    bytes.put_u64(self.key);
    bytes.put_u64(self.fence);
    bytes.put_u64(op);
    bytes.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    bytes.put_u64(payload_check(self.key, payload));
    bytes.put_u32(header_check(&bytes));
    let mut header = [0; HEADER];
    header.copy_from_slice(&bytes);
    header
  }
}

/// A header whose own check is right and whose length its kind allows. Nothing is said about its key yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
  /// `None`: a number that this version does not know.
  pub(super) kind: Option<Kind>,
  pub(super) key: u64,
  pub(super) fence: u64,
  pub(super) op: u64,
  pub(super) length: usize,
  pub(super) check: u64,
}

impl Header {
  /// `None` where these bytes are no header.
  pub(super) fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
    let checked = bytes.get(..HEADER_CHECK)?;
    let mut fields = super::codec::Reader::new(bytes);
    let fits = fields.array().ok()? == MAGIC && fields.u8().ok()? == VERSION;
    let kind = Kind::from_u8(fields.u8().ok()?);
    let reserved = fields.u16().ok()?;
    let header = Self {
      kind,
      key: fields.u64().ok()?,
      fence: fields.u64().ok()?,
      op: fields.u64().ok()?,
      length: fields.u32().ok()? as usize,
      check: fields.u64().ok()?,
    };
    let right = fits && reserved == 0 && header_check(checked) == fields.u32().ok()?;
    (right && header.length <= kind.map_or(MAX_PAYLOAD, Kind::max_payload)).then_some(header)
  }
}

/// Low half of XXH3 of the header before it.
fn header_check(bytes: &[u8]) -> u32 {
  (xxh3_64_with_seed(bytes, 0) & u64::from(u32::MAX)) as u32
}

/// XXH3 of the payload, seeded with the key.
pub(super) fn payload_check(key: u64, payload: &[u8]) -> u64 {
  xxh3_64_with_seed(payload, key)
}
