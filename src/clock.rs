//! The time of day, which leases and containers have in common with other processes. It may be wrong, and may jump.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since 1970; none where the clock is before that.
pub fn since_1970() -> Duration {
  SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whole seconds since 1970, as engines have them.
pub fn now_seconds() -> i64 {
  i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970, as lease records have them.
pub fn now_ms() -> u64 {
  u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}
