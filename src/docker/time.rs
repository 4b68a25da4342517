//! Times as engines write them.

/// Seconds since 1970 of a time as engines write it (RFC 3339): in UTC, but for networks, which have their engine's own zone.
pub fn seconds_of(time: &str) -> Option<i64> {
  let number = |from: usize, to: usize| digits(time.get(from..to)?);
  let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
  let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
  let zone = time.get(19..)?.trim_start_matches(|char: char| char == '.' || char.is_ascii_digit());
  let offset = match zone.as_bytes() {
    b"Z" => 0,
    [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
      let seconds = (digits(zone.get(1..3)?)? * 60 + digits(zone.get(4..6)?)?) * 60;
      if *sign == b'+' { seconds } else { -seconds }
    }
    _ => return None,
  };
  Some(seconds([year, month, day], [hour, minute, second])? - offset)
}

/// Seconds since 1970 of the `Date` of a reply (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn seconds_of_date(date: &str) -> Option<i64> {
  const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  let (_weekday, rest) = date.split_once(", ")?;
  let [day, month, year, time, "GMT"] = rest.split(' ').collect::<Vec<_>>()[..] else { return None };
  let month = i64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
  let [hour, minute, second] = time.split(':').map(digits).collect::<Option<Vec<_>>>()?[..] else {
    return None;
  };
  seconds([digits(year)?, month, digits(day)?], [hour, minute, second])
}

/// No sign, and no more than a year has.
fn digits(text: &str) -> Option<i64> {
  let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
  if plain { text.parse().ok() } else { None }
}

fn seconds([year, month, day]: [i64; 3], [hour, minute, second]: [i64; 3]) -> Option<i64> {
  let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
  valid.then(|| ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// In the Gregorian calendar. Years are counted from March, so that a leap day is a year's last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
  let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
  // 719,468 days lie between the first of March of the year 0 and the first of January 1970.
  year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn zones_and_dates_of_replies() {
    assert_eq!(seconds_of("1994-11-06T08:49:37.123456789Z"), Some(784_111_777));
    assert_eq!(seconds_of("1994-11-06T10:49:37.1+02:00"), Some(784_111_777));
    assert_eq!(seconds_of("1994-11-06T05:19:37-03:30"), Some(784_111_777));
    assert_eq!(seconds_of_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
    assert_eq!(seconds_of_date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
    for odd in [
      "",
      "1994-11-06T08:49:37",
      "1994-11-06T08:49:37+2",
      "1994-11-06T08:49:37+aa:bb",
      "1994-11-06T08:49:37Z+",
    ] {
      assert_eq!(seconds_of(odd), None, "{odd}");
    }
    for odd in [
      "",
      "Sun, 06 Nov 1994 08:49:37 CET",
      "Sun, 06 Nov 1994 08:49 GMT",
      "Sun, 06 nov 1994 08:49:37 GMT",
      "Sun, -6 Nov 1994 08:49:37 GMT",
      "Sunday, 06-Nov-94 08:49:37 GMT",
    ] {
      assert_eq!(seconds_of_date(odd), None, "{odd}");
    }
  }
}
