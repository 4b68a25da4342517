//! HTTP/1 as the proxy reads it: heads, and where bodies end. Stricter than the RFC wherever two readers could disagree.

pub(super) mod body;
pub(super) mod chunked;
pub(super) mod fields;
pub(super) mod reply;
pub(super) mod request;

/// Looks for the empty line that ends a head. Gets the head as far as it is there, each time it has grown.
#[derive(Debug, Default)]
pub(super) struct HeadEnd {
  /// Where the next byte to look at is.
  at: usize,
}

impl HeadEnd {
  /// The length of the head with its empty line, `None` if that has not come yet. A line feed or carriage return that
  /// stands alone is an error: readers disagree on whether it ends a line.
  pub(super) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    while let Some(byte) = bytes.get(self.at) {
      let before = self.at.checked_sub(1).and_then(|at| bytes.get(at));
      match (before, byte) {
        (Some(b'\r'), b'\n') => {}
        (Some(b'\r'), _) | (_, b'\n') => return Err("has a bare carriage return or line feed in its head"),
        (_, 0) => return Err("has a NUL byte in its head"),
        _ => {}
      }
      self.at += 1;
      if bytes.get(..self.at).is_some_and(|front| front.ends_with(b"\r\n\r\n")) {
        return Ok(Some(self.at));
      }
    }
    Ok(None)
  }
}

#[cfg(test)]
mod tests;
