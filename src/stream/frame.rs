//! The multiplexed stream of exec and attach without a TTY: an 8-byte header (stream, three zero bytes, big-endian
//! length) before each piece of output (Engine API, "Stream format" of `POST /containers/{id}/attach`).
//!
//! The caller knows whether a TTY was asked for; nothing is guessed from the content. A frame is never collected:
//! what has come is passed on at once, so an announced length costs nothing until its bytes are there.

use thiserror::Error as ThisError;

/// Length of a frame's header.
const HEADER_BYTES: usize = 8;

/// Which of a command's streams some bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
  /// Standard output.
  Stdout,
  /// Standard error.
  Stderr,
}

/// Why a stream is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum FrameError {
  /// The first byte of a header names no stream, or its padding is not zero.
  #[error("a frame began with {0:02x?}, which is no stream header")]
  BadHeader([u8; 4]),
  /// The engine reported a failure of its own inside the stream (moby's `stdcopy` stream 3).
  #[error("the engine broke the stream off")]
  Engine,
  /// The stream ended inside a header.
  #[error("the stream ended after {0} of the 8 bytes of a frame header")]
  CutHeader(usize),
  /// The stream ended inside a frame.
  #[error("the stream ended {0} bytes before the end of a frame")]
  CutFrame(u32),
}

/// Takes a multiplexed stream apart, however its bytes are cut into reads.
#[derive(Debug, Default)]
pub struct Demux {
  header: [u8; HEADER_BYTES],
  header_len: usize,
  channel: Option<Channel>,
  remaining: u32,
}

impl Demux {
  /// Passes what `input` holds of each stream to `sink`, in order; pieces are never empty.
  pub fn push<'a>(
    &mut self,
    mut input: &'a [u8],
    mut sink: impl FnMut(Channel, &'a [u8]),
  ) -> Result<(), FrameError> {
    while !input.is_empty() {
      let Some(channel) = self.channel else {
        input = self.take_header(input)?;
        continue;
      };
      let (piece, rest) = input.split_at(input.len().min(self.remaining as usize));
      input = rest;
      // A piece is at most `remaining` long, so its length fits.
      self.remaining -= u32::try_from(piece.len()).unwrap_or(self.remaining);
      if self.remaining == 0 {
        self.channel = None;
      }
      sink(channel, piece);
    }
    Ok(())
  }

  /// To be called at the end of the stream: an error where it stopped half way.
  pub const fn finish(&self) -> Result<(), FrameError> {
    match (self.channel, self.header_len) {
      (Some(_), _) => Err(FrameError::CutFrame(self.remaining)),
      (None, 0) => Ok(()),
      (None, cut) => Err(FrameError::CutHeader(cut)),
    }
  }

  fn take_header<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], FrameError> {
    let (part, rest) = input.split_at(input.len().min(HEADER_BYTES - self.header_len));
    for (slot, byte) in self.header.iter_mut().skip(self.header_len).zip(part) {
      *slot = *byte;
    }
    self.header_len += part.len();
    if self.header_len == HEADER_BYTES {
      self.begin_frame()?;
    }
    Ok(rest)
  }

  fn begin_frame(&mut self) -> Result<(), FrameError> {
    let [stream, pad0, pad1, pad2, len @ ..] = self.header;
    let channel = match (stream, pad0, pad1, pad2) {
      // Stream 0 is what was typed, echoed on standard output.
      (0 | 1, 0, 0, 0) => Channel::Stdout,
      (2, 0, 0, 0) => Channel::Stderr,
      (3, 0, 0, 0) => return Err(FrameError::Engine),
      _ => return Err(FrameError::BadHeader([stream, pad0, pad1, pad2])),
    };
    self.header_len = 0;
    self.remaining = u32::from_be_bytes(len);
    self.channel = (self.remaining > 0).then_some(channel);
    Ok(())
  }
}

#[cfg(test)]
mod tests;
