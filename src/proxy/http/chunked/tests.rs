use proptest::prelude::*;

use super::*;

#[track_caller]
fn length(text: &str) -> Result<usize, &'static str> {
  let mut whole = Chunked::default();
  let taken = whole.take(text.as_bytes())?;
  assert!(whole.is_complete() || taken == text.len());
  let mut pieces = Chunked::default();
  let mut by_pieces = 0;
  for byte in text.bytes() {
    by_pieces += pieces.take(&[byte])?;
  }
  assert_eq!((by_pieces, pieces.is_complete()), (taken, whole.is_complete()));
  Ok(taken)
}

#[test]
fn a_body_ends_behind_its_trailer() {
  for body in [
    "0\r\n\r\n",
    "5\r\nhello\r\n0\r\n\r\n",
    "00A\r\n0123456789\r\n1\r\nx\r\n000\r\n\r\n",
    "5;name=value\r\nhello\r\n0;last\r\n\r\n",
    "1\r\n\r\r\n0\r\nA: b\r\nC: d\r\n\r\n",
    // A name that only begins like one that may not be there, and one that is longer than all of them.
    "0\r\nHost-Digest: b\r\nX-Proxy-Authorization-And-More:\r\n\r\n",
  ] {
    assert_eq!(length(&format!("{body}GET / HTTP/1.1\r\n")), Ok(body.len()), "{body:?}");
  }
  assert_eq!(length("5\r\nhel"), Ok(6));
}

#[test]
fn malformed_chunks_are_refused() {
  for body in [
    "\r\n",
    "x\r\n",
    " 5\r\nhello\r\n",
    "5 \r\nhello\r\n",
    "+5\r\nhello\r\n",
    "0x5\r\nhello\r\n",
    "-1\r\n",
    "5\nhello\r\n",
    "5\rhello\r\n",
    "5\r\nhello\n",
    "5\r\nhelloX\r\n",
    "5;a\nb\r\nhello\r\n",
    "5;a\0\r\n",
    ";a\r\n",
    "00000000000000005\r\nhello\r\n",
    "0\r\n A: b\r\n\r\n",
    "0\r\nA: b\n\r\n",
    "0\r\n\n",
    "0\r\nno colon\r\n\r\n",
    "0\r\n: b\r\n\r\n",
    "0\r\nA : b\r\n\r\n",
    "0\r\nA\u{e4}: b\r\n\r\n",
    "0\r\nA: b\r\nContent-Length: 5\r\n\r\n",
    "0\r\ntransfer-encoding: chunked\r\n\r\n",
    "0\r\nHOST: other.test\r\n\r\n",
    "0\r\nProxy-Authorization: x\r\n\r\n",
  ] {
    assert_eq!(length(body), Err("has a malformed chunked body"), "{body:?}");
  }
}

#[test]
fn lines_and_trailers_have_an_end() {
  let line = |bytes: usize| format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(bytes - 1));
  assert!(length(&line(MAX_CHUNK_LINE_BYTES)).is_ok());
  assert!(length(&line(MAX_CHUNK_LINE_BYTES + 1)).is_err());
  let trailer = |bytes: usize| format!("0\r\nA:{}\r\n\r\n", "a".repeat(bytes - 2));
  assert!(length(&trailer(MAX_TRAILER_BYTES)).is_ok());
  assert!(length(&trailer(MAX_TRAILER_BYTES + 1)).is_err());
}

#[test]
fn an_announced_size_costs_nothing() {
  let mut chunks = Chunked::default();
  assert_eq!(chunks.take(b"FFFFFFFFFFFFFFFF\r\nabc"), Ok(21));
  assert!(!chunks.is_complete());
}

proptest! {
  #[test]
  fn any_chunks_are_followed_to_their_end(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8)) {
    let mut body = Vec::new();
    for part in &parts {
      body.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
      body.extend_from_slice(part);
      body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    let end = body.len();
    body.extend_from_slice(b"behind");
    prop_assert_eq!(Chunked::default().take(&body), Ok(end));
  }

  #[test]
  fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
    if let Ok(taken) = Chunked::default().take(&bytes) {
      prop_assert!(taken <= bytes.len());
    }
  }
}
