//! Text out of bytes that may be none, or that were cut in the middle of a character.

/// Longest tail of a character whose beginning is missing: UTF-8 has four bytes at most.
const MAX_TAIL: usize = 3;

/// The bytes as text, with U+FFFD for what is no UTF-8. With `cut`, they ended at a cap: a character whose end is
/// missing is dropped then, since nobody wrote it wrongly.
pub fn decode_lossy(bytes: &[u8], cut: bool) -> String {
  let whole = if cut { bytes.len() - incomplete_tail(bytes) } else { bytes.len() };
  String::from_utf8_lossy(bytes.get(..whole).unwrap_or(bytes)).into_owned()
}

/// A range of a file as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRange<'a> {
  /// The whole characters in it.
  pub text: &'a str,
  /// Bytes left out before them: the end of a character that begins before the range.
  pub skipped: usize,
  /// Bytes left out after them: the beginning of one that ends behind it.
  pub dropped: usize,
}

/// The whole characters of a range of a file. `inside` says that the range does not begin where the file does, `goes_on`
/// that the file goes on behind it; only there may a character be incomplete. The error is the position in `data` of
/// the first byte that is no UTF-8.
pub fn trim_range(data: &[u8], inside: bool, goes_on: bool) -> Result<TextRange<'_>, usize> {
  let skipped =
    if inside { data.iter().take(MAX_TAIL).take_while(|byte| is_continuation(**byte)).count() } else { 0 };
  let rest = data.get(skipped..).unwrap_or_default();
  let dropped = if goes_on { incomplete_tail(rest) } else { 0 };
  let whole = rest.get(..rest.len() - dropped).unwrap_or(rest);
  match std::str::from_utf8(whole) {
    Ok(text) => Ok(TextRange { text, skipped, dropped }),
    Err(error) => Err(skipped + error.valid_up_to()),
  }
}

/// How many bytes at the end begin a character that more bytes could complete.
fn incomplete_tail(bytes: &[u8]) -> usize {
  let starts = 1..=MAX_TAIL.min(bytes.len());
  let is_incomplete = |length: &usize| {
    let tail = bytes.get(bytes.len() - length..).unwrap_or_default();
    // No error length: it ended too early, and so far it was right.
    std::str::from_utf8(tail).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
  };
  starts.into_iter().find(is_incomplete).unwrap_or(0)
}

const fn is_continuation(byte: u8) -> bool {
  byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests;
