//! How a connection begins.

use super::codec::{Put, Reader};
use super::{HEADER, Kind, MAX_ACTIVE, MAX_RETAINED, SelfTest, WireError};

/// 256 random bits that only the holders of a lease and the supervisor know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token(pub [u8; 32]);

impl std::fmt::Debug for Token {
  fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    f.write_str("Token(..)")
  }
}

/// First frame of a host, under the key and fence of its encoder. The first hello that a supervisor ever hears is
/// believed: nobody else can have written to a container that did not run yet. Every later one must bring the token
/// and a higher fence, or repeat key and fence of the current holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
  /// What the supervisor must know already; the first one sets it.
  pub token: Token,
  /// What the next hello must bring: the same again, or another when the container changes hands.
  pub next_token: Token,
  /// Without a heartbeat of the holder for this long the supervisor kills everything and ends, in milliseconds; 0:
  /// never.
  pub dead_man_ms: u32,
}

/// Bytes of the payload: two tokens and the dead-man time.
const PAYLOAD: usize = 2 * 32 + 4;
/// Bytes of a whole frame with a hello.
pub const HELLO_FRAME: usize = HEADER + PAYLOAD;

impl Hello {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put(&self.token.0);
    out.put(&self.next_token.0);
    out.put_u32(self.dead_man_ms);
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    Ok(Self { token: Token(from.array()?), next_token: Token(from.array()?), dead_man_ms: from.u32()? })
  }
}

/// Something that this kernel and container allow, as a bit of [`Welcome::capabilities`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Capability {
  /// Files are opened with `openat2`; otherwise by a walk over the components.
  Openat2 = 1,
  /// Commands cannot signal each other (Landlock ABI 6 or newer).
  Scoped = 1 << 1,
  /// Every command runs behind our own system call filter.
  Filtered = 1 << 2,
  /// The supervisor's memory is locked.
  Locked = 1 << 3,
  /// A second stream by way of `bridge` is taken.
  Bridge = 1 << 4,
  /// The kernel's count of kills for memory is read: [`How::OutOfMemory`](super::How::OutOfMemory) is told apart.
  MemoryKills = 1 << 5,
  /// Connections to the proxy can be carried: the container's own loopback interface is up.
  Channels = 1 << 6,
}

/// Why a hello is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
  /// The token is not the one.
  Token = 1,
  /// There is, or was, a holder with this fence or a higher one.
  Fence = 2,
  /// The payload is not a hello of this version.
  Malformed = 3,
}

impl Refusal {
  pub(super) const fn from_u8(number: u8) -> Option<Self> {
    match number {
      1 => Some(Self::Token),
      2 => Some(Self::Fence),
      3 => Some(Self::Malformed),
      _ => None,
    }
  }
}

/// An operation that a new holder finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveOperation {
  /// Its id.
  pub op: u64,
  /// The request it came from.
  pub kind: Kind,
  /// It is over; its reply follows the welcome.
  pub done: bool,
  /// Bytes of each [`Stream`](super::Stream) that passed, by the stream's number: received, sent, sent.
  pub passed: [u64; 3],
}

/// The supervisor's answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
  /// [`super::image_digest`] of the running program.
  pub digest: [u8; 32],
  /// A set of [`Capability`].
  pub capabilities: u64,
  /// What the attacks at the start came to.
  pub self_test: SelfTest,
  /// Operations of earlier holders, and of this one where it repeated its hello.
  pub operations: Vec<ActiveOperation>,
}

impl Welcome {
  /// Whether a capability is there.
  pub const fn can(&self, capability: Capability) -> bool {
    self.capabilities & capability as u64 != 0
  }

  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put(&self.digest);
    out.put_u64(self.capabilities);
    self.self_test.write(out);
    out.put_u32(u32::try_from(self.operations.len()).unwrap_or(u32::MAX));
    for operation in &self.operations {
      out.put_u64(operation.op);
      out.put_u8(operation.kind as u8);
      out.put_flag(operation.done);
      operation.passed.iter().for_each(|passed| out.put_u64(*passed));
    }
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    let digest = from.array()?;
    let capabilities = from.u64()?;
    let self_test = SelfTest::read(from)?;
    let count = from.u32()? as usize;
    if count > MAX_ACTIVE + MAX_RETAINED {
      return Err(WireError::Invalid);
    }
    let operations = (0..count).map(|_| ActiveOperation::read(from)).collect::<Result<_, _>>()?;
    Ok(Self { digest, capabilities, self_test, operations })
  }
}

impl ActiveOperation {
  fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    Ok(Self {
      op: from.u64()?,
      kind: Kind::from_u8(from.u8()?).ok_or(WireError::Invalid)?,
      done: from.flag()?,
      passed: [from.u64()?, from.u64()?, from.u64()?],
    })
  }
}
