use super::*;

fn inside(text: &str) -> Vec<String> {
  addresses(text.parse().unwrap()).map(|address| address.to_string()).collect()
}

#[test]
fn every_form_is_taken_apart() {
  for (address, carried) in [
    ("::ffff:7f00:1", &["127.0.0.1"][..]),
    ("::ffff:a9fe:a9fe", &["169.254.169.254"]),
    ("0:0:0:0:0:ffff:127.0.0.1", &["127.0.0.1"]),
    ("::FFFF:10.0.0.1", &["10.0.0.1"]),
    ("::10.0.0.1", &["10.0.0.1"]),
    ("::2", &["0.0.0.2"]),
    ("::1:0", &["0.1.0.0"]),
    ("::ffff:0:10.0.0.1", &["10.0.0.1"]),
    ("64:ff9b::10.0.0.1", &["10.0.0.1"]),
    ("2002:a00:1::1", &["10.0.0.1"]),
    // RFC 4380, section 4: server 65.54.227.120, client 192.0.2.45.
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", &["65.54.227.120", "192.0.2.45"]),
    ("2606:4700::5efe:10.0.0.1", &["10.0.0.1"]),
    ("2606:4700::200:5efe:10.0.0.1", &["10.0.0.1"]),
    ("2002:808:808::5efe:10.0.0.1", &["8.8.8.8", "10.0.0.1"]),
  ] {
    assert_eq!(inside(address), carried, "{address}");
  }
}

#[test]
fn local_nat64_is_read_at_every_prefix_length() {
  // RFC 6052, section 2.4: 192.0.2.33 under a prefix of 48, 56, 64 and 96 bits.
  for (address, at) in [
    ("64:ff9b:1:c000:2:2100::", 0),
    ("64:ff9b:1:c0:0:221::", 1),
    ("64:ff9b:1:0:c0:2:2100::", 2),
    ("64:ff9b:1::192.0.2.33", 3),
  ] {
    assert_eq!(inside(address)[at], "192.0.2.33", "{address}");
  }
}

#[test]
fn ordinary_addresses_carry_nothing() {
  for address in ["::", "::1", "2606:4700::6810:84e5", "2001:db8::10.0.0.1", "fe80::1", "64:ff9b:2::10.0.0.1"]
  {
    assert_eq!(inside(address), Vec::<String>::new(), "{address}");
  }
}
