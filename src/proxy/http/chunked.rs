//! The chunked coding (RFC 9112, section 7.1), checked while its bytes pass unchanged.

use super::fields::{self, LONGEST};
use crate::limits::{MAX_CHUNK_LINE_BYTES, MAX_TRAILER_BYTES};

const FAULT: &str = "has a malformed chunked body";
/// Digits of a size that fits into 64 bits.
const MAX_SIZE_DIGITS: usize = 16;

/// Follows chunks, byte by byte in their lines, and by whole runs in their data.
#[derive(Debug)]
pub(in crate::proxy) struct Chunked {
  place: Place,
  /// The size of the chunk under way, then what is missing of it.
  left: u64,
  /// Bytes of the line under way, or of all trailer lines.
  line: usize,
  /// The name of the trailer line under way, as far as it is there.
  name: Name,
}

/// A trailer's name, as far as it could be one that matters.
#[derive(Debug, Default)]
struct Name {
  bytes: [u8; LONGEST],
  length: usize,
}

impl Name {
  fn push(&mut self, byte: u8) {
    if let Some(place) = self.bytes.get_mut(self.length) {
      *place = byte;
    }
    self.length += 1;
  }

  /// A name that is longer than all that matter is none of them.
  fn may_pass(&self) -> bool {
    !self.bytes.get(..self.length).is_some_and(fields::is_ours)
  }
}

/// Which byte comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
  Size,
  Extension,
  SizeLineFeed,
  Data,
  DataReturn,
  DataLineFeed,
  /// The first byte of a trailer line, or of the empty line that ends the body.
  Trailer,
  TrailerName,
  TrailerValue,
  TrailerLineFeed,
  LastLineFeed,
  End,
}

impl Default for Chunked {
  fn default() -> Self {
    Self { place: Place::Size, left: 0, line: 0, name: Name::default() }
  }
}

impl Chunked {
  /// How many bytes at the front of `bytes` belong to the body.
  pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
    let mut taken = 0;
    while let Some(byte) = bytes.get(taken) {
      if self.is_complete() {
        break;
      }
      if self.place == Place::Data {
        let here = bytes.len() - taken;
        let run = usize::try_from(self.left).map_or(here, |left| left.min(here));
        self.left -= run as u64;
        taken += run;
        if self.left == 0 {
          self.place = Place::DataReturn;
        }
        continue;
      }
      self.place = self.step(*byte)?;
      taken += 1;
    }
    Ok(taken)
  }

  /// True after the line end behind the last chunk's trailer.
  pub(super) const fn is_complete(&self) -> bool {
    matches!(self.place, Place::End)
  }

  fn step(&mut self, byte: u8) -> Result<Place, &'static str> {
    match (self.place, byte) {
      (Place::Size, _) if byte.is_ascii_hexdigit() => self.digit(byte),
      (Place::Size, b'\r') if self.line > 0 => Ok(Place::SizeLineFeed),
      (Place::Size, b';') if self.line > 0 => Ok(Place::Extension),
      (Place::Extension, b'\r') => Ok(Place::SizeLineFeed),
      (Place::Extension, _) if is_text(byte) => self.long(MAX_CHUNK_LINE_BYTES, Place::Extension),
      (Place::SizeLineFeed, b'\n') => {
        self.line = 0;
        Ok(if self.left == 0 { Place::Trailer } else { Place::Data })
      }
      (Place::DataReturn, b'\r') => Ok(Place::DataLineFeed),
      (Place::DataLineFeed, b'\n') => Ok(Place::Size),
      (Place::Trailer, b'\r') => Ok(Place::LastLineFeed),
      // A trailer line begins with a name, never with white space, which would go on with the line before.
      (Place::Trailer, _) if is_token(byte) => {
        self.name = Name::default();
        self.named(byte)
      }
      (Place::TrailerName, _) if is_token(byte) => self.named(byte),
      (Place::TrailerName, b':') if self.name.may_pass() => self.long(MAX_TRAILER_BYTES, Place::TrailerValue),
      (Place::TrailerValue, _) if is_text(byte) => self.long(MAX_TRAILER_BYTES, Place::TrailerValue),
      (Place::TrailerValue, b'\r') => Ok(Place::TrailerLineFeed),
      (Place::TrailerLineFeed, b'\n') => Ok(Place::Trailer),
      (Place::LastLineFeed, b'\n') => Ok(Place::End),
      _ => Err(FAULT),
    }
  }

  fn digit(&mut self, byte: u8) -> Result<Place, &'static str> {
    let digit = char::from(byte).to_digit(16).ok_or(FAULT)?;
    self.left = self.left << 4 | u64::from(digit);
    self.long(MAX_SIZE_DIGITS, Place::Size)
  }

  fn named(&mut self, byte: u8) -> Result<Place, &'static str> {
    self.name.push(byte);
    self.long(MAX_TRAILER_BYTES, Place::TrailerName)
  }

  fn long(&mut self, max: usize, next: Place) -> Result<Place, &'static str> {
    self.line += 1;
    if self.line > max { Err(FAULT) } else { Ok(next) }
  }
}

/// What a field's name is made of (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
  matches!(
    byte,
    b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
  ) || byte.is_ascii_alphanumeric()
}

/// Visible characters, space, tab, and the upper half, which old text uses.
const fn is_text(byte: u8) -> bool {
  matches!(byte, b' '..=b'~' | b'\t' | 0x80..)
}

#[cfg(test)]
mod tests;
