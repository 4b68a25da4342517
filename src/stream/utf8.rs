//! Text of bytes that came in pieces or were cut: a character is never split.

/// Text for a reader: what is no UTF-8 becomes U+FFFD. Where the bytes were `cut` at a cap, an incomplete character at
/// the end is left out instead: it was whole before the cut.
pub fn decode_lossy(bytes: &[u8], cut: bool) -> String {
  let whole = if cut { bytes.len() - incomplete_end(bytes) } else { bytes.len() };
  String::from_utf8_lossy(bytes.get(..whole).unwrap_or(bytes)).into_owned()
}

/// A part of a file as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
  /// The whole characters of the part.
  pub text: &'a str,
  /// Bytes left out at the start, of a character that began before the part.
  pub skipped: usize,
  /// Bytes left out at the end, of a character that goes on behind it.
  pub dropped: usize,
}

/// Reads a part of a file as UTF-8: a character that the start (`cut_start`) or the end (`cut_end`) of the part cut is
/// left out. The error is the position of the first byte that is no UTF-8.
pub fn decode_part(bytes: &[u8], cut_start: bool, cut_end: bool) -> Result<Part<'_>, usize> {
  let skipped = if cut_start { continuation_start(bytes) } else { 0 };
  let rest = bytes.get(skipped..).unwrap_or_default();
  let dropped = if cut_end { incomplete_end(rest) } else { 0 };
  let middle = rest.get(..rest.len() - dropped).unwrap_or_default();
  match std::str::from_utf8(middle) {
    Ok(text) => Ok(Part { text, skipped, dropped }),
    Err(error) => Err(skipped + error.valid_up_to()),
  }
}

/// How many bytes at the start continue a character (at most three: RFC 3629, section 3).
fn continuation_start(bytes: &[u8]) -> usize {
  bytes.iter().take(3).take_while(|byte| is_continuation(**byte)).count()
}

/// How many bytes at the end begin a character that would need more.
fn incomplete_end(bytes: &[u8]) -> usize {
  for (index, byte) in bytes.iter().rev().take(3).enumerate() {
    if is_continuation(*byte) {
      continue;
    }
    let tail = bytes.get(bytes.len() - index - 1..).unwrap_or_default();
    // `error_len` is absent where the input ended inside a character that was right so far.
    let incomplete = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
    return if incomplete { index + 1 } else { 0 };
  }
  0
}

const fn is_continuation(byte: u8) -> bool {
  byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  #[test]
  fn a_cut_character_is_left_out_and_a_broken_one_replaced() {
    let text = "aé€😀".as_bytes();
    assert_eq!(decode_lossy(&text[..2], true), "a");
    assert_eq!(decode_lossy(&text[..2], false), "a\u{fffd}");
    for cut in 7..10 {
      assert_eq!(decode_lossy(&text[..cut], true), "aé€");
    }
    assert_eq!(decode_lossy(text, true), "aé€😀");
    assert_eq!(decode_lossy(b"a\xff", true), "a\u{fffd}");
    assert_eq!(decode_lossy(b"\x80\x80\x80\x80", true), "\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
    assert_eq!(decode_lossy(b"", true), "");
    // An overlong form and half a surrogate are never right, however they go on.
    assert_eq!(decode_lossy(b"a\xc0", true), "a\u{fffd}");
    assert_eq!(decode_lossy(b"a\xed\xa0", true), "a\u{fffd}\u{fffd}");
  }

  #[test]
  fn a_part_gives_whole_characters() {
    let bytes = "é€x".as_bytes();
    assert_eq!(decode_part(bytes, false, false), Ok(Part { text: "é€x", skipped: 0, dropped: 0 }));
    assert_eq!(decode_part(&bytes[1..4], true, true), Ok(Part { text: "", skipped: 1, dropped: 2 }));
    assert_eq!(decode_part(&bytes[1..], true, false), Ok(Part { text: "€x", skipped: 1, dropped: 0 }));
    assert_eq!(decode_part(&bytes[..4], false, false), Err(2));
    assert_eq!(decode_part(&bytes[1..], false, false), Err(0));
    assert_eq!(decode_part(b"ab\xffcd", true, true), Err(2));
    assert_eq!(decode_part(b"", true, true), Ok(Part { text: "", skipped: 0, dropped: 0 }));
  }

  proptest! {
    #[test]
    fn any_two_parts_of_a_text_lose_at_most_the_character_between_them(text in "\\PC{0,20}", at in 0usize..80) {
      let bytes = text.as_bytes();
      let at = at.min(bytes.len());
      let first = decode_part(&bytes[..at], false, true).unwrap();
      let second = decode_part(&bytes[at..], true, false).unwrap();
      prop_assert_eq!(first.text.len() + first.dropped + second.skipped + second.text.len(), bytes.len());
      prop_assert!(first.dropped + second.skipped <= 4);
      prop_assert!(text.starts_with(first.text) && text.ends_with(second.text));
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), start: bool, end: bool) {
      let _part = decode_part(&bytes, start, end);
      let _text = decode_lossy(&bytes, end);
    }
  }
}
