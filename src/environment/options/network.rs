//! `network`: which hosts may be reached, and the bounds of what goes there.

use std::time::Duration;

use super::defaults::{
  HEAD_TIMEOUT_MS, IDLE_TIMEOUT_MS, MAX_BYTES_DOWN, MAX_BYTES_UP, MAX_CONNECTIONS, MAX_HEAD_BYTES,
  MAX_IN_FLIGHT_DNS, MAX_NETWORK_BYTES, MAX_NETWORK_REQUESTS, MAX_REQUESTS, MAX_TOTAL_CONNECTIONS, PORT,
  TLS_PORT, TUNNEL_LIFETIME_MS, Whole,
};
use super::reader::{Field, Fields};
use super::{Allowlist, NetworkPolicy};
use crate::error::{Result, fail};
use crate::proxy::{Policy, Quotas};

const KEYS: &[&str] = &["mode", "allowedDomains", "allowedPorts", "allowPrivateNetworks", "quotas"];
const QUOTA_KEYS: &[&str] = &[
  "maxConnections",
  "maxTotalConnections",
  "maxInFlightDns",
  "maxRequests",
  "maxHeadBytes",
  "headTimeoutMs",
  "maxBytesUp",
  "maxBytesDown",
  "idleTimeoutMs",
  "tunnelLifetimeMs",
  "maxNetworkRequests",
  "maxNetworkBytes",
];
/// Most rules. Each is compared with each request's host; a list of a CDN's names has some hundred.
const MAX_DOMAINS: usize = 1024;

/// Reads the option; without it there is no network.
pub fn read_network(field: &Field<'_>) -> Result<NetworkPolicy> {
  let Some(fields) = field.optional_fields(KEYS)? else { return Ok(NetworkPolicy::Deny) };
  let mode = fields.get("mode");
  match mode.choice(&[("deny", true), ("allowlist", false)])? {
    Some(true) => field.fields(&["mode"]).map(|_| NetworkPolicy::Deny),
    Some(false) => read_allowlist(&fields).map(|allowlist| NetworkPolicy::Allowlist(Box::new(allowlist))),
    None => Err(mode.wrong("\"deny\" or \"allowlist\"")),
  }
}

fn read_allowlist(fields: &Fields<'_>) -> Result<Allowlist> {
  let domains = fields.get("allowedDomains");
  let may = "an array of names, such as [\"example.com\", \"*.example.org\"]; an empty one allows nothing";
  if domains.value().is_none() {
    return Err(domains.wrong(may));
  }
  let items = domains.items(may)?;
  if items.len() > MAX_DOMAINS {
    return Err(fail!(
      ConfigInvalid,
      "Option {} has {} entries; at most {MAX_DOMAINS} are possible.",
      domains.path(),
      items.len()
    ));
  }
  let names = items
    .iter()
    .map(|item| item.required_text("a DNS name, or \"*.\" and one", |_| true))
    .collect::<Result<Vec<_>>>()?;
  let ports = fields.get("allowedPorts");
  let listed = ports.items("an array of ports, each from 1 to 65535")?;
  let listed = listed.iter().map(read_port).collect::<Result<Vec<_>>>()?;
  let ports = if ports.value().is_none() { vec![TLS_PORT] } else { listed };
  let policy = Policy::new(&names, &ports, fields.get("allowPrivateNetworks").flag()?)?;
  Ok(Allowlist { policy, quotas: read_quotas(&fields.get("quotas"))? })
}

fn read_port(field: &Field<'_>) -> Result<u16> {
  let port = field.whole(&PORT)?.and_then(|port| u16::try_from(port).ok());
  port.ok_or_else(|| field.wrong("a port from 1 to 65535"))
}

fn read_quotas(field: &Field<'_>) -> Result<Quotas> {
  let Some(fields) = field.optional_fields(QUOTA_KEYS)? else { return Ok(Quotas::default()) };
  let whole = |key, range: &Whole| fields.get(key).whole_or_default(range);
  let millis = |key, range: &Whole| whole(key, range).map(Duration::from_millis);
  Ok(Quotas {
    max_connections: whole("maxConnections", &MAX_CONNECTIONS)?,
    max_total_connections: whole("maxTotalConnections", &MAX_TOTAL_CONNECTIONS)?,
    max_in_flight_dns: whole("maxInFlightDns", &MAX_IN_FLIGHT_DNS)?,
    max_requests: whole("maxRequests", &MAX_REQUESTS)?,
    max_head_bytes: usize::try_from(whole("maxHeadBytes", &MAX_HEAD_BYTES)?).unwrap_or(usize::MAX),
    head_timeout: millis("headTimeoutMs", &HEAD_TIMEOUT_MS)?,
    max_bytes_up: whole("maxBytesUp", &MAX_BYTES_UP)?,
    max_bytes_down: whole("maxBytesDown", &MAX_BYTES_DOWN)?,
    idle_timeout: millis("idleTimeoutMs", &IDLE_TIMEOUT_MS)?,
    tunnel_lifetime: millis("tunnelLifetimeMs", &TUNNEL_LIFETIME_MS)?,
    max_network_requests: whole("maxNetworkRequests", &MAX_NETWORK_REQUESTS)?,
    max_network_bytes: whole("maxNetworkBytes", &MAX_NETWORK_BYTES)?,
  })
}

#[cfg(test)]
mod tests;
