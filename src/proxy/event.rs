//! What the proxy tells about its decisions. Nothing that an agent wrote is in it but the host, normalised, and the port.

use std::sync::Arc;

/// A decision, or the end of what was allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyEvent {
  /// A connection to the host was made.
  Allowed {
    /// The run's id.
    run: Arc<str>,
    /// The host.
    host: String,
    /// The port.
    port: u16,
    /// The rule that allows it.
    rule: String,
  },
  /// A request was refused before any byte of it went on.
  Refused {
    /// The run's id.
    run: Arc<str>,
    /// The host, if the request had one.
    host: Option<String>,
    /// The port, if the request had one.
    port: Option<u16>,
    /// The HTTP status of the reply.
    status: u16,
    /// Why, in the words that the client got.
    reason: String,
  },
  /// An allowed connection ended.
  Closed {
    /// The run's id.
    run: Arc<str>,
    /// The host.
    host: String,
    /// The port.
    port: u16,
    /// The rule that allowed it.
    rule: String,
    /// Bytes that went to the host.
    bytes_up: u64,
    /// Bytes that came from the host.
    bytes_down: u64,
    /// Why it ended before its time; `None` if client and server ended it.
    reason: Option<String>,
  },
}

/// Takes events. Called from the connections' tasks, so it must not block.
pub trait ProxyEvents: Send + Sync {
  /// Takes one event.
  fn record(&self, event: ProxyEvent);
}
