//! A second ClientHello. A server that wants another key share asks for one (HelloRetryRequest, RFC 8446, section 4.1.4), and
//! then goes by the second hello: its server name counts like that of the first.
//!
//! Only the server's first message tells whether the client's next handshake record is a second hello or, in TLS 1.2, something
//! else. It comes before that record from every honest client, so the record waits for it.

use super::{CONTENT_TYPES, HANDSHAKE, HelloFault, RECORD_HEAD_BYTES};

/// The random that makes a ServerHello a HelloRetryRequest (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
  0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91, 0xC2, 0xA2,
  0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C,
];
const SERVER_HELLO: u8 = 2;
/// Type, length and version of a ServerHello, before its random.
const BEFORE_RANDOM: usize = 1 + 3 + 2;

/// What a server's first message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Answer {
  /// The client is to say hello again.
  Retry,
  /// Something else.
  Other,
}

/// Where records begin and end, read a byte at a time.
#[derive(Debug, Default)]
struct Records {
  /// How many bytes of a record's head were read.
  head: usize,
  /// Bytes of its contents that are still to come.
  left: usize,
}

/// What a byte is.
enum Place {
  /// The first of a record, which says its type.
  Type(u8),
  /// Another of its head.
  Head,
  /// One of its contents.
  Contents,
}

impl Records {
  fn next(&mut self, byte: u8) -> Place {
    if self.head == RECORD_HEAD_BYTES && self.left > 0 {
      self.left -= 1;
      return Place::Contents;
    }
    if self.head == RECORD_HEAD_BYTES {
      *self = Self::default();
    }
    self.head += 1;
    match self.head {
      1 => return Place::Type(byte),
      4 => self.left = usize::from(byte) << 8,
      RECORD_HEAD_BYTES => self.left |= usize::from(byte),
      _ => {}
    }
    Place::Head
  }
}

/// Reads a server's first message.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Answering {
  records: Records,
  message: Vec<u8>,
}

impl Answering {
  /// Takes the next bytes; what the message is once that is known.
  pub(in crate::proxy) fn push(&mut self, bytes: &[u8]) -> Option<Answer> {
    for byte in bytes {
      match self.records.next(*byte) {
        Place::Type(HANDSHAKE) | Place::Head => {}
        Place::Type(_) => return Some(Answer::Other),
        Place::Contents => {
          self.message.push(*byte);
          if let Some(answer) = self.known() {
            return Some(answer);
          }
        }
      }
    }
    None
  }

  fn known(&self) -> Option<Answer> {
    if self.message.first() != Some(&SERVER_HELLO) {
      return Some(Answer::Other);
    }
    let random = self.message.get(BEFORE_RANDOM..BEFORE_RANDOM + RETRY.len())?;
    Some(if random == RETRY { Answer::Retry } else { Answer::Other })
  }
}

/// Follows what a client sends behind its first hello.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Following(Records);

impl Following {
  /// Takes the next bytes. How many of them come before a handshake record, where one begins among them.
  pub(in crate::proxy) fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>, HelloFault> {
    for (at, byte) in bytes.iter().enumerate() {
      match self.0.next(*byte) {
        Place::Type(HANDSHAKE) => return Ok(Some(at)),
        Place::Type(kind) if !CONTENT_TYPES.contains(&kind) => return Err(HelloFault::Malformed),
        Place::Type(_) | Place::Head | Place::Contents => {}
      }
    }
    Ok(None)
  }
}

#[cfg(test)]
mod tests;
