//! `host:port`, as `CONNECT`, `http://` targets and `Host` lines have it.

use std::fmt;

use super::host::{Host, HostFault};

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
  /// The name.
  pub host: Host,
  /// The port, never 0.
  pub port: u16,
}

/// Why a text is no authority that can be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityFault {
  /// The part before the port.
  Host(HostFault),
  /// A user name or password is in it.
  UserInfo,
  /// There is no port and none can be assumed.
  PortMissing,
  /// The port is no decimal number from 1 to 65535 without zeros before it.
  Port,
}

impl Authority {
  /// Reads `host:port`, or `host` alone where `default_port` says what that means.
  pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, AuthorityFault> {
    if text.contains('@') {
      return Err(AuthorityFault::UserInfo);
    }
    // A second colon makes the host part an IPv6 address or nonsense; both are for the host's rules to refuse.
    let (host, port) = match text.rsplit_once(':') {
      Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
      _ => (text, None),
    };
    let host = Host::parse(host).map_err(AuthorityFault::Host)?;
    let port = match port {
      Some(port) => parse_port(port).ok_or(AuthorityFault::Port)?,
      None => default_port.ok_or(AuthorityFault::PortMissing)?,
    };
    Ok(Self { host, port })
  }
}

impl fmt::Display for Authority {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}:{}", self.host, self.port)
  }
}

fn parse_port(text: &str) -> Option<u16> {
  let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
  if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
