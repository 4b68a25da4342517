//! Where an engine listens, as `DOCKER_HOST` and docker contexts write it.

use std::fmt;
use std::path::PathBuf;

use crate::error::{Result, fail, shown};

/// The ports that the Internet Assigned Numbers Authority lists as `docker` and `docker-s`.
const PLAIN_PORT: u16 = 2375;
const TLS_PORT: u16 = 2376;
/// Whom an address without a host means, as to Docker's command line.
const THIS_MACHINE: &str = "localhost";

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
  /// A unix socket.
  Unix(PathBuf),
  /// A TCP port.
  Tcp(HostPort),
}

/// A host's name or IP address (IPv6 without brackets), and the port where one was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
  /// Never empty.
  pub host: String,
  /// `None`: the usual one.
  pub port: Option<u16>,
}

impl HostPort {
  /// The port, the usual one where none was given.
  pub fn port(&self, encrypted: bool) -> u16 {
    self.port.unwrap_or(if encrypted { TLS_PORT } else { PLAIN_PORT })
  }
}

impl fmt::Display for HostPort {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Self { host, port } = self;
    if host.contains(':') {
      write!(f, "tcp://[{host}]")?
    } else {
      write!(f, "tcp://{host}")?
    }
    port.map_or(Ok(()), |port| write!(f, ":{port}"))
  }
}

impl Address {
  /// Reads an address; `from` is where it stands. Errors: `UNSUPPORTED` for what no engine is reached by, with what to do
  /// in its place, `CONFIG_INVALID` for what makes no sense.
  pub fn read(text: &str, from: &str) -> Result<Self> {
    let named = shown(text);
    // A path alone is one.
    let bare = if text.starts_with('/') { "unix" } else { "" };
    let (scheme, rest) = text.split_once("://").unwrap_or((bare, text));
    match scheme {
      "unix" if !rest.is_empty() => Ok(Self::Unix(PathBuf::from(rest))),
      "tcp" => host_port(rest).map(Self::Tcp).ok_or_else(|| {
        fail!(
          ConfigInvalid,
          "{from} was {named:?}; it may be tcp:// with a host, a colon and a port (an IPv6 address in brackets), and nothing behind it."
        )
      }),
      "ssh" => Err(fail!(
        Unsupported,
        "{from} is {named:?}: engines over SSH are not reached directly. Forward the socket (ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST) and pass socketPath: \"/tmp/docker.sock\"."
      )),
      "http" | "https" => Err(fail!(
        Unsupported,
        "{from} is {named:?}: Docker's own name for an engine at a TCP port is tcp://. Use that, and DOCKER_TLS_VERIFY=1 for TLS."
      )),
      "npipe" | "fd" => Err(fail!(
        Unsupported,
        "{from} is {named:?}: only unix sockets and TCP ports are supported. Pass socketPath with the path of a socket, or set DOCKER_HOST to tcp://HOST:PORT."
      )),
      _ => Err(fail!(
        ConfigInvalid,
        "{from} was {named:?}; it may be unix:// with the path of an engine's socket, or tcp:// with a host and a port."
      )),
    }
  }
}

fn host_port(text: &str) -> Option<HostPort> {
  let text = text.strip_suffix('/').unwrap_or(text);
  let (host, port) = match text.strip_prefix('[') {
    Some(rest) => {
      let (host, behind) = rest.split_once(']')?;
      host.parse::<core::net::Ipv6Addr>().ok()?;
      (host, if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) })
    }
    None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
  };
  let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
  let is_host = text.starts_with('[') || host.chars().all(is_named);
  let port = match port {
    None => None,
    Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
      Some(digits.parse().ok().filter(|&port| port > 0)?)
    }
    Some(_) => return None,
  };
  // A scheme alone is a slip rather than this machine.
  if !is_host || (host.is_empty() && port.is_none()) {
    return None;
  }
  Some(HostPort { host: if host.is_empty() { THIS_MACHINE } else { host }.to_owned(), port })
}

#[cfg(test)]
mod tests {
  use super::*;

  fn read(text: &str) -> Option<(String, Option<u16>)> {
    match Address::read(text, "DOCKER_HOST") {
      Ok(Address::Tcp(HostPort { host, port })) => Some((host, port)),
      _ => None,
    }
  }

  #[test]
  fn a_tcp_address_is_a_host_and_a_port() {
    for (text, host, port) in [
      ("tcp://10.0.0.1:2376", "10.0.0.1", Some(2376)),
      ("tcp://engine.example", "engine.example", None),
      ("tcp://engine_1.example:1/", "engine_1.example", Some(1)),
      ("tcp://[::1]:2375", "::1", Some(2375)),
      ("tcp://[fe80::1]", "fe80::1", None),
      ("tcp://:2375", "localhost", Some(2375)),
    ] {
      assert_eq!(read(text), Some((host.to_owned(), port)), "{text}");
    }
    for text in [
      "tcp://",
      "tcp:///",
      "tcp://h:",
      "tcp://h:0",
      "tcp://h:65536",
      "tcp://h:+1",
      "tcp://h:1/prefix",
      "tcp://user@h:1",
      "tcp://h:1?x",
      "tcp://::1:2375",
      "tcp://[::1",
      "tcp://[h]:1",
      "tcp://[::1]x",
      "tcp://h h:1",
      "tcp://h:1//",
    ] {
      assert_eq!(read(text), None, "{text}");
    }
  }

  #[test]
  fn an_address_is_shown_as_it_is_written() {
    for text in ["tcp://10.0.0.1:2376", "tcp://[::1]:2375", "tcp://h"] {
      let Ok(Address::Tcp(found)) = Address::read(text, "DOCKER_HOST") else { panic!("{text}") };
      assert_eq!(found.to_string(), text);
    }
  }

  #[test]
  fn the_usual_port_is_another_one_with_tls() {
    let found = HostPort { host: "h".to_owned(), port: None };
    assert_eq!((found.port(false), found.port(true)), (2375, 2376));
  }
}
