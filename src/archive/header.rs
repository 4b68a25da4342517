//! One header block as somebody else wrote it: fields, numbers, checksum. Nothing in it is believed.

use super::BLOCK;

/// The formats that differ in what the bytes after the magic mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
  Ustar,
  Gnu,
  V7,
}

/// A header block whose checksum is right.
pub struct Header<'a> {
  block: &'a [u8; BLOCK],
  format: Format,
}

impl<'a> Header<'a> {
  /// Checks the checksum and the magic; the error says what is wrong.
  pub fn parse(block: &'a [u8; BLOCK]) -> Result<Self, &'static str> {
    // POSIX: the sum of all bytes, those of the checksum's own field taken as spaces.
    let own: u32 = field(block, 148, 8).iter().map(|byte| u32::from(*byte)).sum();
    let sum = block.iter().map(|byte| u32::from(*byte)).sum::<u32>() - own + 8 * u32::from(b' ');
    if number(field(block, 148, 8)) != Some(i128::from(sum)) {
      return Err("a header's checksum is wrong");
    }
    let format = match field(block, 257, 8) {
      b"ustar\x0000" => Format::Ustar,
      b"ustar  \0" => Format::Gnu,
      [0, 0, 0, 0, 0, 0, 0, 0] => Format::V7,
      _ => return Err("a header is of no known tar format"),
    };
    Ok(Self { block, format })
  }

  /// The type byte.
  pub fn kind(&self) -> u8 {
    field(self.block, 156, 1).first().copied().unwrap_or_default()
  }

  /// The name, with the prefix where the format has one.
  pub fn name(&self) -> Vec<u8> {
    let name = text(field(self.block, 0, 100));
    let prefix = if self.format == Format::Ustar { text(field(self.block, 345, 155)) } else { b"" };
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
  }

  /// The link target.
  pub fn link(&self) -> Vec<u8> {
    text(field(self.block, 157, 100)).to_vec()
  }

  /// Permission bits and those above them.
  pub fn mode(&self) -> Option<i128> {
    number(field(self.block, 100, 8))
  }

  /// Bytes of contents.
  pub fn size(&self) -> Option<i128> {
    number(field(self.block, 124, 12))
  }

  /// Seconds since 1970.
  pub fn mtime(&self) -> Option<i128> {
    number(field(self.block, 136, 12))
  }
}

/// A numeric field: octal digits between spaces and NULs, or GNU's base-256, signed, where the first bit is set.
/// `None` for what is neither, an empty field included.
pub fn number(field: &[u8]) -> Option<i128> {
  let (first, rest) = field.split_first()?;
  if first & 0x80 != 0 {
    // Seven bits of the first byte, sign extended. A field has 12 bytes at most: 95 bits.
    let start = i128::from(first & 0x3f) - i128::from(first & 0x40);
    return Some(rest.iter().fold(start, |value, byte| value << 8 | i128::from(*byte)));
  }
  let digits = field.trim_ascii_start();
  let end = digits.iter().position(|byte| matches!(byte, b' ' | 0)).unwrap_or(digits.len());
  let (digits, tail) = digits.split_at_checked(end)?;
  if digits.is_empty() || !tail.iter().all(|byte| matches!(byte, b' ' | 0)) {
    return None;
  }
  digits.iter().try_fold(0, |value: i128, byte| match byte {
    b'0'..=b'7' => Some(value << 3 | i128::from(byte - b'0')),
    _ => None,
  })
}

/// A text field: up to its first NUL, or all of it.
fn text(field: &[u8]) -> &[u8] {
  field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn field(block: &[u8; BLOCK], at: usize, length: usize) -> &[u8] {
  block.get(at..at + length).unwrap_or_default()
}

#[cfg(test)]
mod tests;
