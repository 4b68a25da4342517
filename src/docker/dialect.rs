//! Whose Engine API it is: Podman's compatible one takes some fields of a container in another meaning than Docker's.

use hyper::HeaderMap;

/// Who answers behind the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
  /// Docker, and whatever does not say that it is something else.
  #[default]
  Docker,
  /// Podman's service (`podman system service`).
  Podman,
}

impl Dialect {
  /// What the headers of a reply to `/_ping` tell: Podman adds the version of its own API (since 2.0).
  pub fn of(headers: &HeaderMap) -> Self {
    if headers.contains_key("libpod-api-version") { Self::Podman } else { Self::Docker }
  }
}
