//! Which pair of descriptors the holder is at.

use std::os::fd::BorrowedFd;

use super::bridge::Bridged;

/// Process 1's own pair, or one that was handed over.
pub enum Wires {
  /// Standard input and output, which the engine's attach reaches.
  Own,
  /// A stream of its own; process 1's is not looked at.
  Bridged(Bridged),
}

impl Wires {
  /// Where the holder's frames come from.
  pub fn input(&self) -> BorrowedFd<'_> {
    match self {
      Self::Own => rustix::stdio::stdin(),
      Self::Bridged(bridged) => bridged.input(),
    }
  }

  /// Where frames to the holder go.
  pub fn output(&self) -> BorrowedFd<'_> {
    match self {
      Self::Own => rustix::stdio::stdout(),
      Self::Bridged(bridged) => bridged.output(),
    }
  }

  /// What is ready to be read once the stream is over, where that is not the input itself.
  pub fn end(&self) -> Option<BorrowedFd<'_>> {
    match self {
      Self::Own => None,
      Self::Bridged(bridged) => Some(bridged.connection()),
    }
  }
}
