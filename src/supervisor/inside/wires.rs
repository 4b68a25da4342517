//! Which pair of descriptors the holder is at.

use std::os::fd::BorrowedFd;
#[cfg(feature = "fuzzing")]
use std::os::fd::{AsFd, OwnedFd};

use super::bridge::Bridged;

/// Process 1's own pair, and one that was handed over, which comes before it.
pub struct Wires {
  own: Own,
  bridged: Option<Bridged>,
}

/// Process 1's own pair.
enum Own {
  /// Standard input and output, which the engine's attach reaches.
  Standard,
  /// What a process that is not process 1 has in their place.
  #[cfg(feature = "fuzzing")]
  Pair(OwnedFd, OwnedFd),
}

impl Wires {
  /// Standard input and output.
  pub const fn standard() -> Self {
    Self { own: Own::Standard, bridged: None }
  }

  /// Others: what is read from, what is written to.
  #[cfg(feature = "fuzzing")]
  pub const fn pair(input: OwnedFd, output: OwnedFd) -> Self {
    Self { own: Own::Pair(input, output), bridged: None }
  }

  /// A stream of its own; process 1's is not looked at.
  pub fn bridge(&mut self, bridged: Bridged) {
    self.bridged = Some(bridged);
  }

  /// Back to process 1's own. `false`: there was no other.
  pub fn leave_bridge(&mut self) -> bool {
    self.bridged.take().is_some()
  }

  /// Where the holder's frames come from.
  pub fn input(&self) -> BorrowedFd<'_> {
    match (&self.bridged, &self.own) {
      (Some(bridged), _) => bridged.input(),
      (None, Own::Standard) => rustix::stdio::stdin(),
      #[cfg(feature = "fuzzing")]
      (None, Own::Pair(input, _)) => input.as_fd(),
    }
  }

  /// Where frames to the holder go.
  pub fn output(&self) -> BorrowedFd<'_> {
    match (&self.bridged, &self.own) {
      (Some(bridged), _) => bridged.output(),
      (None, Own::Standard) => rustix::stdio::stdout(),
      #[cfg(feature = "fuzzing")]
      (None, Own::Pair(_, output)) => output.as_fd(),
    }
  }

  /// What is ready to be read once the stream is over, where that is not the input itself.
  pub fn end(&self) -> Option<BorrowedFd<'_>> {
    self.bridged.as_ref().map(Bridged::connection)
  }
}
