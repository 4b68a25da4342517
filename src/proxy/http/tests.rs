use super::*;

#[test]
fn a_head_ends_at_its_empty_line_however_it_is_cut() {
  let head = b"GET / HTTP/1.1\r\nA: b\r\n\r\n";
  let bytes = [head.as_slice(), b"rest\r\n\r\n"].concat();
  assert_eq!(HeadEnd::default().find(&bytes), Ok(Some(head.len())));
  let mut end = HeadEnd::default();
  for length in 0..head.len() {
    assert_eq!(end.find(&bytes[..length]), Ok(None), "{length}");
  }
  assert_eq!(end.find(&bytes[..head.len()]), Ok(Some(head.len())));
}

#[test]
fn lone_line_ends_and_nul_are_refused_as_soon_as_they_come() {
  for head in ["GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nA: b\n\n", "GET /\rHost", "\n", "A\r\r\n"] {
    let found = HeadEnd::default().find(head.as_bytes());
    assert_eq!(found, Err("has a bare carriage return or line feed in its head"), "{head:?}");
  }
  assert_eq!(HeadEnd::default().find(b"GET /\0"), Err("has a NUL byte in its head"));
}
