use proptest::prelude::*;

use super::*;

#[test]
fn what_is_no_utf8_is_replaced() {
  for (bytes, text) in [
    (b"plain".as_slice(), "plain"),
    (b"", ""),
    (b"a\xffb", "a\u{fffd}b"),
    (b"\xfe\xff", "\u{fffd}\u{fffd}"),
    (b"\xc3", "\u{fffd}"),
    (b"\xe2\x82", "\u{fffd}"),
    (b"a\xe2\x82z", "a\u{fffd}z"),
    (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xc0\x80", "\u{fffd}\u{fffd}"),
    ("é ✓ 🦀".as_bytes(), "é ✓ 🦀"),
    (b"\0\n", "\0\n"),
  ] {
    assert_eq!(decode_lossy(bytes, false), text, "{}", bytes.escape_ascii());
  }
}

#[test]
fn a_cap_inside_a_character_drops_it() {
  let text = "aé✓🦀";
  for end in 0..=text.len() {
    let whole = (0..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap();
    assert_eq!(decode_lossy(&text.as_bytes()[..end], true), &text[..whole], "cut at {end}");
  }
}

#[test]
fn a_cap_drops_nothing_that_no_byte_could_complete() {
  for (bytes, text) in [
    (b"a\x80".as_slice(), "a\u{fffd}"),
    (b"a\xff", "a\u{fffd}"),
    (b"\xe2\x28", "\u{fffd}("),
    (b"\xed\xa0", "\u{fffd}\u{fffd}"),
    (b"\xf0\x80", "\u{fffd}\u{fffd}"),
    (b"\xff\xf0\x9f\xa6", "\u{fffd}"),
    (b"\x80\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
  ] {
    assert_eq!(decode_lossy(bytes, true), text, "{}", bytes.escape_ascii());
  }
}

#[test]
fn a_range_is_trimmed_at_both_ends() {
  let range = |text, skipped, dropped| Ok(TextRange { text, skipped, dropped });
  let crab = "🦀".as_bytes();
  assert_eq!(trim_range(b"plain", false, false), range("plain", 0, 0));
  assert_eq!(trim_range(b"", true, true), range("", 0, 0));
  assert_eq!(trim_range(&[&crab[1..], b"a"].concat(), true, false), range("a", 3, 0));
  assert_eq!(trim_range(&[b"a", &crab[..3]].concat(), false, true), range("a", 0, 3));
  assert_eq!(trim_range(&crab[2..3], true, true), range("", 1, 0));
  assert_eq!(trim_range("é".as_bytes(), true, true), range("é", 0, 0));
}

#[test]
fn what_is_no_utf8_has_its_place_named() {
  assert_eq!(trim_range(b"ab\xffc", false, false), Err(2));
  assert_eq!(trim_range(b"ab\xffc", true, true), Err(2));
  // At the ends of the file itself nothing is trimmed.
  assert_eq!(trim_range(b"\x80a", false, false), Err(0));
  assert_eq!(trim_range(b"a\xc3", false, false), Err(1));
  // No character has so many bytes.
  assert_eq!(trim_range(b"\x80\x80\x80\x80a", true, true), Err(3));
  assert_eq!(trim_range(b"\xa9a\xff", true, false), Err(2));
}

proptest! {
  #[test]
  fn any_range_of_a_text_is_its_whole_characters(text in "[aé✓🦀]{0,12}", from in 0_usize..40, to in 0_usize..40) {
    let bytes = text.as_bytes();
    let to = to.min(bytes.len());
    let from = from.min(to);
    let range = trim_range(&bytes[from..to], from > 0, to < bytes.len()).unwrap();
    let start = from + range.skipped;
    prop_assert!(text.is_char_boundary(start) && text.is_char_boundary(start + range.text.len()) || range.text.is_empty());
    prop_assert_eq!(range.skipped + range.text.len() + range.dropped, to - from);
    prop_assert_eq!(range.text.as_bytes(), &bytes[start..start + range.text.len()]);
    prop_assert!(range.skipped <= 3 && range.dropped <= 3);
  }

  #[test]
  fn a_cap_differs_at_the_end_only(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
    let whole = decode_lossy(&bytes, false);
    let cut = decode_lossy(&bytes, true);
    let added = whole.strip_prefix(&cut);
    prop_assert!(matches!(added, Some("" | "\u{fffd}")), "{:?}", added);
  }
}
