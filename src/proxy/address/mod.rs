//! Which IP addresses are globally reachable.

mod embedded;
mod table;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv6Net;

/// A special range of addresses.
#[derive(Debug)]
struct Range<Net> {
  net: Net,
  name: &'static str,
  global: bool,
}

/// The only part of IPv6 from which global unicast addresses are assigned (IANA IPv6 address space registry; RFC 4291,
/// section 2.4).
const GLOBAL_UNICAST: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// The range because of which `address` is not globally reachable, or `None` if it is. An IPv6 address that carries an
/// IPv4 address is only reachable if that one is too.
pub fn not_global(address: IpAddr) -> Option<&'static str> {
  match address {
    IpAddr::V4(address) => not_global_v4(address),
    IpAddr::V6(address) => not_global_v6(address),
  }
}

fn not_global_v4(address: Ipv4Addr) -> Option<&'static str> {
  let ranges = table::IPV4.iter().filter(|range| range.net.contains(&address));
  let special = ranges.max_by_key(|range| range.net.prefix_len())?;
  (!special.global).then_some(special.name)
}

fn not_global_v6(address: Ipv6Addr) -> Option<&'static str> {
  let ranges = table::IPV6.iter().filter(|range| range.net.contains(&address));
  match ranges.max_by_key(|range| range.net.prefix_len()) {
    Some(special) if !special.global => return Some(special.name),
    None if !GLOBAL_UNICAST.contains(&address) => return Some("outside global unicast space"),
    _ => {}
  }
  embedded::addresses(address).find_map(not_global_v4)
}

#[cfg(test)]
mod tests;
