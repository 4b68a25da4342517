//! Where a body ends, seen from the bytes as they pass.

use super::chunked::Chunked;

/// How a head says that its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Length {
  /// After so many bytes.
  Exact(u64),
  /// After the last chunk and its trailer.
  Chunked,
}

/// Follows a body to its end.
#[derive(Debug)]
pub(in crate::proxy) enum Body {
  /// So many bytes are missing.
  Exact(u64),
  /// Chunks.
  Chunked(Chunked),
  /// Everything until the connection ends.
  UntilClose,
}

impl Body {
  /// A body with this length; `None` means that there is none.
  pub(in crate::proxy) fn of(length: Option<Length>) -> Self {
    match length {
      None => Self::Exact(0),
      Some(Length::Exact(bytes)) => Self::Exact(bytes),
      Some(Length::Chunked) => Self::Chunked(Chunked::default()),
    }
  }

  /// How many bytes at the front of `bytes` belong to the body. An error says what is wrong with its chunks.
  pub(in crate::proxy) fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
    match self {
      Self::UntilClose => Ok(bytes.len()),
      Self::Chunked(chunks) => chunks.take(bytes),
      Self::Exact(left) => {
        let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
        *left -= taken as u64;
        Ok(taken)
      }
    }
  }

  /// True if nothing more can belong to it.
  pub(in crate::proxy) const fn is_complete(&self) -> bool {
    match self {
      Self::Exact(left) => *left == 0,
      Self::Chunked(chunks) => chunks.is_complete(),
      Self::UntilClose => false,
    }
  }

  /// True if the connection may end here without cutting it.
  pub(in crate::proxy) const fn may_end(&self) -> bool {
    matches!(self, Self::UntilClose) || self.is_complete()
  }
}
