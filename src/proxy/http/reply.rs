//! The head of a server's reply to an `http://` request.

use httparse::{Response, Status};

use super::body::{Body, Length};
use super::fields;
use crate::limits::MAX_PROXY_HEADERS;

/// A reply's head.
#[derive(Debug)]
pub(in crate::proxy) struct Reply {
  /// The head to pass on.
  pub(in crate::proxy) head: Vec<u8>,
  /// What follows it.
  pub(in crate::proxy) next: Next,
}

/// What follows a head.
#[derive(Debug)]
pub(in crate::proxy) enum Next {
  /// Another head: this one was an interim reply (1xx).
  Head,
  /// The body.
  Body(Body),
}

/// Reads a whole head, its empty line included. An error says what is wrong, to follow "the server".
pub(in crate::proxy) fn parse(head: &[u8], is_head: bool) -> Result<Reply, &'static str> {
  fields::check_lines(head)?;
  let mut headers = [httparse::EMPTY_HEADER; MAX_PROXY_HEADERS];
  let mut parsed = Response::new(&mut headers);
  match parsed.parse(head) {
    Ok(Status::Complete(length)) if length == head.len() && head.starts_with(b"HTTP/1.") => {}
    _ => return Err("sent a malformed head"),
  }
  let (Some(code), Some(version)) = (parsed.code, parsed.version) else {
    return Err("sent a malformed head");
  };
  if code == 101 {
    return Err("changed the protocol, which it was not asked to");
  }
  let length = fields::length(parsed.headers)?;
  if version == 0 && length == Some(Length::Chunked) {
    return Err("sent Transfer-Encoding with HTTP/1.0");
  }
  let phrase = parsed.reason.unwrap_or_default();
  let mut out = format!("HTTP/1.{version} {code} {phrase}\r\n").into_bytes();
  fields::write_passed(parsed.headers, &mut out)?;
  if code < 200 {
    out.extend_from_slice(b"\r\n");
    return Ok(Reply { head: out, next: Next::Head });
  }
  fields::write_length(length, &mut out);
  let body = if is_head || matches!(code, 204 | 304) { Body::of(None) } else { body(length) };
  Ok(Reply { head: out, next: Next::Body(body) })
}

/// Without a length the body goes on until the server closes (RFC 9112, section 6.3).
fn body(length: Option<Length>) -> Body {
  if length.is_some() { Body::of(length) } else { Body::UntilClose }
}

#[cfg(test)]
mod tests;
