//! Records as JSON that somebody else wrote: a file, or a store of the application's own. Each field is checked by name,
//! since what is wrong in a record of another's making is told to whoever has to find it there. Fields that are not ours
//! are kept.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::lease::LeaseRecord;
use super::snapshot::SnapshotMeta;

/// The largest integer that a double holds exactly (`Number.MAX_SAFE_INTEGER`, ECMA-262): JavaScript reads it too.
pub const MAX_SAFE_INTEGER: u64 = 9_007_199_254_740_991;

/// What a field may be.
#[derive(Clone, Copy)]
enum Kind {
  Text,
  OptionalText,
  Texts,
  /// A whole number from 0 to `MAX_SAFE_INTEGER`.
  Count,
  OptionalCount,
  /// A whole number of 32 bits.
  Process,
  /// `none`, `current` or `stale`.
  State,
  /// Null or an object of `HOLDER`.
  Holder,
  /// Absent, or an object of `NETWORK_USED`.
  NetworkUsed,
}

const LEASE: &[(&str, Kind)] = &[
  ("key", Kind::Text),
  ("runId", Kind::Text),
  ("environmentId", Kind::Text),
  ("workspaceId", Kind::Text),
  ("fingerprint", Kind::Text),
  ("ownerId", Kind::Text),
  ("containerId", Kind::Text),
  ("containerName", Kind::Text),
  ("networkId", Kind::OptionalText),
  ("imageIds", Kind::Texts),
  ("token", Kind::Text),
  ("fence", Kind::Count),
  ("holder", Kind::Holder),
  ("expiresAt", Kind::Count),
  ("networkUsed", Kind::NetworkUsed),
  ("status", Kind::Text),
  ("snapshotState", Kind::State),
  ("snapshotAt", Kind::OptionalCount),
];

const HOLDER: &[(&str, Kind)] = &[
  ("id", Kind::Text),
  ("hostId", Kind::Text),
  ("bootId", Kind::Text),
  ("pid", Kind::Process),
  ("startTime", Kind::Count),
  ("heartbeatAt", Kind::Count),
];

const NETWORK_USED: &[(&str, Kind)] = &[("requests", Kind::Count), ("bytes", Kind::Count)];

const META: &[(&str, Kind)] =
  &[("runId", Kind::Text), ("fingerprint", Kind::Text), ("createdAt", Kind::Count)];

/// A lease record, or the sentence that says what is wrong with it.
pub fn lease_record(value: Value) -> Result<LeaseRecord, String> {
  checked(value, LEASE)
}

/// What is known of a snapshot, or the sentence that says what is wrong with it.
pub fn snapshot_meta(value: Value) -> Result<SnapshotMeta, String> {
  checked(value, META)
}

fn checked<T: DeserializeOwned>(value: Value, table: &[(&str, Kind)]) -> Result<T, String> {
  check(&value, table, "")?;
  serde_json::from_value(value).map_err(|error| format!("it cannot be read: {error}"))
}

fn check(value: &Value, table: &[(&str, Kind)], path: &str) -> Result<(), String> {
  let Value::Object(fields) = value else {
    return Err(format!("{} was {}; it must be an object", whole(path), described(Some(value))));
  };
  table.iter().try_for_each(|(name, kind)| check_field(fields, name, *kind, path))
}

fn check_field(fields: &Map<String, Value>, name: &str, kind: Kind, path: &str) -> Result<(), String> {
  let (found, name) = (fields.get(name), format!("{path}{name}"));
  let (fits, expected) = match kind {
    Kind::Text => (found.is_some_and(Value::is_string), "a string"),
    Kind::OptionalText => {
      (found.is_none_or(|value| value.is_string() || value.is_null()), "a string, or absent")
    }
    Kind::Texts => (
      found.and_then(Value::as_array).is_some_and(|all| all.iter().all(Value::is_string)),
      "a list of strings",
    ),
    Kind::Count => (is_whole(found, MAX_SAFE_INTEGER), "a whole number from 0 to 2^53 - 1"),
    Kind::OptionalCount => (
      found.is_none_or(Value::is_null) || is_whole(found, MAX_SAFE_INTEGER),
      "a whole number from 0 to 2^53 - 1, or absent",
    ),
    Kind::Process => (is_whole(found, u64::from(u32::MAX)), "a whole number from 0 to 2^32 - 1"),
    Kind::State => (
      matches!(found.and_then(Value::as_str), Some("none" | "current" | "stale")),
      "\"none\", \"current\" or \"stale\"",
    ),
    Kind::Holder => match found {
      Some(holder @ Value::Object(_)) => return check(holder, HOLDER, "holder."),
      _ => (found.is_some_and(Value::is_null), "an object or null"),
    },
    Kind::NetworkUsed => match found {
      Some(used @ Value::Object(_)) => return check(used, NETWORK_USED, "networkUsed."),
      _ => (found.is_none_or(Value::is_null), "an object, or absent"),
    },
  };
  if fits { Ok(()) } else { Err(format!("{name} was {}; it must be {expected}", described(found))) }
}

fn is_whole(value: Option<&Value>, max: u64) -> bool {
  value.and_then(Value::as_u64).is_some_and(|number| number <= max)
}

fn whole(path: &str) -> &str {
  if path.is_empty() { "the record" } else { path.trim_end_matches('.') }
}

/// Strings are not shown: one of them is a secret.
fn described(value: Option<&Value>) -> String {
  match value {
    None => "missing".to_owned(),
    Some(Value::Null) => "null".to_owned(),
    Some(Value::Bool(value)) => value.to_string(),
    Some(Value::Number(number)) => number.to_string(),
    Some(Value::String(_)) => "a string".to_owned(),
    Some(Value::Array(_)) => "a list".to_owned(),
    Some(Value::Object(_)) => "an object".to_owned(),
  }
}

#[cfg(test)]
mod tests;
