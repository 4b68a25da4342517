//! Where the proxy of a run's own network is, and who may come to it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

/// The proxy's address on a run's network, as text `address:port`, and behind a space the network where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
  /// Where the proxy listens.
  pub proxy: SocketAddr,
  /// The addresses of the run's network.
  pub subnet: Option<IpNet>,
}

impl Site {
  /// Whether a connection from there is the run's. The gateway's own address is that of processes of this host; addresses
  /// of other networks are those of other runs, which may have a way to all addresses of the host.
  pub fn serves(&self, peer: IpAddr) -> bool {
    peer != self.proxy.ip() && self.subnet.is_none_or(|subnet| subnet.contains(&peer))
  }
}

impl fmt::Display for Site {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self.subnet {
      None => write!(f, "{}", self.proxy),
      Some(subnet) => write!(f, "{} {subnet}", self.proxy),
    }
  }
}

impl FromStr for Site {
  type Err = ();

  fn from_str(text: &str) -> Result<Self, ()> {
    let (proxy, subnet) = text.split_once(' ').map_or((text, None), |(proxy, subnet)| (proxy, Some(subnet)));
    let subnet = subnet.map(str::parse).transpose().map_err(|_| ())?;
    Ok(Self { proxy: proxy.parse().map_err(|_| ())?, subnet })
  }
}

#[cfg(test)]
mod tests {
  use super::Site;

  #[test]
  fn it_serves_its_own_network_and_not_this_host() {
    let site: Site = "172.18.0.1:3128 172.18.0.0/16".parse().unwrap();
    for (peer, served) in
      [("172.18.0.2", true), ("172.18.0.1", false), ("172.19.0.2", false), ("127.0.0.1", false)]
    {
      assert_eq!(site.serves(peer.parse().unwrap()), served, "{peer}");
    }
    let unknown: Site = "172.18.0.1:3128".parse().unwrap();
    assert!(unknown.serves("172.19.0.2".parse().unwrap()) && !unknown.serves("172.18.0.1".parse().unwrap()));
  }

  #[test]
  fn it_comes_back_as_it_was_written() {
    for text in ["172.18.0.1:3128 172.18.0.0/16", "10.0.0.1:4000"] {
      assert_eq!(text.parse::<Site>().unwrap().to_string(), text);
    }
    for text in ["", "172.18.0.1", "172.18.0.1:3128 ", "172.18.0.1:3128 x", "name:1"] {
      assert_eq!(text.parse::<Site>(), Err(()), "{text}");
    }
  }
}
