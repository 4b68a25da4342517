//! Which addresses are this host's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// The port does not matter: a datagram socket that is connected sends nothing.
const DISCARD: u16 = 9;

/// True for an address of one of this host's interfaces. The kernel is asked which source it would take for packets to
/// `address`: to itself it sends from the very address. What a router in front of this host translates to it cannot be
/// told from other addresses.
pub(super) fn is_own(address: IpAddr) -> bool {
  let any = match address {
    IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
  };
  let source = UdpSocket::bind((any, 0)).and_then(|socket| {
    socket.connect((address, DISCARD))?;
    socket.local_addr()
  });
  // Without a route nothing is sent there at all.
  source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn this_host_is_told_from_others() {
    for own in ["127.0.0.1", "::1"] {
      assert!(is_own(own.parse().unwrap()), "{own}");
    }
    for other in ["192.0.2.1", "2001:db8::1", "255.255.255.255", "224.0.0.1"] {
      assert!(!is_own(other.parse().unwrap()), "{other}");
    }
  }
}
