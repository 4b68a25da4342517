use proptest::prelude::*;

use super::*;

fn fault(text: &str) -> HostFault {
  match Host::parse(text) {
    Ok(host) => panic!("{text:?} became {host}"),
    Err(fault) => fault,
  }
}

#[test]
fn one_name_has_one_form() {
  for (text, name) in [
    ("api.example.com", "api.example.com"),
    ("API.Example.COM.", "api.example.com"),
    ("a.b", "a.b"),
    ("localhost", "localhost"),
    ("bücher.example", "xn--bcher-kva.example"),
    ("BÜCHER.example", "xn--bcher-kva.example"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("example。com", "example.com"),
    ("ｅｘａｍｐｌｅ.com", "example.com"),
    ("r3---sn-4g5e6nl7.googlevideo.com", "r3---sn-4g5e6nl7.googlevideo.com"),
    ("1.2.3.example", "1.2.3.example"),
    ("0x7f.example", "0x7f.example"),
    ("127.0.0.1.nip.io", "127.0.0.1.nip.io"),
    ("0xg", "0xg"),
  ] {
    assert_eq!(Host::parse(text).map(|host| host.to_string()), Ok(name.to_owned()), "{text:?}");
  }
}

#[test]
fn empty_labels_are_refused() {
  for text in ["", ".", "..", "example.com..", "a..b", ".example.com", "169.254.169.254..", "example.com。."]
  {
    assert_eq!(fault(text), HostFault::EmptyLabel, "{text:?}");
  }
}

#[test]
fn every_spelling_of_an_address_is_refused() {
  for text in [
    "127.0.0.1",
    "127.0.0.1.",
    "0",
    "0.0.0.0",
    "127.1",
    "0177.0.0.1",
    "017700000001",
    "0x7f.1",
    "0x7f000001",
    "0x7F000001",
    "0X7f000001",
    "0x",
    "2130706433",
    "1.2.3",
    "256.1.1.1",
    "1.2.3.4.5",
    "example.1",
    "example.0x1f",
    "①②⑦.0.0.1",
    "１２７.０.０.１",
    "127。0。0。1",
    "[::1]",
    "[::1",
    "[[::1]]",
    "[127.0.0.1]",
    "::1",
    "::ffff:7f00:1",
    "0:0:0:0:0:ffff:127.0.0.1",
    "::FFFF:10.0.0.1",
    "[::ffff:a9fe:a9fe]",
    "[fe80::1%25eth0]",
    "[::ffff:169.254.169.254%eth0]",
    "fe80::1%eth0",
    "%31%32%37.0.0.1",
  ] {
    assert_eq!(fault(text), HostFault::Address, "{text:?}");
  }
}

#[test]
fn what_no_host_name_has_is_refused() {
  for text in [
    "a b.example",
    "good.com\t",
    "good.com\0",
    "good.com/",
    "good.com?",
    "a_b.example",
    "-a.example",
    "a-.example",
    "*.good.com",
    "a@b.example",
    "a\\b.example",
    "a#b",
    "xn--a.example",
    "xn--.example",
    "good.com\r\n",
    "a,b.example",
    "[]",
    "[example.com]",
    "example%2ecom",
    "good.com:443",
  ] {
    assert_eq!(fault(text), HostFault::Characters, "{text:?}");
  }
}

#[test]
fn names_are_as_long_as_dns_lets_them_be() {
  let label = "a".repeat(63);
  assert!(Host::parse(&format!("{label}.example")).is_ok());
  assert_eq!(fault(&format!("{label}a.example")), HostFault::TooLong);
  let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
  assert_eq!(longest.len(), 253);
  assert!(Host::parse(&longest).is_ok());
  assert!(Host::parse(&format!("{longest}.")).is_ok());
  assert_eq!(fault(&format!("{longest}a")), HostFault::TooLong);
  assert_eq!(fault(&"a.".repeat(150)), HostFault::TooLong);
  assert_eq!(fault(&"ü".repeat(100_000)), HostFault::TooLong);
}

#[test]
fn below_means_at_a_label() {
  let base = Host::parse("good.com").unwrap();
  for (text, below) in [
    ("a.good.com", true),
    ("a.b.good.com", true),
    ("good.com", false),
    ("evilgood.com", false),
    ("good.com.evil.com", false),
  ] {
    assert_eq!(Host::parse(text).unwrap().is_below(&base), below, "{text}");
  }
}

proptest! {
  #[test]
  fn what_is_accepted_is_plain_and_stays_the_same(text in "\\PC{0,40}") {
    if let Ok(host) = Host::parse(&text) {
      let name = host.as_str();
      prop_assert!(name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.')));
      prop_assert!(!name.starts_with('.') && !name.ends_with('.') && !name.contains(".."));
      prop_assert!(name.parse::<core::net::IpAddr>().is_err());
      prop_assert_eq!(Host::parse(name).unwrap(), host.clone());
      prop_assert_eq!(Host::parse(&host.absolute()).unwrap(), host);
    }
  }

  #[test]
  fn no_address_is_a_name(bits in any::<u32>(), form in 0..7_u8) {
    let [a, b, c, d] = bits.to_be_bytes();
    let text = match form {
      0 => format!("{a}.{b}.{c}.{d}"),
      1 => format!("{bits}"),
      2 => format!("{bits:#x}"),
      3 => format!("0{bits:o}"),
      4 => format!("{a}.{}", bits & 0xff_ffff),
      5 => format!("{a:#x}.{b:#o}.{c}.{d}").replace("0o", "0"),
      _ => format!("::ffff:{a}.{b}.{c}.{d}"),
    };
    prop_assert_eq!(Host::parse(&text), Err(HostFault::Address));
  }
}
