use super::*;

#[test]
fn the_defaults_are_those_that_javascript_exports() {
  let exported = include_str!("../../../js/defaults.cjs").replace('_', "");
  let Quotas { max_connections, max_total_connections, max_in_flight_dns, max_requests, .. } =
    Quotas::default();
  let Quotas { max_head_bytes, head_timeout, max_bytes_up, max_bytes_down, .. } = Quotas::default();
  let Quotas { idle_timeout, tunnel_lifetime, max_network_requests, max_network_bytes, .. } =
    Quotas::default();
  for line in [
    format!("maxConnections: {max_connections},"),
    format!("maxTotalConnections: {max_total_connections},"),
    format!("maxInFlightDns: {max_in_flight_dns},"),
    format!("maxRequests: {max_requests},"),
    format!("maxHeadBytes: {} * 1024,", max_head_bytes / 1024),
    format!("headTimeoutMs: {},", head_timeout.as_millis()),
    format!("maxBytesUp: {} * MIB,", max_bytes_up / MIB),
    format!("maxBytesDown: {} * MIB,", max_bytes_down / MIB),
    format!("idleTimeoutMs: {},", idle_timeout.as_millis()),
    format!("tunnelLifetimeMs: {},", tunnel_lifetime.as_millis()),
    format!("maxNetworkRequests: {max_network_requests},"),
    format!("maxNetworkBytes: {} * MIB,", max_network_bytes / MIB),
  ] {
    assert!(exported.contains(&line), "js/defaults.cjs has no {line}");
  }
}
