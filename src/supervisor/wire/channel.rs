//! Connections that programs in the container make to the proxy: each is a channel, opened by the supervisor under a
//! number of its own, with an input (to the program) and an output (from it) like any operation's.

use super::WireError;
use super::codec::{Put, Reader};

/// Most channels at once. The proxy's own bounds are below; this is what either end must hold memory for.
pub const MAX_CHANNELS: usize = 128;
/// What may be sent of each direction of a channel before more is granted. With [`MAX_CHANNELS`] it bounds what either end
/// holds for connections that nobody reads, 8 MiB; a channel that is read gets credit at once.
pub const CHANNEL_WINDOW: u32 = 64 * 1024;
/// Numbers of channels have this bit, those of operations do not: each end chooses its own.
const CHANNEL: u64 = 1 << 63;

/// Whether a number is that of a channel.
pub const fn is_channel(number: u64) -> bool {
  number & CHANNEL != 0
}

/// The number of the channel that was opened as the `count`-th. It is never used again.
pub const fn channel_number(count: u64) -> u64 {
  count | CHANNEL
}

/// Asks the supervisor to listen on the container's own loopback address and to open a channel for each connection, for
/// this holder, until it leaves; [`Reply::Listening`](super::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
  /// The port, not 0.
  pub port: u16,
  /// Bytes of each channel's output that may be sent before more is granted.
  pub window: u32,
}

/// A program has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
  /// Bytes of the channel's input that may be sent before more is granted.
  pub window: u32,
}

/// The end of a channel. What a host says is obeyed; what the supervisor says is its last word on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Close {
  /// What was sent arrives, then the connection ends as any other; what the program still sends goes nowhere.
  Ended = 1,
  /// The connection is reset: what is under way is lost, and the program learns that it is.
  Reset = 2,
}

impl Listen {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u16(self.port);
    out.put_u32(self.window);
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    let listen = Self { port: from.u16()?, window: from.u32()? };
    if listen.port == 0 { Err(WireError::Invalid) } else { Ok(listen) }
  }
}

impl Connect {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u32(self.window);
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    Ok(Self { window: from.u32()? })
  }
}

impl Close {
  pub(super) fn write(self, out: &mut Vec<u8>) {
    out.put_u8(self as u8);
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    match from.u8()? {
      1 => Ok(Self::Ended),
      2 => Ok(Self::Reset),
      _ => Err(WireError::Invalid),
    }
  }
}
