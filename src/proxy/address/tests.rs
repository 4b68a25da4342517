use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn of(text: &str) -> Option<&'static str> {
  not_global(text.parse().unwrap())
}

/// The name of the longest range with `address` and whether it is global, found another way than the code does.
fn expected_v4(address: Ipv4Addr) -> Option<&'static str> {
  let bits = u32::from(address);
  let mut best: Option<(u8, bool, &'static str)> = None;
  for range in table::IPV4 {
    let length = range.net.prefix_len();
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    let inside = bits & mask == u32::from(range.net.addr());
    if inside && best.is_none_or(|(other, ..)| length > other) {
      best = Some((length, range.global, range.name));
    }
  }
  best.filter(|(_, global, _)| !global).map(|(.., name)| name)
}

#[test]
fn each_ipv4_range_begins_and_ends_where_it_should() {
  for range in table::IPV4 {
    let (first, last) = (u32::from(range.net.network()), u32::from(range.net.broadcast()));
    assert_eq!(u32::from(range.net.addr()), first, "{} has host bits", range.net);
    let edges = [Some(first), Some(last), first.checked_sub(1), last.checked_add(1)];
    for bits in edges.into_iter().flatten() {
      let address = Ipv4Addr::from(bits);
      assert_eq!(not_global(IpAddr::V4(address)), expected_v4(address), "{address} at {}", range.net);
    }
    for bits in [first, last] {
      let inner = table::IPV4.iter().any(|other| {
        other.net.prefix_len() > range.net.prefix_len() && other.net.contains(&Ipv4Addr::from(bits))
      });
      let name = (!range.global).then_some(range.name);
      assert!(inner || not_global(IpAddr::V4(bits.into())) == name, "{}", range.net);
    }
  }
}

#[test]
fn each_ipv6_range_begins_and_ends_where_it_should() {
  for range in table::IPV6 {
    let (first, last) = (u128::from(range.net.network()), u128::from(range.net.broadcast()));
    assert_eq!(u128::from(range.net.addr()), first, "{} has host bits", range.net);
    for bits in [first, last] {
      let address = Ipv6Addr::from(bits);
      let longer = |other: &&Range<Ipv6Net>| other.net.prefix_len() > range.net.prefix_len();
      let inner = table::IPV6.iter().filter(longer).any(|other| other.net.contains(&address));
      // An IPv4 address inside decides where the range itself does not refuse.
      let embeds = embedded::addresses(address).next().is_some();
      let name = (!range.global).then_some(range.name);
      assert!(inner || embeds && range.global || not_global(IpAddr::V6(address)) == name, "{address}");
    }
  }
}

/// First and last addresses of ranges and their neighbours, and whether each is globally reachable: written out, so that
/// a wrong row of the table fails.
const IPV4_EDGES: &[(&str, bool)] = &[
  ("0.0.0.0", false),
  ("0.255.255.255", false),
  ("1.0.0.0", true),
  ("9.255.255.255", true),
  ("10.0.0.0", false),
  ("10.255.255.255", false),
  ("11.0.0.0", true),
  ("100.63.255.255", true),
  ("100.64.0.0", false),
  ("100.127.255.255", false),
  ("100.128.0.0", true),
  ("126.255.255.255", true),
  ("127.0.0.0", false),
  ("127.255.255.255", false),
  ("128.0.0.0", true),
  ("169.253.255.255", true),
  ("169.254.0.0", false),
  ("169.254.255.255", false),
  ("169.255.0.0", true),
  ("172.15.255.255", true),
  ("172.16.0.0", false),
  ("172.31.255.255", false),
  ("172.32.0.0", true),
  ("191.255.255.255", true),
  ("192.0.0.0", false),
  ("192.0.0.7", false),
  ("192.0.0.8", false),
  ("192.0.0.9", true),
  ("192.0.0.10", true),
  ("192.0.0.11", false),
  ("192.0.0.170", false),
  ("192.0.0.171", false),
  ("192.0.0.192", false),
  ("192.0.0.255", false),
  ("192.0.1.0", true),
  ("192.0.1.255", true),
  ("192.0.2.0", false),
  ("192.0.2.255", false),
  ("192.0.3.0", true),
  ("192.31.196.0", true),
  ("192.52.193.255", true),
  ("192.88.98.255", true),
  ("192.88.99.0", false),
  ("192.88.99.2", false),
  ("192.88.99.255", false),
  ("192.88.100.0", true),
  ("192.167.255.255", true),
  ("192.168.0.0", false),
  ("192.168.255.255", false),
  ("192.169.0.0", true),
  ("192.175.48.0", true),
  ("198.17.255.255", true),
  ("198.18.0.0", false),
  ("198.19.255.255", false),
  ("198.20.0.0", true),
  ("198.51.99.255", true),
  ("198.51.100.0", false),
  ("198.51.100.255", false),
  ("198.51.101.0", true),
  ("203.0.112.255", true),
  ("203.0.113.0", false),
  ("203.0.113.255", false),
  ("203.0.114.0", true),
  ("223.255.255.255", true),
  ("224.0.0.0", false),
  ("239.255.255.255", false),
  ("240.0.0.0", false),
  ("255.255.255.254", false),
  ("255.255.255.255", false),
  ("168.63.129.15", true),
  ("168.63.129.16", false),
  ("168.63.129.17", true),
];

/// The same for IPv6.
const IPV6_EDGES: &[(&str, bool)] = &[
  ("::", false),
  ("::1", false),
  ("::2", false),
  ("::ffff:ffff:ffff", false),
  ("64:ff9b::", false),
  ("64:ff9b::808:808", true),
  ("64:ff9b::1:0:0", false),
  ("64:ff9b:0:ffff:ffff:ffff:ffff:ffff", false),
  ("64:ff9b:1::", false),
  ("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", false),
  ("64:ff9b:2::", false),
  ("100::", false),
  ("100::ffff:ffff:ffff:ffff", false),
  ("100:0:0:1::", false),
  ("100:0:0:1:ffff:ffff:ffff:ffff", false),
  ("1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("2000::", true),
  ("2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
  ("2001::", false),
  ("2001:0:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("2001:1::", false),
  ("2001:1::1", true),
  ("2001:1::2", true),
  ("2001:1::3", true),
  ("2001:1::4", false),
  ("2001:2::", false),
  ("2001:2:0:ffff:ffff:ffff:ffff:ffff", false),
  ("2001:2:1::", false),
  ("2001:3::", true),
  ("2001:3:ffff:ffff:ffff:ffff:ffff:ffff", true),
  ("2001:4::", false),
  ("2001:4:111:ffff:ffff:ffff:ffff:ffff", false),
  ("2001:4:112::", true),
  ("2001:4:112:ffff:ffff:ffff:ffff:ffff", true),
  ("2001:4:113::", false),
  ("2001:f:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("2001:10::", false),
  ("2001:1f:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("2001:20::", true),
  ("2001:2f:ffff:ffff:ffff:ffff:ffff:ffff", true),
  ("2001:30::", true),
  ("2001:3f:ffff:ffff:ffff:ffff:ffff:ffff", true),
  ("2001:40::", false),
  ("2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("2001:200::", true),
  ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", true),
  ("2001:db8::", false),
  ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("2001:db9::", true),
  ("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
  ("2002::", false),
  ("2002:808:808::1", false),
  ("2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("2003::", true),
  ("2620:4f:7fff:ffff:ffff:ffff:ffff:ffff", true),
  ("2620:4f:8000::", true),
  ("2620:4f:8001::", true),
  ("3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
  ("3fff::", false),
  ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("3fff:1000::", true),
  ("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
  ("4000::", false),
  ("5f00::1", false),
  ("5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("fc00::", false),
  ("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("fe80::", false),
  ("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false),
  ("fec0::1", false),
  ("ff02::1", false),
  ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false),
];

#[test]
fn neighbours_of_ranges_are_what_they_were() {
  for (address, global) in IPV4_EDGES.iter().chain(IPV6_EDGES) {
    assert_eq!(of(address).is_none(), *global, "{address}: {:?}", of(address));
  }
}

#[test]
fn cloud_metadata_is_called_by_its_name() {
  for address in [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fd00:42::42",
  ] {
    assert_eq!(of(address), Some("Cloud metadata"), "{address}");
  }
}

#[test]
fn what_an_address_carries_counts() {
  for (address, range) in [
    ("::ffff:8.8.8.8", Some("IPv4-mapped Address")),
    ("::ffff:127.0.0.1", Some("IPv4-mapped Address")),
    ("::8.8.8.8", Some("outside global unicast space")),
    ("::ffff:0:8.8.8.8", Some("outside global unicast space")),
    ("64:ff9b::8.8.8.8", None),
    ("64:ff9b::10.0.0.1", Some("Private-Use")),
    ("64:ff9b::169.254.169.254", Some("Cloud metadata")),
    ("64:ff9b::127.0.0.1", Some("Loopback")),
    ("2606:4700::5efe:10.0.0.1", Some("Private-Use")),
    ("2606:4700::200:5efe:10.0.0.1", Some("Private-Use")),
    ("2606:4700::5efe:8.8.8.8", None),
    ("2606:4700::100:5efe:10.0.0.1", None),
    ("2606:4700::6810:84e5", None),
    ("2001:4860:4860::8888", None),
  ] {
    assert_eq!(of(address), range, "{address}");
  }
  assert_eq!(of("8.8.8.8"), None);
}

proptest! {
  #[test]
  fn ipv4_is_decided_by_the_longest_prefix(bits in any::<u32>()) {
    prop_assert_eq!(not_global(IpAddr::V4(bits.into())), expected_v4(bits.into()));
  }

  #[test]
  fn nat64_is_as_reachable_as_what_it_carries(bits in any::<u32>()) {
    let inner = Ipv4Addr::from(bits);
    let outer = Ipv6Addr::from(0x64_ff9b_u128 << 96 | u128::from(bits));
    prop_assert_eq!(not_global(IpAddr::V6(outer)), not_global(IpAddr::V4(inner)));
  }

  #[test]
  fn nothing_outside_global_unicast_but_nat64_is_reachable(bits in any::<u128>()) {
    let address = Ipv6Addr::from(bits);
    let inside = bits >> 125 == 1 || bits >> 32 == 0x64_ff9b_u128 << 64;
    prop_assert!(inside || not_global(IpAddr::V6(address)).is_some());
  }
}

/// The cells of one line of CSV (RFC 4180) without line ends in it.
fn cells(line: &str) -> Vec<String> {
  let mut cells = vec![String::new()];
  let mut quoted = false;
  for char in line.chars() {
    match char {
      '"' => quoted = !quoted,
      ',' if !quoted => cells.push(String::new()),
      _ => cells.last_mut().unwrap().push(char),
    }
  }
  cells
}

/// The ranges of one registry, each with whether it is globally reachable.
fn rows(csv: &str, reach: usize) -> Vec<(String, bool)> {
  let mut rows = Vec::new();
  for line in csv.lines().skip(1) {
    let cells = cells(line);
    let global = cells[reach].starts_with("True");
    let nets = cells[0].split([' ', ',']).filter(|net| net.contains('/'));
    // Read and written again, since an address has more than one spelling.
    rows.extend(nets.map(|net| (net.parse::<ipnet::IpNet>().unwrap().to_string(), global)));
  }
  rows
}

#[test]
fn the_table_is_what_the_registries_say() {
  let mut wanted = [
    rows(include_str!("../../../scripts/data/iana-ipv4-special-registry-1.csv"), 8),
    rows(include_str!("../../../scripts/data/iana-ipv6-special-registry-1.csv"), 8),
    rows(include_str!("../../../scripts/data/other-ranges.csv"), 3),
  ]
  .concat();
  let ipv4 = table::IPV4.iter().map(|range| (range.net.to_string(), range.global));
  let ipv6 = table::IPV6.iter().map(|range| (range.net.to_string(), range.global));
  let mut found: Vec<_> = ipv4.chain(ipv6).collect();
  wanted.sort();
  found.sort();
  assert_eq!(found.len(), 67);
  assert_eq!(found, wanted);
}
