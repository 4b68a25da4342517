//! A TLS ClientHello (RFC 8446, section 4.1.2) and the server name in it (RFC 6066, section 3).

use super::{CLIENT_HELLO, HelloFault};
use crate::limits::MAX_CLIENT_HELLO_BYTES;

use super::super::host::Host;

const VERSION_AND_RANDOM_BYTES: usize = 2 + 32;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// The server name of a ClientHello, `None` while the handshake bytes so far are not all of it. With encrypted hellos
/// this is the outer name, the one that decides where the connection ends up.
pub(super) fn server_name(message: &[u8]) -> Result<Option<Host>, HelloFault> {
  let [kind, rest @ ..] = message else { return Ok(None) };
  if *kind != CLIENT_HELLO {
    return Err(HelloFault::Malformed);
  }
  let [a, b, c, body @ ..] = rest else { return Ok(None) };
  let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
  if length > MAX_CLIENT_HELLO_BYTES {
    return Err(HelloFault::TooLong);
  }
  match body.len().cmp(&length) {
    std::cmp::Ordering::Less => Ok(None),
    std::cmp::Ordering::Equal => name_in(body).map(Some),
    // Nothing may follow a ClientHello in its record.
    std::cmp::Ordering::Greater => Err(HelloFault::Malformed),
  }
}

fn name_in(body: &[u8]) -> Result<Host, HelloFault> {
  let mut body = Reader(body);
  body.take(VERSION_AND_RANDOM_BYTES)?;
  body.short_vector()?; // session id
  body.vector()?; // cipher suites
  body.short_vector()?; // compression methods
  if body.0.is_empty() {
    return Err(HelloFault::NoName);
  }
  let mut extensions = Reader(body.vector()?);
  body.end()?;
  let mut name = None;
  while !extensions.0.is_empty() {
    let kind = extensions.number()?;
    let value = extensions.vector()?;
    if kind != SERVER_NAME {
      continue;
    }
    // With two names, which one counts is the server's choice.
    if name.replace(value).is_some() {
      return Err(HelloFault::Malformed);
    }
  }
  host_name(name.ok_or(HelloFault::NoName)?)
}

/// The one entry of the extension.
fn host_name(extension: &[u8]) -> Result<Host, HelloFault> {
  let mut extension = Reader(extension);
  let mut list = Reader(extension.vector()?);
  extension.end()?;
  if list.take(1)? != [HOST_NAME] {
    return Err(HelloFault::Malformed);
  }
  let name = list.vector()?;
  list.end()?;
  let text = std::str::from_utf8(name).ok().filter(|text| text.is_ascii()).ok_or(HelloFault::OtherName)?;
  // What is no host name cannot be the host of the CONNECT.
  Host::parse(text).map_err(|_| HelloFault::OtherName)
}

/// Takes apart what has lengths before it.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
  fn take(&mut self, count: usize) -> Result<&'a [u8], HelloFault> {
    let (front, rest) = self.0.split_at_checked(count).ok_or(HelloFault::Malformed)?;
    self.0 = rest;
    Ok(front)
  }

  fn number(&mut self) -> Result<u16, HelloFault> {
    match self.take(2)? {
      [high, low] => Ok(u16::from_be_bytes([*high, *low])),
      _ => Err(HelloFault::Malformed),
    }
  }

  /// Bytes with a length of one byte before them.
  fn short_vector(&mut self) -> Result<&'a [u8], HelloFault> {
    let [length] = *self.take(1)? else { return Err(HelloFault::Malformed) };
    self.take(usize::from(length))
  }

  /// Bytes with a length of two bytes before them.
  fn vector(&mut self) -> Result<&'a [u8], HelloFault> {
    let length = self.number()?;
    self.take(usize::from(length))
  }

  const fn end(&self) -> Result<(), HelloFault> {
    if self.0.is_empty() { Ok(()) } else { Err(HelloFault::Malformed) }
  }
}
