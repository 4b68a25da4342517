//! Flow control of one stream: absolute offsets, so that saying a limit twice, or to a new holder, does no harm.

/// The peer broke the rules of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
  /// The piece does not begin where the last one ended.
  #[error("a piece of the stream is missing or came twice")]
  Gap,
  /// More than was granted.
  #[error("the peer sent more than it was allowed to")]
  Overrun,
}

/// The sending end: how much may be sent now.
#[derive(Clone, Copy, Debug)]
pub struct SendWindow {
  sent: u64,
  limit: u64,
}

impl SendWindow {
  /// `limit` bytes may be sent before the peer grants more.
  pub const fn new(limit: u64) -> Self {
    Self { sent: 0, limit }
  }

  /// Offset of the next byte.
  pub const fn sent(&self) -> u64 {
    self.sent
  }

  /// How many bytes may be sent now.
  pub const fn room(&self) -> u64 {
    self.limit.saturating_sub(self.sent)
  }

  /// So many bytes were sent.
  pub const fn advance(&mut self, count: u64) {
    self.sent = self.sent.saturating_add(count);
  }

  /// The peer granted bytes up to this offset. A lower one than before is ignored.
  pub const fn raise(&mut self, limit: u64) {
    if limit > self.limit {
      self.limit = limit;
    }
  }
}

/// The receiving end: what was granted, and when to grant more.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveWindow {
  size: u64,
  received: u64,
  consumed: u64,
  granted: u64,
}

impl ReceiveWindow {
  /// The peer starts with `size` bytes and is kept that far ahead of what was consumed.
  pub const fn new(size: u64) -> Self {
    Self { size, received: 0, consumed: 0, granted: size }
  }

  /// A new holder takes over a stream of which `offset` bytes are gone; [`Self::limit`] is what it grants.
  pub const fn resume(size: u64, offset: u64) -> Self {
    Self { size, received: offset, consumed: offset, granted: offset.saturating_add(size) }
  }

  /// Bytes that arrived in all.
  pub const fn received(&self) -> u64 {
    self.received
  }

  /// Offset up to which the peer may send.
  pub const fn limit(&self) -> u64 {
    self.granted
  }

  /// A piece of `count` bytes arrived that says it begins at `offset`.
  pub const fn receive(&mut self, offset: u64, count: u64) -> Result<(), FlowError> {
    if offset != self.received {
      return Err(FlowError::Gap);
    }
    match self.received.checked_add(count) {
      Some(received) if received <= self.granted => {
        self.received = received;
        Ok(())
      }
      _ => Err(FlowError::Overrun),
    }
  }

  /// So many bytes found their reader. `Some`: grant up to this offset now, since half of the window is used up.
  pub const fn consume(&mut self, count: u64) -> Option<u64> {
    self.consumed = self.consumed.saturating_add(count);
    let limit = self.consumed.saturating_add(self.size);
    if limit.saturating_sub(self.granted) < self.size.div_ceil(2) {
      return None;
    }
    self.granted = limit;
    Some(limit)
  }
}
