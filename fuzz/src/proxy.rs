//! The proxy's readers: what comes in pieces means what it means whole; a name that is accepted has one form and is no
//! address; what is passed on is read by others as by us.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arbitrary::{Result, Unstructured};
use sandbox_docker::proxy::address::not_global;
use sandbox_docker::proxy::fuzzing::{chunked, head_end, hello, reply, request};
use sandbox_docker::proxy::{Authority, Host, Policy, Rule};

use super::messages;
use super::pieces::pieces;

/// A head or hello, several times over.
const MEMORY: usize = 16 * 1024 * 1024;
const MAX_HEADERS: usize = 256;

pub fn check(data: &[u8]) {
  let [what, seed, rest @ ..] = data else { return };
  super::bounded(MEMORY, || match what % 9 {
    0 => host(rest),
    1 => rule(rest),
    2 => authority(rest),
    3 => request_head(rest, *seed),
    4 => reply_head(rest, *seed),
    5 => body(rest, *seed),
    6 => first_bytes(rest, *seed),
    7 => address(rest),
    // An input that ends too early is none.
    _ => _ = made_hello(&mut Unstructured::new(rest), *seed),
  });
}

/// What the standard library has a word for is not globally reachable, on its own or carried by IPv6; nor is any of it a name.
fn address(data: &[u8]) {
  let Some((bytes, rest)) = data.split_first_chunk::<16>() else { return };
  let six = Ipv6Addr::from(*bytes);
  let four = Ipv4Addr::from_bits(six.to_bits() as u32);
  let special = four.is_private()
    || four.is_loopback()
    || four.is_link_local()
    || four.is_multicast()
    || four.is_broadcast()
    || four.is_documentation()
    || four.is_unspecified()
    || four.octets()[0] == 0
    || four.octets()[0] >= 240;
  assert!(!special || not_global(four.into()).is_some(), "{four}");
  let nat64 = Ipv6Addr::from_bits(0x64_ff9b << 96 | u128::from(four.to_bits()));
  assert_eq!(not_global(nat64.into()), not_global(four.into()), "{nat64}");
  for always in [four.to_ipv6_mapped(), four.to_ipv6_compatible()] {
    assert!(not_global(always.into()).is_some(), "{always}");
  }
  let special = six.is_loopback()
    || six.is_unspecified()
    || six.is_multicast()
    || six.is_unique_local()
    || six.is_unicast_link_local()
    || matches!(six.segments(), [0x2002, ..] | [0x2001, 0 | 0xdb8, ..]);
  assert!(!special || not_global(six.into()).is_some(), "{six}");
  let zone = String::from_utf8_lossy(rest);
  for text in [
    four.to_string(),
    six.to_string(),
    format!("[{six}]"),
    format!("{six}%{zone}"),
    format!("[{six}%25{zone}]"),
  ] {
    assert!(Host::parse(&text).is_err(), "{text}");
  }
}

/// One form, which is a name.
fn named(host: &Host) {
  let name = host.as_str();
  assert_eq!(Host::parse(name).as_ref(), Ok(host), "the same again");
  assert_eq!(Host::parse(&name.to_ascii_uppercase()).as_ref(), Ok(host), "in capitals");
  assert_eq!(Host::parse(&format!("{name}.")).as_ref(), Ok(host), "with its dot");
  let labels: Vec<_> = name.split('.').collect();
  let fits = |label: &&str| {
    let bytes = label.as_bytes();
    (1..=63).contains(&bytes.len())
      && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
      && !label.starts_with('-')
      && !label.ends_with('-')
  };
  assert!(name.len() <= 253 && labels.iter().all(fits), "{name}");
  assert!(name.parse::<IpAddr>().is_err() && !is_old_address(name), "{name} is an address");
}

/// `inet_aton`: up to four numbers, decimal, octal or hexadecimal.
fn is_old_address(name: &str) -> bool {
  let parts: Vec<_> = name.split('.').collect();
  let number = |part: &&str| {
    let hex = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X"));
    hex.map_or_else(
      || !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()),
      |hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
    )
  };
  parts.len() <= 4 && parts.iter().all(number)
}

fn host(bytes: &[u8]) {
  let text = String::from_utf8_lossy(bytes);
  if let Ok(host) = Host::parse(&text) {
    named(&host);
  }
  // Every spelling of an address is refused.
  if let [a, b, c, d, ..] = *bytes {
    let address = Ipv4Addr::new(a, b, c, d);
    let number = u32::from(address);
    let spellings = [
      format!("{address}"),
      format!("{address}."),
      format!("{number}"),
      format!("0x{number:x}"),
      format!("0{number:o}"),
      format!("{a}.{}", number & 0xff_ffff),
      format!("0x{a:X}.{b}.0{c:o}.{d}"),
      format!("[::ffff:{address}]"),
      format!("{}", address.to_ipv6_mapped()),
    ];
    for spelling in spellings {
      assert!(Host::parse(&spelling).is_err(), "{spelling}");
    }
  }
}

/// A name below one of a few public suffixes: the list of all of them is somebody else's, and has an edge for each.
fn below(suffix: u8, name: &str) -> String {
  const SUFFIXES: [&str; 8] = [
    "example",
    "com",
    "co.uk",
    "s3.amazonaws.com",
    "github.io",
    "city.kawasaki.jp",
    "公司.cn",
    "xn--55qx5d.cn",
  ];
  format!("{name}.{}", SUFFIXES[usize::from(suffix) % SUFFIXES.len()])
}

fn rule(bytes: &[u8]) {
  let Some((suffix, text)) = bytes.split_first() else { return };
  let text = String::from_utf8_lossy(text);
  let (text, other) = text.split_once(' ').unwrap_or((&text, "a"));
  let text = below(*suffix, text);
  let Ok(rule) = Rule::parse(&text) else { return };
  assert_eq!(Rule::parse(&rule.to_string()).unwrap(), rule);
  let base = match &rule {
    Rule::Exact(host) | Rule::Below(host) => host.clone(),
  };
  named(&base);
  let hosts =
    [other.to_owned(), format!("a.{base}"), format!("a{base}"), base.to_string(), format!("a.b.{base}")];
  for host in hosts.iter().filter_map(|host| Host::parse(host).ok()) {
    let allowed = rule.allows(&host);
    match &rule {
      Rule::Exact(name) => assert_eq!(allowed, *name == host, "{rule} {host}"),
      Rule::Below(name) => {
        let below = host.as_str().ends_with(&format!(".{name}"));
        assert!(below || !allowed, "{rule} {host}");
      }
    }
    let policy = Policy::new(&[&text], &[443], false).unwrap();
    let decided = policy.decide(&Authority { host: host.clone(), port: 443 });
    assert_eq!(decided.is_ok(), allowed, "{rule} {host}");
    assert!(policy.decide(&Authority { host, port: 80 }).is_err());
  }
}

fn authority(bytes: &[u8]) {
  let text = String::from_utf8_lossy(bytes);
  for default in [None, Some(80)] {
    let Ok(authority) = Authority::parse(&text, default) else { continue };
    named(&authority.host);
    assert_ne!(authority.port, 0);
    assert_eq!(Authority::parse(&authority.to_string(), None), Ok(authority));
  }
}

/// The length of a head in one piece, which it has in any.
fn head(bytes: &[u8], seed: u8) -> Option<&[u8]> {
  let whole = head_end(std::iter::once(bytes));
  assert_eq!(head_end(pieces(bytes, seed)), whole, "in pieces");
  let head = &bytes[..whole.ok()??];
  assert!(head.ends_with(b"\r\n\r\n"));
  Some(head)
}

fn request_head(bytes: &[u8], seed: u8) {
  let Some(head) = head(bytes, seed) else { return };
  let Ok(read) = request(head) else { return };
  named(&read.authority.host);
  assert_ne!(read.authority.port, 0);
  let Some(passed) = read.head.as_deref() else {
    assert!(head.starts_with(b"CONNECT "));
    return;
  };
  let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
  let mut other = httparse::Request::new(&mut headers);
  assert_eq!(other.parse(passed), Ok(httparse::Status::Complete(passed.len())), "as the server reads it");
  let (method, path) = (other.method.unwrap(), other.path.unwrap());
  assert!(head.starts_with(method.as_bytes()) && path.starts_with('/') && method != "CONNECT");
  let hosts = values(other.headers, "host");
  let [host] = hosts.as_slice() else { panic!("{hosts:?}") };
  let host = Authority::parse(std::str::from_utf8(host).unwrap(), Some(80)).unwrap();
  assert_eq!(host, read.authority);
  closes(other.headers);
  // And as we would, from a client that says the same to us.
  let line = format!("{method} http://{host}{path} HTTP/1.{}\r\n", other.version.unwrap());
  let lines = passed.windows(2).position(|two| two == b"\r\n").unwrap() + 2;
  let again = request(&[line.as_bytes(), &passed[lines..]].concat());
  assert_eq!(again.as_ref().ok(), Some(&read), "the same again");
}

fn values<'a>(headers: &[httparse::Header<'a>], name: &str) -> Vec<&'a [u8]> {
  headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value).collect()
}

/// What is passed on says once how its body ends, and that the connection does.
fn closes(headers: &[httparse::Header<'_>]) {
  assert_eq!(values(headers, "connection"), [b"close"]);
  let lengths = values(headers, "content-length").len() + values(headers, "transfer-encoding").len();
  assert!(lengths <= 1);
  for ours in ["keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade"] {
    assert!(values(headers, ours).is_empty(), "{ours}");
  }
}

fn reply_head(bytes: &[u8], seed: u8) {
  let Some(head) = head(bytes, seed) else { return };
  for is_head in [false, true] {
    let Ok(read) = reply(head, is_head) else { continue };
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut other = httparse::Response::new(&mut headers);
    assert_eq!(
      other.parse(&read.head),
      Ok(httparse::Status::Complete(read.head.len())),
      "as the client reads it"
    );
    let code = other.code.unwrap();
    assert_ne!(code, 101);
    if code >= 200 {
      closes(other.headers);
      assert_eq!(reply(&read.head, is_head).as_ref(), Ok(&read), "the same again");
    }
  }
}

fn body(bytes: &[u8], seed: u8) {
  let whole = chunked(std::iter::once(bytes));
  assert_eq!(chunked(pieces(bytes, seed)), whole, "in pieces");
  let Ok((length, is_complete)) = whole else { return };
  assert!(length <= bytes.len() && (is_complete || length == bytes.len()));
  assert_eq!(chunked(std::iter::once(&bytes[..length])), Ok((length, is_complete)), "its own bytes");
  if is_complete {
    let decoded = decoded(&bytes[..length]);
    assert!(decoded.is_some(), "another reader does not take it");
  }
}

/// The contents of a chunked body, by another reader of sizes.
fn decoded(mut body: &[u8]) -> Option<Vec<u8>> {
  let mut contents = Vec::new();
  loop {
    let httparse::Status::Complete((at, size)) = httparse::parse_chunk_size(body).ok()? else { return None };
    body = &body[at..];
    if size == 0 {
      return Some(contents);
    }
    let (chunk, rest) = body.split_at_checked(usize::try_from(size).ok()?)?;
    contents.extend_from_slice(chunk);
    body = rest.strip_prefix(b"\r\n")?;
  }
}

/// A tunnel's first bytes, which pass unchanged or not at all.
fn first_bytes(bytes: &[u8], seed: u8) {
  let host = Host::parse("a.example").unwrap();
  for tls_only in [true, false] {
    let whole = hello(&host, tls_only, std::iter::once(bytes).filter(|bytes| !bytes.is_empty()));
    let cut = hello(&host, tls_only, pieces(bytes, seed));
    match (&whole, &cut) {
      // What is passed on is what was held when that became known; the rest follows as it comes.
      (Ok(Some(whole)), Ok(Some(cut))) => {
        assert_eq!(whole, bytes);
        assert!(bytes.starts_with(cut));
        let is_tls = matches!(bytes, [20..=23, 3, ..]);
        assert!(!is_tls || contains(cut, b"a.example"), "TLS passes without the name");
        assert!(is_tls || !tls_only);
      }
      _ => assert_eq!(whole, cut, "in pieces"),
    }
  }
}

fn contains(bytes: &[u8], name: &[u8]) -> bool {
  // Records may cut the name: their heads are left out.
  let mut message = Vec::new();
  let mut rest = bytes;
  while let [_, _, _, high, low, after @ ..] = rest {
    let (fragment, next) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(after.len()));
    message.extend_from_slice(fragment);
    rest = next;
  }
  message.to_ascii_lowercase().windows(name.len()).any(|window| window == name)
}

/// A hello whose lengths are right, most of them.
fn made_hello(u: &mut Unstructured<'_>, seed: u8) -> Result<()> {
  let mut extensions = Vec::new();
  for _ in 0..u.int_in_range(0..=3u8)? {
    let mut name =
      u.choose(&["a.example", "A.EXAMPLE", "a.example.", "b.example", "1.2.3.4", ""])?.as_bytes().to_vec();
    if u.ratio(1, 8)? {
      name = messages::bytes(u, 300)?.to_vec();
    }
    let list = [&[u.int_in_range(0..=1u8)? & u.int_in_range(0..=1)?][..], &sized(u, 2, &name)?].concat();
    let value = if u.ratio(7, 8)? { sized(u, 2, &list)? } else { messages::bytes(u, 40)?.to_vec() };
    let kind = if u.ratio(3, 4)? { 0u16 } else { u.arbitrary()? };
    extensions.extend(kind.to_be_bytes());
    extensions.extend(sized(u, 2, &value)?);
  }
  let mut body = vec![3; 34];
  let session = messages::bytes(u, 32)?;
  body.extend(sized(u, 1, session)?);
  body.extend(sized(u, 2, &[0x13, 1])?);
  body.extend(sized(u, 1, &[0])?);
  if u.ratio(7, 8)? {
    body.extend(sized(u, 2, &extensions)?);
  }
  let message = [&[if u.ratio(15, 16)? { 1 } else { u.arbitrary()? }][..], &sized(u, 3, &body)?].concat();
  let mut bytes = Vec::new();
  let mut rest = message.as_slice();
  while !rest.is_empty() {
    let length = u.int_in_range(1..=300usize)?.min(rest.len());
    let (fragment, after) = rest.split_at(if u.ratio(3, 4)? { rest.len() } else { length });
    bytes.extend([if u.ratio(15, 16)? { 22 } else { u.arbitrary()? }, 3, 1]);
    bytes.extend(sized(u, 2, fragment)?);
    rest = after;
  }
  bytes.extend_from_slice(messages::bytes(u, 40)?);
  first_bytes(&bytes, seed);
  Ok(())
}

/// Bytes behind their length, mostly the right one.
fn sized(u: &mut Unstructured<'_>, digits: usize, bytes: &[u8]) -> Result<Vec<u8>> {
  let length = if u.ratio(31, 32)? { bytes.len() } else { usize::from(u.arbitrary::<u16>()?) };
  let mut all = u32::try_from(length).unwrap().to_be_bytes()[4 - digits..].to_vec();
  all.extend_from_slice(bytes);
  Ok(all)
}
