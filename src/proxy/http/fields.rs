//! Header lines: which belong to the connection and end here, and what they say about the body.

use httparse::Header;

use super::body::Length;

/// Lines about one connection, which a proxy does not pass on (RFC 9110, section 7.6.1), and those that the proxy writes
/// itself: `Host` and what tells the body's length.
const OURS: &[&str] = &[
  "connection",
  "content-length",
  "host",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];
/// The longest of [`OURS`].
pub(super) const LONGEST: usize = "proxy-authorization".len();

/// True for a name that a trailer may not have: what the head alone may say, or one that is not passed on at all (RFC 9110,
/// section 6.5.1).
pub(super) fn is_ours(name: &[u8]) -> bool {
  OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours.as_bytes()))
}

/// What `Connection` may not name, since the message would then mean something else behind the proxy.
const FIXED: &[&str] = &["content-length", "host", "transfer-encoding"];

/// Refuses what lets two readers disagree: a line that goes on in the next one.
pub(super) fn check_lines(head: &[u8]) -> Result<(), &'static str> {
  let folded = head.windows(3).any(|three| matches!(three, [b'\r', b'\n', b' ' | b'\t']));
  if folded { Err("has a header line that begins with white space") } else { Ok(()) }
}

/// The values of one header, by its lower-case name.
pub(super) fn values<'a>(headers: &'a [Header<'_>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
  headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// What the lines say about the body. `None` says nothing: no body for a request, the connection's end for a reply.
pub(super) fn length(headers: &[Header<'_>]) -> Result<Option<Length>, &'static str> {
  let mut codings = values(headers, "transfer-encoding");
  let mut lengths = values(headers, "content-length");
  match (codings.next(), lengths.next()) {
    (None, None) => Ok(None),
    (Some(_), Some(_)) => Err("has both Transfer-Encoding and Content-Length"),
    (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() => {
      Ok(Some(Length::Chunked))
    }
    (Some(_), None) => Err("has a Transfer-Encoding other than one \"chunked\""),
    (None, Some(length)) if lengths.next().is_none() => {
      number(length).map(|length| Some(Length::Exact(length))).ok_or("has a Content-Length that is no number")
    }
    (None, Some(_)) => Err("has more than one Content-Length"),
  }
}

/// Writes the lines that are passed on, each as it came.
pub(super) fn write_passed(headers: &[Header<'_>], out: &mut Vec<u8>) -> Result<(), &'static str> {
  let named = named_by_connection(headers)?;
  for header in headers {
    let name = header.name.to_ascii_lowercase();
    if OURS.contains(&name.as_str()) || named.contains(&name) {
      continue;
    }
    write_line(header.name, header.value, out);
  }
  Ok(())
}

/// Writes one line.
pub(super) fn write_line(name: &str, value: &[u8], out: &mut Vec<u8>) {
  out.extend_from_slice(name.as_bytes());
  out.extend_from_slice(b": ");
  out.extend_from_slice(value);
  out.extend_from_slice(b"\r\n");
}

/// Writes the line that tells a body's length, as it was told to us, and the one that ends the connection after it.
pub(super) fn write_length(length: Option<Length>, out: &mut Vec<u8>) {
  match length {
    Some(Length::Exact(bytes)) => write_line("Content-Length", bytes.to_string().as_bytes(), out),
    Some(Length::Chunked) => write_line("Transfer-Encoding", b"chunked", out),
    None => {}
  }
  write_line("Connection", b"close", out);
  out.extend_from_slice(b"\r\n");
}

fn named_by_connection(headers: &[Header<'_>]) -> Result<Vec<String>, &'static str> {
  let mut named = Vec::new();
  for value in values(headers, "connection") {
    for name in value.split(|byte| *byte == b',') {
      let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase();
      if FIXED.contains(&name.as_str()) {
        return Err("has a Connection header that names one which every reader needs");
      }
      named.push(name);
    }
  }
  Ok(named)
}

fn number(text: &[u8]) -> Option<u64> {
  let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
  if digits { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}
