//! Lists of strings as the kernel wants them: each ends with a NUL, none holds one.

use std::ffi::CStr;

use super::WireError;
use super::codec::{Put, Reader};

/// A checked list, borrowed from a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strings<'a> {
  bytes: &'a [u8],
}

impl<'a> Strings<'a> {
  /// No strings.
  pub const EMPTY: Strings<'static> = Strings { bytes: &[] };

  /// Its strings, in order.
  pub fn iter(&self) -> impl Iterator<Item = &'a CStr> + use<'a> {
    self.bytes.split_inclusive(|byte| *byte == 0).filter_map(|string| CStr::from_bytes_with_nul(string).ok())
  }

  /// How many there are.
  pub fn count(&self) -> usize {
    self.bytes.iter().filter(|byte| **byte == 0).count()
  }

  pub(super) fn read(from: &mut Reader<'a>, max_count: usize, max_bytes: usize) -> Result<Self, WireError> {
    let bytes = from.blob(max_bytes)?;
    let strings = Self { bytes };
    let whole = bytes.last().is_none_or(|last| *last == 0);
    if whole && strings.count() <= max_count { Ok(strings) } else { Err(WireError::Invalid) }
  }

  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_blob(self.bytes);
  }
}

/// A list that is being made.
#[derive(Clone, Debug, Default)]
pub struct StringsBuf {
  bytes: Vec<u8>,
}

impl StringsBuf {
  /// An empty list.
  pub const fn new() -> Self {
    Self { bytes: Vec::new() }
  }

  /// Appends one string, which is the parts one after the other. [`WireError::Invalid`]: it holds a NUL.
  pub fn push(&mut self, parts: &[&[u8]]) -> Result<(), WireError> {
    if parts.iter().any(|part| part.contains(&0)) {
      return Err(WireError::Invalid);
    }
    parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
    self.bytes.push(0);
    Ok(())
  }

  /// The list of these strings.
  pub fn of<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Result<Self, WireError> {
    let mut list = Self::new();
    for string in strings {
      list.push(&[string.as_ref()])?;
    }
    Ok(list)
  }

  /// For a request.
  pub fn view(&self) -> Strings<'_> {
    Strings { bytes: &self.bytes }
  }
}
