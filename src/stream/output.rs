//! Output that is kept up to a cap, counted while it is read.

/// Bytes up to a cap; what comes after is counted out, not kept.
#[derive(Debug)]
pub struct CappedOutput {
  data: Vec<u8>,
  cap: usize,
  exceeded: bool,
}

impl CappedOutput {
  /// Keeps at most `cap` bytes. Nothing is reserved ahead.
  pub fn new(cap: u64) -> Self {
    Self { data: Vec::new(), cap: usize::try_from(cap).unwrap_or(usize::MAX), exceeded: false }
  }

  /// Adds what fits. Exactly the cap is not yet too much.
  pub fn push(&mut self, piece: &[u8]) {
    let (kept, dropped) = piece.split_at(piece.len().min(self.cap - self.data.len()));
    self.data.extend_from_slice(kept);
    self.exceeded |= !dropped.is_empty();
  }

  /// True once more than the cap was pushed.
  pub const fn exceeded(&self) -> bool {
    self.exceeded
  }

  /// What was kept.
  pub fn into_bytes(self) -> Vec<u8> {
    self.data
  }

  /// What was kept so far.
  pub fn as_bytes(&self) -> &[u8] {
    &self.data
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_cap_is_reached_exactly_and_passed_by_one() {
    let mut output = CappedOutput::new(4);
    output.push(b"ab");
    output.push(b"cd");
    assert!(!output.exceeded());
    output.push(b"e");
    assert!(output.exceeded());
    assert_eq!(output.into_bytes(), b"abcd");
  }

  #[test]
  fn a_cap_of_zero_keeps_nothing() {
    let mut output = CappedOutput::new(0);
    output.push(b"");
    assert!(!output.exceeded());
    output.push(b"x");
    assert!(output.exceeded());
    assert_eq!(output.as_bytes(), b"");
  }
}
