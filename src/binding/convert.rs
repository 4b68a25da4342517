//! Values across the border. Numbers come as doubles and are checked here, since a narrower type would wrap silently.

use bytes::Bytes;
use napi::bindgen_prelude::Uint8Array;
use serde::de::DeserializeOwned;

use crate::error::{Result, fail, shown};

/// The largest integer that a double holds exactly (`Number.MAX_SAFE_INTEGER`, ECMA-262).
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A private copy, made on the JavaScript thread: the caller may write to its array right after the call.
pub fn copy(bytes: &Uint8Array) -> Bytes {
  Bytes::copy_from_slice(bytes)
}

/// A whole number from 0 up.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
pub fn integer(value: f64, name: &str) -> Result<u64> {
  if value.is_finite() && value.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(&value) {
    return Ok(value as u64);
  }
  Err(fail!(ConfigInvalid, "{name} was {value}; it may be a whole number from 0 up."))
}

/// A whole number from 0 up, where one is given.
pub fn optional_integer(value: Option<f64>, name: &str) -> Result<Option<u64>> {
  value.map(|value| integer(value, name)).transpose()
}

/// The same within 32 bits; a larger one is the largest.
pub fn optional_u32(value: Option<f64>, name: &str) -> Result<Option<u32>> {
  Ok(optional_integer(value, name)?.map(|value| u32::try_from(value).unwrap_or(u32::MAX)))
}

/// A size or count for JavaScript.
#[expect(clippy::cast_precision_loss, reason = "sizes of files and counts are far below 2^53")]
pub const fn number(value: u64) -> f64 {
  value as f64
}

/// An exit code for JavaScript.
#[expect(clippy::cast_precision_loss, reason = "an exit code has eight bits")]
pub const fn exit_code(code: i64) -> f64 {
  code as f64
}

/// A structure that JavaScript wrote as JSON text.
pub fn parse<T: DeserializeOwned>(json: &str, what: &str) -> Result<T> {
  // It quotes what it found, however long that is.
  serde_json::from_str(json).map_err(|error| fail!(ConfigInvalid, "{what}: {}.", shown(&error.to_string())))
}
