//! Special ranges of addresses. Written by `scripts/address-table.mjs`; not to be edited.
//!
//! Sources: the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890, RFC 8190) of 2025-10-09, and
//! `scripts/data/other-ranges.csv`: multicast, deprecated and cloud metadata addresses.

use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

use super::Range;

/// IPv4; where ranges lie within each other, the longest prefix counts.
pub(super) const IPV4: &[Range<Ipv4Net>] = &[
  // 0.0.0.0/8: RFC791, Section 3.2
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(0, 0, 0, 0), 8), name: "This network", global: false },
  // 0.0.0.0/32: RFC1122, Section 3.2.1.3
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(0, 0, 0, 0), 32),
    name: "This host on this network",
    global: false,
  },
  // 10.0.0.0/8: RFC1918
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8), name: "Private-Use", global: false },
  // 100.64.0.0/10: RFC6598
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    name: "Shared Address Space",
    global: false,
  },
  // 127.0.0.0/8: RFC1122, Section 3.2.1.3
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8), name: "Loopback", global: false },
  // 169.254.0.0/16: RFC3927
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16), name: "Link Local", global: false },
  // 172.16.0.0/12: RFC1918
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12), name: "Private-Use", global: false },
  // 192.0.0.0/24: RFC6890, Section 2.1
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 24),
    name: "IETF Protocol Assignments",
    global: false,
  },
  // 192.0.0.0/29: RFC7335
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 29),
    name: "IPv4 Service Continuity Prefix",
    global: false,
  },
  // 192.0.0.8/32: RFC7600
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 8), 32),
    name: "IPv4 dummy address",
    global: false,
  },
  // 192.0.0.9/32: RFC7723
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 9), 32),
    name: "Port Control Protocol Anycast",
    global: true,
  },
  // 192.0.0.10/32: RFC8155
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 10), 32),
    name: "Traversal Using Relays around NAT Anycast",
    global: true,
  },
  // 192.0.0.170/32: RFC8880, RFC7050, Section 2.2
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 170), 32),
    name: "NAT64/DNS64 Discovery",
    global: false,
  },
  // 192.0.0.171/32: RFC8880, RFC7050, Section 2.2
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 171), 32),
    name: "NAT64/DNS64 Discovery",
    global: false,
  },
  // 192.0.2.0/24: RFC5737
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 0), 24),
    name: "Documentation (TEST-NET-1)",
    global: false,
  },
  // 192.31.196.0/24: RFC7535
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(192, 31, 196, 0), 24), name: "AS112-v4", global: true },
  // 192.52.193.0/24: RFC7450
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(192, 52, 193, 0), 24), name: "AMT", global: true },
  // 192.88.99.0/24: RFC7526
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 88, 99, 0), 24),
    name: "Deprecated (6to4 Relay Anycast)",
    global: false,
  },
  // 192.88.99.2/32: RFC6751
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 88, 99, 2), 32),
    name: "6a44-relay anycast address",
    global: false,
  },
  // 192.168.0.0/16: RFC1918
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16), name: "Private-Use", global: false },
  // 192.175.48.0/24: RFC7534
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 175, 48, 0), 24),
    name: "Direct Delegation AS112 Service",
    global: true,
  },
  // 198.18.0.0/15: RFC2544
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15), name: "Benchmarking", global: false },
  // 198.51.100.0/24: RFC5737
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24),
    name: "Documentation (TEST-NET-2)",
    global: false,
  },
  // 203.0.113.0/24: RFC5737
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, 0), 24),
    name: "Documentation (TEST-NET-3)",
    global: false,
  },
  // 240.0.0.0/4: RFC1112, Section 4
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(240, 0, 0, 0), 4), name: "Reserved", global: false },
  // 255.255.255.255/32: RFC8190, RFC919, Section 7
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(255, 255, 255, 255), 32),
    name: "Limited Broadcast",
    global: false,
  },
  // 224.0.0.0/4: RFC1112
  Range { net: Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4), name: "Multicast", global: false },
  // 169.254.169.254/32: AWS, Azure, Google Cloud and others: instance metadata
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 169, 254), 32),
    name: "Cloud metadata",
    global: false,
  },
  // 169.254.169.253/32: AWS: resolver of a VPC
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 169, 253), 32),
    name: "Cloud metadata",
    global: false,
  },
  // 169.254.169.123/32: AWS: time service
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 169, 123), 32),
    name: "Cloud metadata",
    global: false,
  },
  // 169.254.170.2/32: AWS: credentials of ECS tasks
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 170, 2), 32),
    name: "Cloud metadata",
    global: false,
  },
  // 169.254.170.23/32: AWS: credentials of EKS pods
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 170, 23), 32),
    name: "Cloud metadata",
    global: false,
  },
  // 100.100.100.200/32: Alibaba Cloud: instance metadata
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(100, 100, 100, 200), 32),
    name: "Cloud metadata",
    global: false,
  },
  // 192.0.0.192/32: Oracle Cloud: instance metadata (first version)
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 192), 32),
    name: "Cloud metadata",
    global: false,
  },
  // 168.63.129.16/32: Azure: platform services of the host (a public address)
  Range {
    net: Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32),
    name: "Cloud metadata",
    global: false,
  },
];

/// IPv6; where ranges lie within each other, the longest prefix counts.
pub(super) const IPV6: &[Range<Ipv6Net>] = &[
  // ::1/128: RFC4291
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x1), 128),
    name: "Loopback Address",
    global: false,
  },
  // ::/128: RFC4291
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 128),
    name: "Unspecified Address",
    global: false,
  },
  // ::ffff:0:0/96: RFC4291
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x0, 0x0, 0x0, 0x0, 0x0, 0xffff, 0x0, 0x0), 96),
    name: "IPv4-mapped Address",
    global: false,
  },
  // 64:ff9b::/96: RFC6052
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 96),
    name: "IPv4-IPv6 Translat.",
    global: true,
  },
  // 64:ff9b:1::/48: RFC8215
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0x1, 0x0, 0x0, 0x0, 0x0, 0x0), 48),
    name: "IPv4-IPv6 Translat.",
    global: false,
  },
  // 100::/64: RFC6666
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x100, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 64),
    name: "Discard-Only Address Block",
    global: false,
  },
  // 100:0:0:1::/64: RFC9780
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x100, 0x0, 0x0, 0x1, 0x0, 0x0, 0x0, 0x0), 64),
    name: "Dummy IPv6 Prefix",
    global: false,
  },
  // 2001::/23: RFC2928
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 23),
    name: "IETF Protocol Assignments",
    global: false,
  },
  // 2001::/32: RFC4380, RFC8190
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 32),
    name: "TEREDO",
    global: false,
  },
  // 2001:1::1/128: RFC7723
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x1), 128),
    name: "Port Control Protocol Anycast",
    global: true,
  },
  // 2001:1::2/128: RFC8155
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x2), 128),
    name: "Traversal Using Relays around NAT Anycast",
    global: true,
  },
  // 2001:1::3/128: RFC9665
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x3), 128),
    name: "DNS-SD Service Registration Protocol Anycast",
    global: true,
  },
  // 2001:2::/48: RFC5180, RFC Errata 1752
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x2, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 48),
    name: "Benchmarking",
    global: false,
  },
  // 2001:3::/32: RFC7450
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x3, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 32),
    name: "AMT",
    global: true,
  },
  // 2001:4:112::/48: RFC7535
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x4, 0x112, 0x0, 0x0, 0x0, 0x0, 0x0), 48),
    name: "AS112-v6",
    global: true,
  },
  // 2001:10::/28: RFC4843
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x10, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 28),
    name: "Deprecated (previously ORCHID)",
    global: false,
  },
  // 2001:20::/28: RFC7343
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x20, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 28),
    name: "ORCHIDv2",
    global: true,
  },
  // 2001:30::/28: RFC9374
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x30, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 28),
    name: "Drone Remote ID Protocol Entity Tags (DETs) Prefix",
    global: true,
  },
  // 2001:db8::/32: RFC3849
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 32),
    name: "Documentation",
    global: false,
  },
  // 2002::/16: RFC3056
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2002, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 16),
    name: "6to4",
    global: false,
  },
  // 2620:4f:8000::/48: RFC7534
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0x0, 0x0, 0x0, 0x0, 0x0), 48),
    name: "Direct Delegation AS112 Service",
    global: true,
  },
  // 3fff::/20: RFC9637
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x3fff, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 20),
    name: "Documentation",
    global: false,
  },
  // 5f00::/16: RFC9602
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0x5f00, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 16),
    name: "Segment Routing (SRv6) SIDs",
    global: false,
  },
  // fc00::/7: RFC4193, RFC8190
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 7),
    name: "Unique-Local",
    global: false,
  },
  // fe80::/10: RFC4291
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 10),
    name: "Link-Local Unicast",
    global: false,
  },
  // ff00::/8: RFC4291
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 8),
    name: "Multicast",
    global: false,
  },
  // fec0::/10: RFC3879
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xfec0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0), 10),
    name: "Deprecated site-local unicast",
    global: false,
  },
  // fd00:ec2::254/128: AWS: instance metadata
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0xec2, 0x0, 0x0, 0x0, 0x0, 0x0, 0x254), 128),
    name: "Cloud metadata",
    global: false,
  },
  // fd00:ec2::253/128: AWS: resolver of a VPC
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0xec2, 0x0, 0x0, 0x0, 0x0, 0x0, 0x253), 128),
    name: "Cloud metadata",
    global: false,
  },
  // fd00:ec2::23/128: AWS: credentials of EKS pods
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0xec2, 0x0, 0x0, 0x0, 0x0, 0x0, 0x23), 128),
    name: "Cloud metadata",
    global: false,
  },
  // fd20:ce::254/128: Google Cloud: instance metadata
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xfd20, 0xce, 0x0, 0x0, 0x0, 0x0, 0x0, 0x254), 128),
    name: "Cloud metadata",
    global: false,
  },
  // fd00:42::42/128: Scaleway: instance metadata
  Range {
    net: Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x42, 0x0, 0x0, 0x0, 0x0, 0x0, 0x42), 128),
    name: "Cloud metadata",
    global: false,
  },
];
