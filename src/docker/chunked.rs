//! The chunked transfer coding (RFC 9112, section 7.1), taken apart as it comes. Only for connections that hyper does
//! not read: a hijacked one, whose reply some proxies in front of an engine encode.

/// Longest line with a chunk's size, extensions included; the RFC sets no bound.
const MAX_SIZE_LINE: usize = 256;

/// Where in the coding we are.
#[derive(Debug, Default)]
enum State {
  #[default]
  Size,
  Data(u64),
  /// The line end behind a chunk's data, of which this many bytes came.
  DataEnd,
  Trailer,
  End,
}

/// Decodes a chunked body, however it is cut into reads.
#[derive(Debug, Default)]
pub struct Chunked {
  state: State,
  line: Vec<u8>,
}

/// The bytes are no chunked body.
#[derive(Debug, thiserror::Error)]
#[error("the chunked body is malformed")]
pub struct ChunkedError;

impl Chunked {
  /// Appends the decoded bytes of `input` to `out`; what follows the last chunk's trailer is ignored.
  pub fn push(&mut self, mut input: &[u8], out: &mut impl Extend<u8>) -> Result<(), ChunkedError> {
    while !input.is_empty() {
      input = match self.state {
        State::End => return Ok(()),
        State::Data(left) => self.data(left, input, out),
        State::Size | State::DataEnd | State::Trailer => self.line(input)?,
      };
    }
    Ok(())
  }

  /// True once the last chunk and its trailer were read.
  pub const fn is_end(&self) -> bool {
    matches!(self.state, State::End)
  }

  fn data<'a>(&mut self, left: u64, input: &'a [u8], out: &mut impl Extend<u8>) -> &'a [u8] {
    let take = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    let (piece, rest) = input.split_at(take);
    out.extend(piece.iter().copied());
    let left = left - take as u64;
    self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
    rest
  }

  fn line<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], ChunkedError> {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (part, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
    self.line.extend_from_slice(part);
    if self.line.len() > MAX_SIZE_LINE {
      return Err(ChunkedError);
    }
    if end.is_some() {
      let line = std::mem::take(&mut self.line);
      self.end_line(line.trim_ascii())?;
    }
    Ok(rest)
  }

  fn end_line(&mut self, line: &[u8]) -> Result<(), ChunkedError> {
    self.state = match self.state {
      State::DataEnd if line.is_empty() => State::Size,
      State::DataEnd => return Err(ChunkedError),
      State::Trailer if line.is_empty() => State::End,
      State::Trailer => State::Trailer,
      _ => match chunk_size(line)? {
        0 => State::Trailer,
        size => State::Data(size),
      },
    };
    Ok(())
  }
}

fn chunk_size(line: &[u8]) -> Result<u64, ChunkedError> {
  let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
  let text = std::str::from_utf8(digits).map_err(|_error| ChunkedError)?;
  if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
    return Err(ChunkedError);
  }
  u64::from_str_radix(text, 16).map_err(|_error| ChunkedError)
}

#[cfg(test)]
mod tests {
  use super::*;

  fn decode(input: &[u8], step: usize) -> Result<(Vec<u8>, bool), ChunkedError> {
    let (mut chunked, mut out) = (Chunked::default(), Vec::new());
    for piece in input.chunks(step) {
      chunked.push(piece, &mut out)?;
    }
    Ok((out, chunked.is_end()))
  }

  #[test]
  fn any_cut_gives_the_same_bytes() {
    let body = b"3\r\nabc\r\n10;ext=1\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\nignored";
    for step in 1..=body.len() {
      let (out, end) = decode(body, step).unwrap();
      assert_eq!(out, b"abc0123456789abcdef");
      assert!(end);
    }
  }

  #[test]
  fn what_is_no_chunk_is_refused() {
    for body in [&b"x\r\n"[..], b"-1\r\n", b"\r\n", b"fffffffffffffffff\r\n", b"1\r\nab\r\n", &[b'1'; 300]] {
      assert!(decode(body, 1).is_err(), "{body:?}");
    }
    assert!(!decode(b"5\r\nab", 2).unwrap().1);
  }
}
