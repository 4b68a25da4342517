use super::*;

#[test]
fn a_reply_is_whole_and_closes_the_connection() {
  let refusal = Refusal::Quota(Quota::RunConnections(32));
  let text = "32 connections of this run are open (maxConnections). Close one, or wait, then try again.\n";
  let head = format!(
    "HTTP/1.1 429 Too Many Connections\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
     Connection: close\r\n\r\n",
    text.len()
  );
  assert_eq!(String::from_utf8(refusal.reply(false)).unwrap(), format!("{head}{text}"));
  assert_eq!(String::from_utf8(refusal.reply(true)).unwrap(), head);
}

#[test]
fn each_quota_has_a_reason_of_its_own() {
  use Quota::*;
  let quotas = [
    (RunConnections(7), 429, "maxConnections"),
    (TotalConnections(7), 429, "maxTotalConnections"),
    (InFlightDns(7), 429, "maxInFlightDns"),
    (SessionRequests(7), 429, "maxRequests"),
    (HeadTooLarge(7), 431, "maxHeadBytes"),
    (HeadTimeout(7), 408, "headTimeoutMs"),
    (BytesUp(7), 429, "maxBytesUp"),
    (BytesDown(7), 429, "maxBytesDown"),
    (Idle(7), 504, "idleTimeoutMs"),
    (Lifetime(7), 504, "tunnelLifetimeMs"),
    (RunRequests(7), 429, "maxNetworkRequests"),
    (RunBytes(7), 429, "maxNetworkBytes"),
  ];
  for (refusal, status, name) in quotas {
    assert_eq!(refusal.status().0, status, "{name}");
    assert!(refusal.reason().contains(&format!("({name})")), "{}", refusal.reason());
    assert!(refusal.reason().contains('7'), "{}", refusal.reason());
  }
}
