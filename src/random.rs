//! Names and secrets that nobody can guess, from the system's generator.

use crate::error::{Result, fail};

/// 8·`N` random bits.
///
/// # Errors
///
/// `INTERNAL` where the system has no generator to give them.
pub fn bytes<const N: usize>() -> Result<[u8; N]> {
  let mut random = [0u8; N];
  getrandom::fill(&mut random)
    .map_err(|error| fail!(Internal, "The system gave no random bytes.").with_source(error))?;
  Ok(random)
}

/// 8·`N` random bits in 2·`N` hexadecimal digits.
///
/// # Errors
///
/// As of [`bytes`].
pub fn hex<const N: usize>() -> Result<String> {
  bytes::<N>().map(hex::encode)
}
