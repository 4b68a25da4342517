//! The API version: the newest that both sides speak (Engine API, "Versioned API and SDK").

use std::fmt;

use crate::error::{Result, fail};

/// An Engine API version, `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion {
  major: u32,
  minor: u32,
}

impl ApiVersion {
  /// The oldest that has all that we use (Docker Engine 20.10).
  pub const OLDEST: Self = Self { major: 1, minor: 41 };
  /// The newest that we know (Docker Engine 28.3); newer engines still speak it.
  pub const NEWEST: Self = Self { major: 1, minor: 51 };

  /// Reads `1.41` or `v1.41`.
  pub fn parse(text: &str) -> Option<Self> {
    let (major, minor) = text.strip_prefix('v').unwrap_or(text).split_once('.')?;
    let number = |part: &str| {
      let plain = !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
      if plain { part.parse().ok() } else { None }
    };
    Some(Self { major: number(major)?, minor: number(minor)? })
  }

  /// What to speak with an engine whose newest version is `engine`.
  pub fn negotiate(engine: Self) -> Result<Self> {
    if engine < Self::OLDEST {
      return Err(fail!(
        DockerUnavailable,
        "The Docker engine speaks API {engine} at most; {} or newer is needed (Docker Engine 20.10). Update the engine.",
        Self::OLDEST
      ));
    }
    Ok(engine.min(Self::NEWEST))
  }
}

impl fmt::Display for ApiVersion {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}.{}", self.major, self.minor)
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::error::ErrorCode;

  #[track_caller]
  fn version(text: &str) -> ApiVersion {
    ApiVersion::parse(text).unwrap()
  }

  #[test]
  fn both_spellings() {
    assert_eq!(version("v1.41"), version("1.41"));
    for text in ["", "v", "1", "1.", ".41", "1.41.0", "latest", "1.4x", "+1.41", "1.12345", "vv1.41"] {
      assert_eq!(ApiVersion::parse(text), None, "{text:?}");
    }
  }

  #[test]
  fn the_older_of_the_newest_ones() {
    assert_eq!(ApiVersion::negotiate(version("1.41")).unwrap().to_string(), "1.41");
    assert_eq!(ApiVersion::negotiate(version("1.100")).unwrap(), ApiVersion::NEWEST);
    assert_eq!(ApiVersion::negotiate(version("1.40")).unwrap_err().code(), ErrorCode::DockerUnavailable);
  }
}
