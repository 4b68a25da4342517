//! IPv4 addresses that IPv6 addresses carry.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Every IPv4 address that `address` carries by the layout of some transition mechanism. Network-specific NAT64 prefixes
/// (RFC 6052, section 2.2) look like any other address, so nobody can tell them.
pub(super) fn addresses(address: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
  let groups = address.segments();
  let forms = match groups {
    // Mapped (RFC 4291, section 2.5.5.2), and compatible (2.5.5.1) but for `::` and `::1`.
    [0, 0, 0, 0, 0, 0xffff, high, low] => [Some(join(high, low)), None, None, None],
    [0, 0, 0, 0, 0, 0, high, low] if (high, low) > (0, 1) => [Some(join(high, low)), None, None, None],
    // Translated (RFC 2765, section 2.1).
    [0, 0, 0, 0, 0xffff, 0, high, low] => [Some(join(high, low)), None, None, None],
    // NAT64, well-known prefix (RFC 6052, section 2.1).
    [0x64, 0xff9b, 0, 0, 0, 0, high, low] => [Some(join(high, low)), None, None, None],
    [0x64, 0xff9b, 1, ..] => local_use(groups),
    // 6to4 (RFC 3056, section 2).
    [0x2002, high, low, ..] => [Some(join(high, low)), None, None, None],
    // Teredo (RFC 4380, section 4): the server, and the client with its bits inverted.
    [0x2001, 0, high, low, _, _, x, y] => [Some(join(high, low)), Some(join(!x, !y)), None, None],
    _ => [None; 4],
  };
  forms.into_iter().chain([isatap(groups)]).flatten()
}

/// NAT64 for local use (RFC 8215) is a /48 of which any longer prefix may be taken; bits 64 to 71 are never part of the
/// address (RFC 6052, section 2.2).
fn local_use(groups: [u16; 8]) -> [Option<Ipv4Addr>; 4] {
  let [_, _, _, third, fourth, fifth, sixth, seventh] = groups.map(u16::to_be_bytes);
  [
    Some(Ipv4Addr::new(third[0], third[1], fourth[1], fifth[0])),
    Some(Ipv4Addr::new(third[1], fourth[1], fifth[0], fifth[1])),
    Some(Ipv4Addr::new(fourth[1], fifth[0], fifth[1], sixth[0])),
    Some(Ipv4Addr::new(sixth[0], sixth[1], seventh[0], seventh[1])),
  ]
}

/// ISATAP (RFC 5214, section 6.1): an interface identifier under any prefix, with or without the universal bit.
fn isatap(groups: [u16; 8]) -> Option<Ipv4Addr> {
  match groups {
    [.., 0 | 0x200, 0x5efe, high, low] => Some(join(high, low)),
    _ => None,
  }
}

fn join(high: u16, low: u16) -> Ipv4Addr {
  Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests;
