//! The server name that a TLS client asks for, read from its first bytes before any of them goes on.

mod again;
mod hello;

use crate::limits::MAX_CLIENT_HELLO_BYTES;

use super::host::Host;
pub(super) use again::{Answer, Answering, Following};

const HANDSHAKE: u8 = 22;
/// A handshake message's type, and a message's of SSL 2.0.
const CLIENT_HELLO: u8 = 1;
/// Change cipher spec (20) to application data (23): records of TLS, but not its beginning.
const CONTENT_TYPES: std::ops::RangeInclusive<u8> = 20..=23;
/// The first byte of the version in every record since SSL 3.0.
const MAJOR_VERSION: u8 = 3;
const RECORD_HEAD_BYTES: usize = 5;
/// RFC 8446, section 5.1.
const MAX_RECORD_BYTES: usize = 1 << 14;
/// A fatal `access_denied` alert (RFC 8446, section 6), so that the client's own error says that it was refused.
pub(super) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Why a tunnel's first bytes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloFault {
  /// On port 443 they are no TLS.
  NotTls,
  /// They are TLS, but no well-formed ClientHello.
  Malformed,
  /// The ClientHello is too long.
  TooLong,
  /// It has no server name.
  NoName,
  /// Its server name is not the host of the `CONNECT`.
  OtherName,
}

/// What the bytes so far say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sniffed {
  /// Nothing yet; they are held back.
  More,
  /// All that was held back may go on. Behind a hello, see [`Sniffer::hello_end`].
  Pass(Vec<u8>),
}

/// Holds back a client's first bytes until they are known to be no TLS, or a ClientHello for the right host. Records and
/// handshake fragments may be cut anywhere.
#[derive(Debug)]
pub(super) struct Sniffer<'a> {
  host: &'a Host,
  /// Only TLS may pass.
  tls_only: bool,
  held: Vec<u8>,
  /// Where in `held` the next record begins.
  record: usize,
  /// The handshake bytes of the records before it.
  message: Vec<u8>,
}

impl<'a> Sniffer<'a> {
  /// A sniffer for a tunnel to `host`; `tls_only` refuses everything that is no TLS.
  pub(super) const fn new(host: &'a Host, tls_only: bool) -> Self {
    Self { host, tls_only, held: Vec::new(), record: 0, message: Vec::new() }
  }

  /// A sniffer for a second hello, which nothing but a hello may come in place of.
  pub(super) const fn again(&self) -> Self {
    Self::new(self.host, true)
  }

  /// Takes the next bytes.
  pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Sniffed, HelloFault> {
    // What comes in one read after a whole hello is no part of it, so the cap is checked on what has to be held.
    self.held.extend_from_slice(bytes);
    match self.is_tls()? {
      None => return Ok(Sniffed::More),
      Some(false) if self.tls_only => return Err(HelloFault::NotTls),
      Some(false) => return Ok(self.pass()),
      Some(true) => {}
    }
    while let Some(fragment) = self.next_record()? {
      self.message.extend_from_slice(&fragment);
      if let Some(name) = hello::server_name(&self.message)? {
        return if name == *self.host { Ok(self.pass()) } else { Err(HelloFault::OtherName) };
      }
    }
    if self.held.len() > MAX_CLIENT_HELLO_BYTES { Err(HelloFault::TooLong) } else { Ok(Sniffed::More) }
  }

  /// True if bytes are held back, so that the client's end cuts them off.
  pub(super) const fn is_holding(&self) -> bool {
    !self.held.is_empty()
  }

  /// Of what passed, how many bytes end with the hello's last record; `None` where it was no TLS. A second hello may follow.
  pub(super) const fn hello_end(&self) -> Option<usize> {
    if self.record > 0 { Some(self.record) } else { None }
  }

  fn pass(&mut self) -> Sniffed {
    Sniffed::Pass(std::mem::take(&mut self.held))
  }

  /// `None` while too few bytes cannot tell. Every record of TLS counts, since a server may skip some before a ClientHello.
  /// Refused is a ClientHello in a form that we do not read and some servers do: receivers ignore a record's version (RFC
  /// 8446, section 5.1), and that of SSL 2.0 (RFC 5246, appendix E.2) has no server name.
  fn is_tls(&self) -> Result<Option<bool>, HelloFault> {
    match *self.held.as_slice() {
      [] => Ok(None),
      [first, MAJOR_VERSION, ..] if CONTENT_TYPES.contains(&first) => Ok(Some(true)),
      _ if self.tls_only && self.held.len() > 1 => Ok(Some(false)),
      [HANDSHAKE, _, _, _, _, CLIENT_HELLO, ..] => Err(HelloFault::Malformed),
      [HANDSHAKE, ..] if self.held.len() < 6 => Ok(None),
      [0x80..=0xFF, _, CLIENT_HELLO, MAJOR_VERSION, _, ..] | [0x80..=0xFF, _, CLIENT_HELLO, 0, 2, ..] => {
        Err(HelloFault::NoName)
      }
      [0x80..=0xFF]
      | [0x80..=0xFF, _]
      | [0x80..=0xFF, _, CLIENT_HELLO]
      | [0x80..=0xFF, _, CLIENT_HELLO, 0 | MAJOR_VERSION] => Ok(None),
      [first] if CONTENT_TYPES.contains(&first) => Ok(None),
      _ => Ok(Some(false)),
    }
  }

  /// The fragment of the next record, if that is complete.
  fn next_record(&mut self) -> Result<Option<Vec<u8>>, HelloFault> {
    let Some(record) = self.held.get(self.record..) else { return Err(HelloFault::Malformed) };
    let [kind, major, rest @ ..] = record else { return Ok(None) };
    if (*kind, *major) != (HANDSHAKE, MAJOR_VERSION) {
      return Err(HelloFault::Malformed);
    }
    let [_, high, low, ..] = rest else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if !(1..=MAX_RECORD_BYTES).contains(&length) {
      return Err(HelloFault::Malformed);
    }
    let end = RECORD_HEAD_BYTES + length;
    let fragment = record.get(RECORD_HEAD_BYTES..end).map(<[u8]>::to_vec);
    if fragment.is_some() {
      self.record += end;
    }
    Ok(fragment)
  }
}

impl HelloFault {
  /// The fault in a few words, for an event.
  pub const fn text(self) -> &'static str {
    match self {
      Self::NotTls => "the first bytes on port 443 are no TLS",
      Self::Malformed => "the first bytes are TLS, but no well-formed ClientHello",
      Self::TooLong => "the TLS ClientHello is too long",
      Self::NoName => "the TLS ClientHello has no server name",
      Self::OtherName => "the TLS server name is not the CONNECT host",
    }
  }
}

#[cfg(test)]
mod tests;
