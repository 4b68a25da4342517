//! The readers of what clients and servers send, one by one. For `fuzz/` alone.

use super::http::body::{Body, Length};
use super::http::{HeadEnd, reply, request};
use super::tls::{HelloFault, Sniffed, Sniffer};
use super::{Authority, Host, Refusal};

/// A request's head as it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
  /// Where to.
  pub authority: Authority,
  /// What is sent to the server; `None` for a tunnel.
  pub head: Option<Vec<u8>>,
  /// How its body ends, in words.
  pub length: String,
}

/// A reply's head as it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
  /// What is sent to the client.
  pub head: Vec<u8>,
  /// What follows, in words.
  pub next: String,
}

/// The length of a head that comes in pieces, as soon as it is known.
pub fn head_end<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Option<usize>, &'static str> {
  let (mut end, mut bytes) = (HeadEnd::default(), Vec::new());
  for piece in pieces {
    bytes.extend_from_slice(piece);
    if let Some(length) = end.find(&bytes)? {
      return Ok(Some(length));
    }
  }
  Ok(None)
}

/// Reads a request's head.
pub fn request(head: &[u8]) -> Result<Request, Refusal> {
  let request::Request { authority, kind } = request::parse(head)?;
  Ok(match kind {
    request::Kind::Connect => Request { authority, head: None, length: String::new() },
    request::Kind::Plain { head, length, .. } => {
      Request { authority, head: Some(head), length: format!("{length:?}") }
    }
  })
}

/// Reads a reply's head.
pub fn reply(head: &[u8], is_head: bool) -> Result<Reply, &'static str> {
  let reply::Reply { head, next } = reply::parse(head, is_head)?;
  Ok(Reply { head, next: format!("{next:?}") })
}

/// Follows a chunked body that comes in pieces: how many bytes are its own, and whether it is complete.
pub fn chunked<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<(usize, bool), &'static str> {
  let mut body = Body::of(Some(Length::Chunked));
  let mut all = 0;
  for piece in pieces {
    let taken = body.take(piece)?;
    all += taken;
    if taken < piece.len() {
      break;
    }
  }
  Ok((all, body.is_complete()))
}

/// What is passed on of a tunnel's first bytes, which come in pieces, as soon as that is known; `None` until then.
pub fn hello<'a>(
  host: &Host,
  tls_only: bool,
  pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<Vec<u8>>, HelloFault> {
  let mut sniffer = Sniffer::new(host, tls_only);
  for piece in pieces {
    if let Sniffed::Pass(held) = sniffer.push(piece)? {
      return Ok(Some(held));
    }
  }
  Ok(None)
}
