//! The frames between a host and the supervisor in its container: pure, no clock, no descriptors, shared by both ends.
//!
//! A host makes an [`Encoder`] and a [`Decoder`] with a key it chose at random and the fence of its lease, sends
//! [`ToInside::Hello`], and waits for [`ToHost::Welcome`]. Then each request opens an operation under an id of the
//! host's choice; [`SendWindow`] and [`ReceiveWindow`] keep its streams apart from those of the others; the last word
//! on it is [`ToHost::Done`], which is kept inside until [`ToInside::Ack`]. `docs/protocol.md` has the bytes.
//!
//! Nothing here trusts a length, a count or an order: what does not fit is garbage to the decoder or a [`WireError`].

mod channel;
mod codec;
mod decoder;
mod flow;
mod frame;
mod hello;
mod host_bound;
mod image;
mod inside_bound;
mod path;
mod reply;
mod request;
mod strings;
#[cfg(test)]
mod tests;

pub use channel::{CHANNEL_WINDOW, Close, Connect, Listen, MAX_CHANNELS, channel_number, is_channel};
pub use decoder::{Decoder, Frame, Skipped};
pub use flow::{FlowError, ReceiveWindow, SendWindow};
pub use frame::{Encoder, HEADER, Kind, MAGIC};
pub use hello::{ActiveOperation, Capability, HELLO_FRAME, Hello, Refusal, Token, Welcome};
pub use host_bound::ToHost;
pub use image::image_digest;
pub use inside_bound::ToInside;
pub use path::RelativePath;
pub use reply::{
  CommandEnd, Entry, EntryKind, Failed, Failure, How, Listed, NotStarted, Notice, Read, Reply, SelfTest,
  Started, TarDone, Written,
};
pub use request::{Exec, List, ReadFile, TarIn, TarOut, UNTIL_END, WriteFile};
pub use strings::{Strings, StringsBuf};

/// Version of the frame layout and of every payload. A supervisor is pinned to its host by digest, so a mismatch is a
/// foreign supervisor, not an old one.
pub const VERSION: u8 = 1;
/// Longest payload of a frame other than a request to run a command: one read of a full default pipe and its prefix.
pub const MAX_PAYLOAD: usize = 64 * 1024 + DATA_PREFIX;
/// Longest payload of a request to run a command: 1 MiB of arguments, 256 KiB of variables and the rest.
pub const MAX_EXEC_PAYLOAD: usize = crate::limits::MAX_ARGS_BYTES + crate::limits::MAX_ENV_BYTES + 8192;
/// Bytes before the contents of a data frame: stream and offset.
pub const DATA_PREFIX: usize = 9;
/// Most contents of one data frame.
pub const MAX_DATA: usize = 64 * 1024;
/// As many zero bytes end the longest half frame that a dead host can have left. A host that finds no answer to its
/// hello sends them, and its hello again.
pub const PREAMBLE: usize = HEADER + MAX_EXEC_PAYLOAD;
/// What a host may send of each stream of a new operation before it was granted more.
pub const INITIAL_WINDOW: u64 = 128 * 1024;
/// Most operations that run at once.
pub const MAX_ACTIVE: usize = 64;
/// Most replies that are kept for a host that has not acknowledged them; with as many, a request is refused.
pub const MAX_RETAINED: usize = 256;

/// A payload that is not what its type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
  /// It ends before what it must hold.
  #[error("the payload is cut")]
  Cut,
  /// It goes on after what it may hold.
  #[error("the payload has bytes left over")]
  Surplus,
  /// A number, name or path that is not allowed.
  #[error("the payload holds a value that is not allowed")]
  Invalid,
  /// The frame does not belong to this direction.
  #[error("the frame does not belong to this direction")]
  Direction,
  /// Longer than its type allows.
  #[error("the payload is longer than its type allows")]
  TooLong,
}

/// A stream of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stream {
  /// What a command reads, what is written to a file, a tar on its way in, what a program gets from the proxy.
  Input = 0,
  /// What a command writes to standard output, what was read, the entries of a listing, a tar on its way out,
  /// what a program sends to the proxy.
  Output = 1,
  /// What a command writes to standard error.
  Error = 2,
}

impl Stream {
  /// The stream of that number.
  pub const fn from_u8(number: u8) -> Option<Self> {
    match number {
      0 => Some(Self::Input),
      1 => Some(Self::Output),
      2 => Some(Self::Error),
      _ => None,
    }
  }
}

/// A piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
  /// Which stream.
  pub stream: Stream,
  /// How many bytes of it came before: a new holder sees what it missed.
  pub offset: u64,
  /// The bytes, at most [`MAX_DATA`].
  pub bytes: &'a [u8],
}

/// How much of a stream may be sent in all, counted from its beginning. It never falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
  /// Which stream.
  pub stream: Stream,
  /// The sender may send up to this offset.
  pub limit: u64,
}
