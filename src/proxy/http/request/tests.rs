use proptest::prelude::*;

use super::super::super::authority::AuthorityFault;
use super::super::super::host::HostFault;
use super::*;

fn read(head: &str) -> Result<Request, Refusal> {
  parse(head.as_bytes())
}

/// The head that goes to the server.
#[track_caller]
fn passed(head: &str) -> (String, Option<Length>) {
  match read(head).unwrap().kind {
    Kind::Plain { head, length, .. } => (String::from_utf8(head).unwrap(), length),
    Kind::Connect => panic!("{head:?} is a CONNECT"),
  }
}

#[track_caller]
fn malformed(head: &str, why: &str) {
  assert_eq!(read(head), Err(Refusal::Malformed(match_why(head, why))), "{head:?}");
}

/// The text of the refusal if it holds `why`.
#[track_caller]
fn match_why(head: &str, why: &str) -> &'static str {
  match read(head) {
    Err(Refusal::Malformed(text)) if text.contains(why) => text,
    other => panic!("{head:?}: {other:?} says nothing of {why:?}"),
  }
}

#[test]
fn a_connect_is_read() {
  for head in [
    "CONNECT good.com:443 HTTP/1.1\r\nHost: good.com:443\r\n\r\n",
    "CONNECT Good.COM.:443 HTTP/1.1\r\nHost: good.com\r\nProxy-Connection: keep-alive\r\n\r\n",
    "CONNECT good.com:443 HTTP/1.0\r\n\r\n",
    "CONNECT good.com:443 HTTP/1.0\r\nhost: GOOD.com:443\r\n\r\n",
  ] {
    let request = read(head).unwrap();
    assert_eq!((request.authority.to_string().as_str(), request.kind), ("good.com:443", Kind::Connect));
  }
}

#[test]
fn a_plain_request_is_passed_on_without_what_belongs_to_the_connection() {
  let (head, length) = passed(
    "POST http://Good.com/a?b=c HTTP/1.1\r\nHost: good.com\r\nProxy-Authorization: Basic secret\r\n\
     Connection: keep-alive, X-Own\r\nX-Own: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nTrailer: X\r\nUpgrade: h2c\r\n\
     Proxy-Connection: close\r\nX-Kept: a  b\r\nContent-Length: 5\r\n\r\n",
  );
  assert_eq!(
    head,
    "POST /a?b=c HTTP/1.1\r\nHost: good.com\r\nX-Kept: a  b\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
  );
  assert_eq!(length, Some(Length::Exact(5)));
}

#[test]
fn targets_are_turned_into_paths() {
  for (target, host, line) in [
    ("http://good.com", "good.com", "GET / HTTP/1.1\r\nHost: good.com\r\n"),
    ("http://good.com/", "good.com:80", "GET / HTTP/1.1\r\nHost: good.com\r\n"),
    ("HTTP://good.com?q", "good.com", "GET /?q HTTP/1.1\r\nHost: good.com\r\n"),
    ("http://good.com:8080/x", "good.com:8080", "GET /x HTTP/1.1\r\nHost: good.com:8080\r\n"),
    ("http://good.com//evil.com/", "good.com", "GET //evil.com/ HTTP/1.1\r\nHost: good.com\r\n"),
  ] {
    let (head, length) = passed(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(head, format!("{line}Connection: close\r\n\r\n"));
    assert_eq!(length, None);
  }
}

#[test]
fn other_forms_are_refused() {
  let no_url = "has a target that is no absolute http:// URL";
  for target in
    ["/", "*", "https://good.com/", "ftp://good.com/", "http:/good.com", "good.com:80", "http//good.com"]
  {
    for method in ["GET", "OPTIONS", "POST"] {
      malformed(&format!("{method} {target} HTTP/1.1\r\nHost: good.com\r\n\r\n"), no_url);
    }
  }
  malformed("GET http://good.com/#a HTTP/1.1\r\nHost: good.com\r\n\r\n", "must be percent-encoded");
  malformed("GET http://good.com/é HTTP/1.1\r\nHost: good.com\r\n\r\n", "must be percent-encoded");
  let plain = read("GET http://good.com:443/ HTTP/1.1\r\nHost: good.com:443\r\n\r\n");
  assert_eq!(plain, Err(Refusal::PlainOnTlsPort));
}

#[test]
fn targets_that_are_no_name_are_refused() {
  use AuthorityFault::*;
  for (target, fault) in [
    ("127.0.0.1:443", Host(HostFault::Address)),
    ("[::1]:443", Host(HostFault::Address)),
    ("[example.com]:443", Host(HostFault::Characters)),
    ("0x7f.1:443", Host(HostFault::Address)),
    ("good.com", PortMissing),
    ("good.com:0", Port),
    ("user@good.com:443", UserInfo),
    ("good.com:443/..", Port),
    ("/", PortMissing),
  ] {
    let refused = read(&format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"));
    let wanted = if target == "/" { Host(HostFault::Characters) } else { fault };
    assert_eq!(refused, Err(Refusal::Target(wanted)), "{target}");
  }
  let refused = read("GET http://good.com@127.0.0.1/ HTTP/1.1\r\nHost: good.com\r\n\r\n");
  assert_eq!(refused, Err(Refusal::Target(UserInfo)));
}

#[test]
fn the_host_header_must_be_the_target() {
  let other = "has a Host header that is not its target's host and port";
  for host in
    ["evil.com", "good.com:80", "good.com:8443", "", "good.com, evil.com", "good.com@evil.com", "127.0.0.1"]
  {
    malformed(&format!("CONNECT good.com:443 HTTP/1.1\r\nHost: {host}\r\n\r\n"), other);
  }
  for host in ["evil.com", "good.com:443", "a.good.com"] {
    malformed(&format!("GET http://good.com/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), other);
    malformed(&format!("GET http://good.com/ HTTP/1.0\r\nHost: {host}\r\n\r\n"), other);
  }
  malformed("CONNECT good.com:443 HTTP/1.1\r\n\r\n", "has no Host header");
  malformed("GET http://good.com/ HTTP/1.1\r\n\r\n", "has no Host header");
  let twice = "Host: good.com\r\nHost: good.com\r\n\r\n";
  malformed(&format!("GET http://good.com/ HTTP/1.1\r\n{twice}"), "has more than one Host header");
  malformed(&format!("CONNECT good.com:443 HTTP/1.0\r\n{twice}"), "has more than one Host header");
}

#[test]
fn ambiguous_bodies_are_refused() {
  for (lines, why) in [
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", "has both Transfer-Encoding and Content-Length"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", "has both Transfer-Encoding and Content-Length"),
    ("Content-Length: 5\r\nContent-Length: 6", "has more than one Content-Length"),
    ("Content-Length: 5\r\nContent-Length: 5", "has more than one Content-Length"),
    ("Content-Length: 5, 5", "has a Content-Length that is no number"),
    ("Content-Length: +5", "has a Content-Length that is no number"),
    ("Content-Length: -1", "has a Content-Length that is no number"),
    ("Content-Length: 0x5", "has a Content-Length that is no number"),
    ("Content-Length:", "has a Content-Length that is no number"),
    ("Content-Length: 18446744073709551616", "has a Content-Length that is no number"),
    ("Transfer-Encoding: gzip", "has a Transfer-Encoding other than"),
    ("Transfer-Encoding: gzip, chunked", "has a Transfer-Encoding other than"),
    ("Transfer-Encoding: xchunked", "has a Transfer-Encoding other than"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "has a Transfer-Encoding other than"),
    ("Transfer-Encoding: chunked\u{b}", "has a malformed head"),
    ("Transfer-Encoding : chunked", "has a malformed head"),
    ("Content-Length : 5", "has a malformed head"),
    ("X: a\r\n Content-Length: 5", "has a header line that begins with white space"),
    ("X: a\r\n\tb", "has a header line that begins with white space"),
    (": a", "has a malformed head"),
    ("X", "has a malformed head"),
    ("Connection: Content-Length\r\nContent-Length: 5", "has a Connection header that names one"),
    ("Connection: close, host", "has a Connection header that names one"),
    ("Connection: transfer-encoding", "has a Connection header that names one"),
  ] {
    malformed(&format!("POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\n{lines}\r\n\r\n"), why);
  }
  malformed(
    "POST http://good.com/ HTTP/1.0\r\nHost: good.com\r\nTransfer-Encoding: chunked\r\n\r\n",
    "has Transfer-Encoding, which HTTP/1.0 does not know",
  );
  for lines in ["Content-Length: 5", "Content-Length: 0", "Transfer-Encoding: chunked"] {
    let head = format!("CONNECT good.com:443 HTTP/1.1\r\nHost: good.com\r\n{lines}\r\n\r\n");
    malformed(&head, "is a CONNECT with a body");
  }
  let (head, length) =
    passed("POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\nTransfer-Encoding: Chunked\t\r\n\r\n");
  assert!(
    head.ends_with("Host: good.com\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"),
    "{head}"
  );
  assert_eq!(length, Some(Length::Chunked));
}

#[test]
fn heads_that_are_no_http_are_refused() {
  malformed("\r\nGET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n", "does not begin with a method");
  malformed("GET http://good.com/\r\n\r\n", "has a malformed head");
  malformed("GET  http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n", "has a malformed head");
  malformed("GET http://good.com/ x HTTP/1.1\r\nHost: good.com\r\n\r\n", "has a malformed head");
  malformed("PRI * HTTP/2.0\r\n\r\n", "has a malformed head");
  malformed("GET http://good.com/ HTTP/1.2\r\nHost: good.com\r\n\r\n", "has a malformed head");
  let lines = |count: usize| "A: b\r\n".repeat(count - 1);
  let head = |count| format!("CONNECT good.com:443 HTTP/1.1\r\nHost: good.com:443\r\n{}\r\n", lines(count));
  assert!(read(&head(MAX_PROXY_HEADERS)).is_ok());
  malformed(&head(MAX_PROXY_HEADERS + 1), "has too many header lines");
}

proptest! {
  #[test]
  fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
    bytes.extend_from_slice(b"\r\n\r\n");
    prop_assert!(parse(&bytes).is_err());
  }

  #[test]
  fn what_is_passed_on_reads_the_same_way(
    lines in prop::collection::vec(("[A-Za-z-]{1,12}", "[ -~]{0,20}"), 0..6),
    path in "/[!-\"$-~]{0,20}",
  ) {
    let mut head = format!("GET http://good.com{path} HTTP/1.1\r\nHost: good.com\r\n");
    for (name, value) in lines {
      head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    if let Ok(Request { kind: Kind::Plain { head, .. }, .. }) = read(&head) {
      let text = String::from_utf8(head).unwrap();
      let start = format!("GET {path} HTTP/1.1\r\nHost: good.com\r\n");
      prop_assert!(text.starts_with(&start));
      prop_assert_eq!(text.to_ascii_lowercase().matches("\r\nhost:").count(), 1);
      prop_assert!(text.ends_with("Connection: close\r\n\r\n"));
    }
  }
}
