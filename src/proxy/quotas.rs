//! Bounds of the proxy, and what a run has used of them.

use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// The options of `network.quotas`. Units and defaults are those of the public declarations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas {
  /// Connections of one run open at the same time.
  pub max_connections: u64,
  /// Connections of all runs of this process open at the same time.
  pub max_total_connections: u64,
  /// Name look-ups of one run in flight.
  pub max_in_flight_dns: u64,
  /// Requests that one acquired session may make.
  pub max_requests: u64,
  /// Bytes of one request's head.
  pub max_head_bytes: usize,
  /// Time in which a request's head must be complete, from the moment that the connection was accepted.
  pub head_timeout: Duration,
  /// Bytes from the container through one connection.
  pub max_bytes_up: u64,
  /// Bytes to the container through one connection.
  pub max_bytes_down: u64,
  /// Time without a byte in either direction after which a connection is closed.
  pub idle_timeout: Duration,
  /// Time after which a connection is closed however busy it is.
  pub tunnel_lifetime: Duration,
  /// Requests of one run over all its resumes.
  pub max_network_requests: u64,
  /// Bytes of one run in both directions over all its resumes.
  pub max_network_bytes: u64,
}

impl Default for Quotas {
  /// Enough to install packages and to call APIs; stops a loop or a leak within one run.
  fn default() -> Self {
    Self {
      max_connections: 32,
      max_total_connections: 256,
      max_in_flight_dns: 16,
      max_requests: 1_000,
      max_head_bytes: 16 * 1024,
      head_timeout: Duration::from_secs(10),
      max_bytes_up: 64 * MIB,
      max_bytes_down: 256 * MIB,
      idle_timeout: Duration::from_secs(60),
      tunnel_lifetime: Duration::from_secs(600),
      max_network_requests: 10_000,
      max_network_bytes: 1_024 * MIB,
    }
  }
}

/// What a run has used so far, to be stored with its lease and given back when it is resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
  /// Well-formed requests, refused ones among them.
  pub requests: u64,
  /// Bytes that were passed on, both directions together; of a connection that broke, also what was about to be.
  pub bytes: u64,
}

#[cfg(test)]
mod tests;
