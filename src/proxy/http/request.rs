//! The head of a request to the proxy: `CONNECT host:port`, or a method and an absolute `http://` URL.

use httparse::{Header, Request as Parsed, Status};

use super::super::authority::Authority;
use super::super::refusal::Refusal;
use super::body::Length;
use super::fields;
use crate::limits::MAX_PROXY_HEADERS;

const HTTP_PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::proxy) struct Request {
  /// Where to.
  pub(in crate::proxy) authority: Authority,
  /// What for.
  pub(in crate::proxy) kind: Kind,
}

/// The two forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Kind {
  /// A tunnel.
  Connect,
  /// One exchange in plain HTTP.
  Plain {
    /// The head to send to the server: what the client sent, without what belongs to its connection with us.
    head: Vec<u8>,
    /// How the body ends; `None` if there is none.
    length: Option<Length>,
    /// The reply will have no body, whatever its head says.
    is_head: bool,
  },
}

impl Request {
  /// True if a reply has no body.
  pub(in crate::proxy) const fn is_head(&self) -> bool {
    matches!(self.kind, Kind::Plain { is_head: true, .. })
  }
}

/// Reads a whole head, its empty line included.
pub(in crate::proxy) fn parse(head: &[u8]) -> Result<Request, Refusal> {
  fields::check_lines(head).map_err(Refusal::Malformed)?;
  let mut headers = [httparse::EMPTY_HEADER; MAX_PROXY_HEADERS];
  let mut parsed = Parsed::new(&mut headers);
  match parsed.parse(head) {
    Ok(Status::Complete(length)) if length == head.len() => {}
    Ok(_) => return Err(Refusal::Malformed("has an incomplete head")),
    Err(httparse::Error::TooManyHeaders) => return Err(Refusal::Malformed("has too many header lines")),
    Err(_) => return Err(Refusal::Malformed("has a malformed head")),
  }
  let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
    return Err(Refusal::Malformed("has an incomplete head"));
  };
  // The parser skips empty lines before the request; what stands there may be the rest of another message.
  if !head.starts_with(method.as_bytes()) {
    return Err(Refusal::Malformed("does not begin with a method"));
  }
  let length = length(parsed.headers, version)?;
  match method {
    "CONNECT" => connect(target, version, parsed.headers, length),
    _ => plain(method, target, version, parsed.headers, length),
  }
}

fn length(headers: &[Header<'_>], version: u8) -> Result<Option<Length>, Refusal> {
  let length = fields::length(headers).map_err(Refusal::Malformed)?;
  if version == 0 && length == Some(Length::Chunked) {
    return Err(Refusal::Malformed("has Transfer-Encoding, which HTTP/1.0 does not know"));
  }
  Ok(length)
}

fn connect(
  target: &str,
  version: u8,
  headers: &[Header<'_>],
  length: Option<Length>,
) -> Result<Request, Refusal> {
  let authority = Authority::parse(target, None).map_err(Refusal::Target)?;
  if length.is_some() {
    return Err(Refusal::Malformed("is a CONNECT with a body"));
  }
  // Some clients leave the port away here even if it is not 443; what counts is the target.
  check_host(headers, version, &authority, authority.port)?;
  Ok(Request { authority, kind: Kind::Connect })
}

fn plain(
  method: &str,
  target: &str,
  version: u8,
  headers: &[Header<'_>],
  length: Option<Length>,
) -> Result<Request, Refusal> {
  let (authority, path) = split_url(target)?;
  let authority = Authority::parse(authority, Some(HTTP_PORT)).map_err(Refusal::Target)?;
  check_host(headers, version, &authority, HTTP_PORT)?;
  if authority.port == TLS_PORT {
    return Err(Refusal::PlainOnTlsPort);
  }
  let mut head = format!("{method} {path} HTTP/1.{version}\r\nHost: {}", authority.host).into_bytes();
  if authority.port != HTTP_PORT {
    head.extend_from_slice(format!(":{}", authority.port).as_bytes());
  }
  head.extend_from_slice(b"\r\n");
  fields::write_passed(headers, &mut head).map_err(Refusal::Malformed)?;
  fields::write_length(length, &mut head);
  Ok(Request { authority, kind: Kind::Plain { head, length, is_head: method == "HEAD" } })
}

/// The authority and the path of an `http://` URL.
fn split_url(target: &str) -> Result<(&str, String), Refusal> {
  const SCHEME: &str = "http://";
  let scheme = target.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
  let Some(rest) = target.get(SCHEME.len()..).filter(|_| scheme) else {
    return Err(Refusal::Malformed("has a target that is no absolute http:// URL"));
  };
  let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
  let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
  if path.contains('#') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
    return Err(Refusal::Malformed("has characters in its URL that must be percent-encoded"));
  }
  Ok((authority, if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }))
}

/// `Host` must be there once (HTTP/1.0 may leave it away) and say what the target says.
fn check_host(
  headers: &[Header<'_>],
  version: u8,
  authority: &Authority,
  default_port: u16,
) -> Result<(), Refusal> {
  let mut hosts = fields::values(headers, "host");
  let host = match (hosts.next(), hosts.next()) {
    (Some(host), None) => host,
    (None, _) if version == 0 => return Ok(()),
    (None, _) => return Err(Refusal::Malformed("has no Host header")),
    (Some(_), Some(_)) => return Err(Refusal::Malformed("has more than one Host header")),
  };
  let host = std::str::from_utf8(host).ok().and_then(|text| Authority::parse(text, Some(default_port)).ok());
  if host.as_ref() == Some(authority) {
    return Ok(());
  }
  Err(Refusal::Malformed("has a Host header that is not its target's host and port"))
}

#[cfg(test)]
mod tests;
