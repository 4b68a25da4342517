//! PAX extended headers: `length key=value\n` records. Only what changes an entry's meaning is kept.

use super::error::Refusal;

/// What the records of one extended header say about the next entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pax {
  /// Its name.
  pub path: Option<Vec<u8>>,
  /// Its link target.
  pub link: Option<Vec<u8>>,
  /// Its size, which wins over the header's.
  pub size: Option<u64>,
  /// Whole seconds since 1970, rounded down; far-off times are the farthest that fit.
  pub mtime: Option<i64>,
  /// It is a sparse file.
  pub sparse: bool,
}

/// Why records are not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum PaxError {
  /// They are malformed.
  Damaged(&'static str),
  /// They say what the rules refuse.
  Refused(Refusal),
}

impl Pax {
  /// Reads all records. Each key that counts may come once: programs differ about which of two wins.
  pub fn parse(mut records: &[u8]) -> Result<Self, PaxError> {
    let mut pax = Self::default();
    while !records.is_empty() {
      let (key, value, rest) = record(records).ok_or(PaxError::Damaged("a PAX record is malformed"))?;
      pax.take(key, value)?;
      records = rest;
    }
    Ok(pax)
  }

  /// True if nothing in it changes what an entry is or where.
  pub fn is_harmless(&self) -> bool {
    self.path.is_none() && self.link.is_none() && self.size.is_none() && !self.sparse
  }

  fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), PaxError> {
    match key {
      b"path" => once(&mut self.path, name(value)?),
      b"linkpath" => once(&mut self.link, name(value)?),
      b"size" => once(&mut self.size, size(value)?),
      b"mtime" => once(&mut self.mtime, seconds(value).ok_or(PaxError::Damaged("a PAX time is malformed"))?),
      _ => {
        self.sparse |= key.starts_with(b"GNU.sparse.") || key == b"SCHILY.realsize";
        Ok(())
      }
    }
  }
}

/// The first record and what follows it.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
  let space = records.iter().take(MAX_LENGTH_DIGITS + 1).position(|byte| *byte == b' ')?;
  let length = usize::try_from(decimal(records.get(..space)?)?).ok()?;
  let (record, rest) = records.split_at_checked(length)?;
  let body = record.get(space + 1..)?.strip_suffix(b"\n")?;
  let equals = body.iter().position(|byte| *byte == b'=')?;
  let (key, value) = body.split_at_checked(equals)?;
  if key.is_empty() { None } else { Some((key, value.get(1..)?, rest)) }
}

/// Digits of a record's length; records are 64 KiB at most, zeros in front are not usual but harmless.
const MAX_LENGTH_DIGITS: usize = 12;

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), PaxError> {
  match slot.replace(value) {
    None => Ok(()),
    Some(_) => Err(PaxError::Refused(Refusal::Ambiguous)),
  }
}

fn name(value: &[u8]) -> Result<Vec<u8>, PaxError> {
  if value.is_empty() {
    return Err(PaxError::Refused(Refusal::EmptyName));
  }
  // `tar` programs cut a name at its NUL: what was vetted would not be what is written.
  if value.contains(&0) {
    return Err(PaxError::Refused(Refusal::Nul));
  }
  Ok(value.to_vec())
}

fn size(value: &[u8]) -> Result<u64, PaxError> {
  decimal(value).ok_or(PaxError::Damaged("a PAX size is malformed"))
}

fn decimal(digits: &[u8]) -> Option<u64> {
  if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
    return None;
  }
  std::str::from_utf8(digits).ok()?.parse().ok()
}

/// `-1.5` and the like, rounded down.
fn seconds(value: &[u8]) -> Option<i64> {
  let (negative, value) = value.strip_prefix(b"-").map_or((false, value), |rest| (true, rest));
  let mut halves = value.splitn(2, |byte| *byte == b'.');
  let (whole, fraction) = (halves.next()?, halves.next().unwrap_or_default());
  if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
    return None;
  }
  let digit = |value: i64, byte: &u8| value.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
  let whole = whole.iter().fold(0, digit);
  let below = negative && fraction.iter().any(|byte| *byte != b'0');
  Some(if negative { (-whole).saturating_sub(i64::from(below)) } else { whole })
}

#[cfg(test)]
mod tests;
