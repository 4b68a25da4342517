use serde_json::json;

use super::*;

fn good() -> Value {
  json!({
    "key": "k", "runId": "r", "environmentId": "e", "workspaceId": "w", "fingerprint": "sha256:0", "ownerId": "o",
    "containerId": "c", "containerName": "n", "imageIds": ["i"], "token": "t", "fence": 1,
    "holder": { "id": "h", "hostId": "", "bootId": "", "pid": 1, "startTime": 0, "heartbeatAt": 2 },
    "expiresAt": MAX_SAFE_INTEGER, "status": "running", "snapshotState": "none",
  })
}

/// The record with one field, perhaps the holder's, replaced; `None` leaves it out.
fn with(name: &str, value: Option<Value>) -> Value {
  let mut record = good();
  let (fields, name) = match name.strip_prefix("holder.") {
    Some(name) => (record["holder"].as_object_mut().unwrap(), name),
    None => (record.as_object_mut().unwrap(), name),
  };
  match value {
    Some(value) => fields.insert(name.to_owned(), value),
    None => fields.remove(name),
  };
  record
}

#[test]
fn a_record_comes_back_as_it_was_with_the_fields_of_others() {
  let mut record = good();
  record["_rev"] = json!({ "n": [1, null, "x"] });
  record["networkId"] = json!("net");
  let read = lease_record(record.clone()).unwrap();
  assert_eq!((read.fence, read.expires_at), (1, MAX_SAFE_INTEGER));
  assert_eq!(serde_json::to_value(&read).unwrap(), record);
}

#[test]
fn no_network_is_absent_and_no_holder_is_null() {
  let read = lease_record(with("networkId", Some(Value::Null))).unwrap();
  let written = serde_json::to_value(LeaseRecord { holder: None, ..read }).unwrap();
  assert_eq!(written.get("networkId"), None);
  assert_eq!(written.get("holder"), Some(&Value::Null));
}

#[test]
fn what_was_used_of_the_network_comes_back() {
  let read = lease_record(with("networkUsed", Some(json!({ "requests": 3, "bytes": 4 })))).unwrap();
  assert_eq!(read.network_used.map(|used| (used.requests, used.bytes)), Some((3, 4)));
  assert_eq!(lease_record(good()).unwrap().network_used, None);
}

#[test]
fn every_flaw_names_its_field() {
  let cases = [
    ("networkUsed", Some(json!(1)), "networkUsed was 1; it must be an object, or absent"),
    (
      "networkUsed",
      Some(json!({ "requests": 1 })),
      "networkUsed.bytes was missing; it must be a whole number from 0 to 2^53 - 1",
    ),
    ("fence", Some(json!(-1)), "fence was -1; it must be a whole number from 0 to 2^53 - 1"),
    ("fence", Some(json!(1.5)), "fence was 1.5; it must be a whole number from 0 to 2^53 - 1"),
    ("fence", Some(json!("1")), "fence was a string; it must be a whole number from 0 to 2^53 - 1"),
    ("fence", None, "fence was missing; it must be a whole number from 0 to 2^53 - 1"),
    (
      "expiresAt",
      Some(json!(MAX_SAFE_INTEGER + 1)),
      "expiresAt was 9007199254740992; it must be a whole number from 0 to 2^53 - 1",
    ),
    ("holder", None, "holder was missing; it must be an object or null"),
    ("holder", Some(json!([])), "holder was a list; it must be an object or null"),
    (
      "holder.pid",
      Some(json!(1_u64 << 32)),
      "holder.pid was 4294967296; it must be a whole number from 0 to 2^32 - 1",
    ),
    ("holder.id", Some(Value::Null), "holder.id was null; it must be a string"),
    ("imageIds", Some(json!(["a", 1])), "imageIds was a list; it must be a list of strings"),
    ("networkId", Some(json!(5)), "networkId was 5; it must be a string, or absent"),
    (
      "snapshotAt",
      Some(json!(-1)),
      "snapshotAt was -1; it must be a whole number from 0 to 2^53 - 1, or absent",
    ),
    (
      "snapshotState",
      Some(json!("old")),
      "snapshotState was a string; it must be \"none\", \"current\" or \"stale\"",
    ),
    ("token", Some(json!(true)), "token was true; it must be a string"),
  ];
  for (name, value, expected) in cases {
    assert_eq!(lease_record(with(name, value)).unwrap_err(), expected);
  }
  for (value, shown) in [(json!(null), "null"), (json!([1]), "a list"), (json!("x"), "a string")] {
    assert_eq!(lease_record(value).unwrap_err(), format!("the record was {shown}; it must be an object"));
  }
}

#[test]
fn every_field_is_needed_but_the_network_and_the_time_of_the_snapshot() {
  let optional = ["networkId", "networkUsed", "snapshotAt"];
  for (name, kind) in LEASE.iter().filter(|(name, _)| !optional.contains(name)) {
    let flaw = lease_record(with(name, None)).unwrap_err();
    assert!(flaw.starts_with(&format!("{name} was missing")), "{flaw}");
    assert!(!matches!(kind, Kind::OptionalText | Kind::OptionalCount));
  }
  for (name, _) in HOLDER {
    let flaw = lease_record(with(&format!("holder.{name}"), None)).unwrap_err();
    assert!(flaw.starts_with(&format!("holder.{name} was missing")), "{flaw}");
  }
}

#[test]
fn what_is_known_of_a_snapshot_is_checked_the_same_way() {
  let meta = json!({ "runId": "r", "fingerprint": "f", "createdAt": 7, "note": "mine" });
  assert_eq!(serde_json::to_value(snapshot_meta(meta.clone()).unwrap()).unwrap(), meta);
  let flaw = snapshot_meta(json!({ "runId": "r", "fingerprint": "f" })).unwrap_err();
  assert_eq!(flaw, "createdAt was missing; it must be a whole number from 0 to 2^53 - 1");
}
