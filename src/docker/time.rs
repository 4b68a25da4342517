//! Times as engines write them.

/// Seconds since 1970 of a time as engines write it (RFC 3339, in UTC).
pub fn seconds_of(time: &str) -> Option<i64> {
  let number = |from: usize, to: usize| time.get(from..to)?.parse::<i64>().ok();
  let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
  let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
  let valid = time.ends_with('Z') && (1..=12).contains(&month) && (1..=31).contains(&day);
  valid.then(|| ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// In the Gregorian calendar. Years are counted from March, so that a leap day is a year's last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
  let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
  // 719,468 days lie between the first of March of the year 0 and the first of January 1970.
  year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}
