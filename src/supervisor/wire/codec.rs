//! Numbers and byte strings in payloads: little-endian, lengths first, nothing taken without a check.

use super::WireError;

/// Takes values from the front of a payload.
pub(super) struct Reader<'a> {
  rest: &'a [u8],
}

impl<'a> Reader<'a> {
  pub(super) const fn new(payload: &'a [u8]) -> Self {
    Self { rest: payload }
  }

  pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
    let (taken, rest) = self.rest.split_at_checked(count).ok_or(WireError::Cut)?;
    self.rest = rest;
    Ok(taken)
  }

  pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
    let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Cut)?;
    self.rest = rest;
    Ok(*taken)
  }

  pub(super) fn u8(&mut self) -> Result<u8, WireError> {
    Ok(u8::from_le_bytes(self.array()?))
  }

  pub(super) fn u16(&mut self) -> Result<u16, WireError> {
    Ok(u16::from_le_bytes(self.array()?))
  }

  pub(super) fn u32(&mut self) -> Result<u32, WireError> {
    Ok(u32::from_le_bytes(self.array()?))
  }

  pub(super) fn i32(&mut self) -> Result<i32, WireError> {
    Ok(i32::from_le_bytes(self.array()?))
  }

  pub(super) fn u64(&mut self) -> Result<u64, WireError> {
    Ok(u64::from_le_bytes(self.array()?))
  }

  pub(super) fn flag(&mut self) -> Result<bool, WireError> {
    match self.u8()? {
      0 => Ok(false),
      1 => Ok(true),
      _ => Err(WireError::Invalid),
    }
  }

  /// A byte string of a length that comes before it, at most `max`.
  pub(super) fn blob(&mut self, max: usize) -> Result<&'a [u8], WireError> {
    let length = self.u32()? as usize;
    if length > max { Err(WireError::TooLong) } else { self.take(length) }
  }

  pub(super) fn rest(&mut self) -> &'a [u8] {
    std::mem::take(&mut self.rest)
  }

  /// The payload must be used up.
  pub(super) const fn end(&self) -> Result<(), WireError> {
    if self.rest.is_empty() { Ok(()) } else { Err(WireError::Surplus) }
  }
}

/// Appends values to a payload.
pub(super) trait Put {
  fn put(&mut self, bytes: &[u8]);

  fn put_u8(&mut self, value: u8) {
    self.put(&[value]);
  }

  fn put_u16(&mut self, value: u16) {
    self.put(&value.to_le_bytes());
  }

  fn put_u32(&mut self, value: u32) {
    self.put(&value.to_le_bytes());
  }

  fn put_i32(&mut self, value: i32) {
    self.put(&value.to_le_bytes());
  }

  fn put_u64(&mut self, value: u64) {
    self.put(&value.to_le_bytes());
  }

  fn put_flag(&mut self, value: bool) {
    self.put(&[u8::from(value)]);
  }

  /// A byte string behind its length. The encoder refuses a payload beyond its bound, so the length fits.
  fn put_blob(&mut self, bytes: &[u8]) {
    self.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    self.put(bytes);
  }
}

impl Put for Vec<u8> {
  fn put(&mut self, bytes: &[u8]) {
    self.extend_from_slice(bytes);
  }
}
