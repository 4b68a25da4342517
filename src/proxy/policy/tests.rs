use super::*;
use crate::error::ErrorCode;

fn decide(domains: &[&str], ports: &[u16], target: &str) -> Result<String, Refusal> {
  let policy = Policy::new(domains, ports, false).unwrap();
  policy.decide(&Authority::parse(target, None).unwrap()).map(ToString::to_string)
}

fn is_allowed(rule: &str, host: &str) -> bool {
  decide(&[rule], &[443], &format!("{host}:443")).is_ok()
}

#[test]
fn an_exact_rule_allows_its_name_alone() {
  assert_eq!(decide(&["Example.com."], &[443], "EXAMPLE.com:443"), Ok("example.com".to_owned()));
  assert!(is_allowed("example.com", "example.com."));
  for host in ["a.example.com", "notexample.com", "example.com.evil.net", "example.co"] {
    assert!(!is_allowed("example.com", host), "{host}");
  }
  assert!(is_allowed("bücher.example", "xn--bcher-kva.example"));
}

#[test]
fn a_wildcard_allows_names_below_and_not_the_name() {
  for host in ["a.good.com", "a.b.good.com", "A.GOOD.com."] {
    assert!(is_allowed("*.good.com", host), "{host}");
  }
  for host in ["good.com", "evilgood.com", "good.com.evil.com", "a.evilgood.com"] {
    assert!(!is_allowed("*.good.com", host), "{host}");
  }
}

#[test]
fn a_wildcard_ends_at_a_public_suffix() {
  assert!(is_allowed("*.amazonaws.com", "sts.amazonaws.com"));
  assert!(!is_allowed("*.amazonaws.com", "mine.s3.amazonaws.com"));
  assert!(!is_allowed("*.amazonaws.com", "s3.amazonaws.com"));
  assert!(is_allowed("*.mine.github.io", "docs.mine.github.io"));
  assert!(is_allowed("mine.s3.amazonaws.com", "mine.s3.amazonaws.com"));
}

#[test]
fn public_suffixes_and_nonsense_are_no_rules() {
  for (text, part) in [
    ("com", "it is a public suffix"),
    ("*.com", "it is a public suffix"),
    ("co.uk", "it is a public suffix"),
    ("*.co.uk", "it is a public suffix"),
    ("*.github.io", "it is a public suffix"),
    ("github.io", "it is a public suffix"),
    ("*.s3.amazonaws.com", "it is a public suffix"),
    ("*.anything.ck", "it is a public suffix"),
    ("公司.cn", "it is a public suffix"),
    ("*.xn--55qx5d.cn", "it is a public suffix"),
    ("*.unlisted-tld", "it is a public suffix"),
    ("localhost", "it is a public suffix"),
    ("*", "\"*\" may only be the whole first label"),
    ("*.*.com", "\"*\" may only be the whole first label"),
    ("a*.example.com", "\"*\" may only be the whole first label"),
    ("a.*.example.com", "\"*\" may only be the whole first label"),
    ("", "the name has an empty label"),
    (" ", "the name is no DNS host name"),
    (",", "the name is no DNS host name"),
    ("*.", "the name has an empty label"),
    ("example.com..", "the name has an empty label"),
    ("https://example.com", "only a name can be allowed, without scheme, port or path"),
    ("example.com:443", "only a name can be allowed, without scheme, port or path"),
    ("127.0.0.1", "it is an IP address"),
    ("*.0.0.1", "it is an IP address"),
    ("::ffff:0:0/96", "only a name can be allowed, without scheme, port or path"),
  ] {
    let error = Policy::new(&[text], &[443], false).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConfigInvalid, "{text:?}");
    assert!(error.message().contains(part), "{text:?}: {error}");
    assert!(error.message().starts_with(&format!("Option network.allowedDomains has {text:?}")), "{error}");
  }
}

#[test]
fn no_rules_and_no_ports_allow_nothing() {
  let refused = decide(&[], &[443], "example.com:443").unwrap_err();
  assert_eq!(refused.status().0, 403);
  assert_eq!(
    refused.reason(),
    "The host example.com is not in the allowlist. Allowed: nothing. Do not retry; use an allowed host."
  );
  let refused = decide(&["example.com"], &[], "example.com:443").unwrap_err();
  assert_eq!(refused, Refusal::PortNotAllowed { port: 443, allowed: "nothing".to_owned() });
}

#[test]
fn an_allowed_host_is_allowed_at_the_allowed_ports_alone() {
  assert!(decide(&["good.com"], &[443, 8443], "good.com:8443").is_ok());
  for port in [22, 25, 80, 442, 444, 8443] {
    let refused = decide(&["good.com"], &[443], &format!("good.com:{port}")).unwrap_err();
    assert_eq!(refused, Refusal::PortNotAllowed { port, allowed: "443".to_owned() });
  }
  let error = Policy::new(&["good.com"], &[0], false).unwrap_err();
  assert_eq!(error.message(), "Option network.allowedPorts has 0; a port may be 1 to 65535.");
}

#[test]
fn a_refusal_shows_some_rules() {
  let domains: Vec<_> = (10..40).map(|n| format!("h{n}.example")).collect();
  let policy = Policy::new(&domains, &[443], false).unwrap();
  let refused = policy.decide(&Authority::parse("other.example:443", None).unwrap()).unwrap_err();
  assert!(refused.reason().contains("h10.example, h11.example"), "{}", refused.reason());
  assert!(refused.reason().contains("h29.example and 10 more."), "{}", refused.reason());
}
