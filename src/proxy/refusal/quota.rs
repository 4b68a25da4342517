//! Quotas that stop a request or a connection.

/// A quota that is used up, with its value: a count, bytes or milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
  /// The request's head has more bytes than this.
  HeadTooLarge(usize),
  /// The request's head was not complete within so many milliseconds.
  HeadTimeout(u128),
  /// The run has this many connections open.
  RunConnections(u64),
  /// All runs of this process have this many connections open.
  TotalConnections(u64),
  /// The run has this many look-ups in flight.
  InFlightDns(u64),
  /// The session made this many requests.
  SessionRequests(u64),
  /// The run made this many requests.
  RunRequests(u64),
  /// The run moved this many bytes.
  RunBytes(u64),
  /// The connection carried this many bytes from the container.
  BytesUp(u64),
  /// The connection carried this many bytes to the container.
  BytesDown(u64),
  /// Nothing moved for so many milliseconds.
  Idle(u128),
  /// The connection was open for so many milliseconds.
  Lifetime(u128),
}

impl Quota {
  /// The HTTP status and its phrase.
  pub const fn status(&self) -> (u16, &'static str) {
    match self {
      Self::HeadTooLarge(_) => (431, "Request Head Too Large"),
      Self::HeadTimeout(_) => (408, "Request Head Timeout"),
      Self::RunConnections(_) | Self::TotalConnections(_) => (429, "Too Many Connections"),
      Self::InFlightDns(_) => (429, "Too Many Name Lookups"),
      Self::SessionRequests(_) | Self::RunRequests(_) => (429, "Request Quota Used Up"),
      Self::RunBytes(_) | Self::BytesUp(_) | Self::BytesDown(_) => (429, "Byte Quota Used Up"),
      Self::Idle(_) => (504, "Idle Timeout"),
      Self::Lifetime(_) => (504, "Connection Lifetime Over"),
    }
  }

  /// Which quota it is and what would do instead.
  pub fn reason(&self) -> String {
    match self {
      Self::HeadTooLarge(max) => format!("The request's head is over {max} bytes (maxHeadBytes). Send less."),
      Self::HeadTimeout(ms) => {
        format!(
          "The request's head was not complete within {ms} ms (headTimeoutMs). Connect and send at once."
        )
      }
      Self::RunConnections(max) => {
        format!(
          "{max} connections of this run are open (maxConnections). Close one, or wait, then try again."
        )
      }
      Self::TotalConnections(max) => {
        format!("{max} connections of all runs are open (maxTotalConnections). Wait, then try again.")
      }
      Self::InFlightDns(max) => {
        format!("{max} name look-ups of this run are in flight (maxInFlightDns). Wait, then try again.")
      }
      Self::SessionRequests(max) => {
        format!("This session has made its {max} requests (maxRequests). Go on without the network.")
      }
      Self::RunRequests(max) => {
        format!("This run has made its {max} requests (maxNetworkRequests). Go on without the network.")
      }
      Self::RunBytes(max) => {
        format!("This run has moved its {max} bytes (maxNetworkBytes). Go on without the network.")
      }
      Self::BytesUp(max) => {
        format!("The connection has sent its {max} bytes (maxBytesUp). Send less through one connection.")
      }
      Self::BytesDown(max) => {
        format!(
          "The connection has received its {max} bytes (maxBytesDown). Fetch less through one connection."
        )
      }
      Self::Idle(ms) => format!("Nothing moved for {ms} ms (idleTimeoutMs). Try again."),
      Self::Lifetime(ms) => {
        format!("The connection was open for {ms} ms (tunnelLifetimeMs). Connect again for the rest.")
      }
    }
  }
}
