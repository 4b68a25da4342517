use serde_json::{Value, json};

use super::*;
use crate::docker::EngineKind;
use crate::environment::options::Options;
use crate::error::{Error, ErrorCode};

fn read(network: Value) -> Result<NetworkPolicy, Error> {
  let options = json!({ "workspace": { "id": "w" }, "network": network });
  Options::from_json(&options, &[], EngineKind::Node).map(|options| options.network)
}

fn allowlist(more: Value) -> Result<Allowlist, Error> {
  let mut network = json!({ "mode": "allowlist", "allowedDomains": ["example.com"] });
  if let (Some(fields), Value::Object(more)) = (network.as_object_mut(), more) {
    fields.extend(more);
  }
  read(network).map(|network| network.allowlist().unwrap().clone())
}

#[track_caller]
fn bad(more: Value, part: &str) {
  let error = allowlist(more).unwrap_err();
  assert_eq!(error.code(), ErrorCode::ConfigInvalid, "{error}");
  assert!(error.message().contains(part), "{error}");
}

#[test]
fn the_defaults_are_port_443_public_addresses_and_the_published_quotas() {
  let Allowlist { policy, quotas } = allowlist(json!({})).unwrap();
  assert_eq!((policy.ports(), policy.allows_private()), (&[443][..], false));
  assert_eq!(quotas, Quotas::default());
}

#[test]
fn every_quota_is_read_into_its_own_field() {
  for (at, name) in QUOTA_KEYS.iter().enumerate() {
    let value = 70 + at;
    let quotas = allowlist(json!({ "quotas": { *name: value } })).unwrap().quotas;
    let changed = format!("{quotas:?}");
    let shown = if name.ends_with("Ms") { format!("{value}ms") } else { format!(": {value}") };
    assert!(changed.contains(&shown) && quotas != Quotas::default(), "{name}: {changed}");
  }
}

#[test]
fn quotas_are_whole_numbers_above_none_and_below_their_most() {
  for name in QUOTA_KEYS {
    for value in [json!(0), json!(-1), json!(1.5), json!("1"), json!(1e300), json!(null)] {
      bad(json!({ "quotas": { *name: value } }), &format!("Option network.quotas.{name} was "));
    }
  }
  bad(json!({ "quotas": { "maxConnections": 97 } }), "from 1 to 96 (connections)");
  bad(json!({ "quotas": { "maxConnection": 1 } }), "did you mean network.quotas.maxConnections?");
  bad(json!({ "quotas": 5 }), "Option network.quotas was 5; it must be an object");
}

// C26: an empty list allows nothing, and an absent one is a mistake.
#[test]
fn an_empty_list_is_not_an_absent_one() {
  assert!(allowlist(json!({ "allowedDomains": [] })).unwrap().policy.rules().is_empty());
  assert!(allowlist(json!({ "allowedPorts": [] })).unwrap().policy.ports().is_empty());
  let missing = read(json!({ "mode": "allowlist" })).unwrap_err();
  assert!(
    missing.message().starts_with("Option network.allowedDomains was missing; it must be an array"),
    "{missing}"
  );
  for list in
    [json!([""]), json!([" "]), json!([","]), json!("example.com"), json!([null]), json!([["a.com"]])]
  {
    bad(json!({ "allowedDomains": list }), "allowedDomains");
  }
}

// C10, C11, C33.
#[test]
fn rules_are_names_in_one_form_and_no_public_suffix() {
  let names = json!(["API.Example.com.", "api.example.com", "*.b.test"]);
  let policy = allowlist(json!({ "allowedDomains": names })).unwrap().policy;
  let rules: Vec<_> = policy.rules().iter().map(ToString::to_string).collect();
  assert_eq!(rules, ["api.example.com", "*.b.test"]);
  for name in ["*", "*.com", "com", "co.uk", "10.0.0.1", "[::1]", "a.com:443", "https://a.com", "a..com"] {
    bad(json!({ "allowedDomains": [name] }), "cannot be a rule");
  }
  let many: Vec<_> = (0..=MAX_DOMAINS).map(|number| format!("h{number}.example.com")).collect();
  bad(json!({ "allowedDomains": many }), "has 1025 entries; at most 1024 are possible");
}

#[test]
fn ports_are_ports() {
  assert_eq!(allowlist(json!({ "allowedPorts": [8443, 80, 80] })).unwrap().policy.ports(), [80, 8443]);
  for port in [json!(0), json!(65_536), json!("443"), json!(1.5), json!(null)] {
    bad(json!({ "allowedPorts": [port] }), "Option network.allowedPorts[0] was ");
  }
  bad(json!({ "allowedPorts": 443 }), "Option network.allowedPorts was 443; it must be an array of ports");
  bad(json!({ "allowPrivateNetworks": 1 }), "it must be true or false");
}

#[test]
fn deny_takes_nothing_else() {
  assert_eq!(read(json!({ "mode": "deny" })).unwrap(), NetworkPolicy::Deny);
  assert!(read(json!({ "mode": "deny", "allowedDomains": [] })).is_err());
}
