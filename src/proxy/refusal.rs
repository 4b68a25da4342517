//! Why the proxy does not do what it was asked, as an HTTP reply that a model can act on.

mod quota;

use super::authority::AuthorityFault;
use super::host::{Host, HostFault};

pub use quota::Quota;

/// A request that is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
  /// The request breaks HTTP's rules, or ours. The text follows "the request".
  Malformed(&'static str),
  /// Its target is no `host:port` that can be allowed.
  Target(AuthorityFault),
  /// No rule allows the host.
  HostNotAllowed {
    /// The host.
    host: Host,
    /// What is allowed.
    allowed: String,
  },
  /// The host is allowed, but not at this port.
  PortNotAllowed {
    /// The port.
    port: u16,
    /// What is allowed.
    allowed: String,
  },
  /// An `http://` request for the port at which only TLS is spoken.
  PlainOnTlsPort,
  /// One of the host's addresses is not globally reachable.
  AddressNotPublic {
    /// The host.
    host: Host,
    /// The range in which the address is.
    range: &'static str,
  },
  /// The name has no address.
  Unresolved(Host),
  /// The name has too many addresses.
  TooManyAddresses(Host),
  /// The look-up took too long.
  ResolveTimeout(Host),
  /// No address of the host accepted a connection.
  Unreachable(Host),
  /// No address of the host accepted a connection in time.
  DialTimeout(Host),
  /// The server's reply to an `http://` request cannot be passed on. The text follows "the server".
  BadReply(&'static str),
  /// A quota is used up.
  Quota(Quota),
}

impl Refusal {
  /// The HTTP status and its phrase. Some clients show nothing but these, so the phrase says what it can.
  pub const fn status(&self) -> (u16, &'static str) {
    match self {
      Self::Malformed(_) => (400, "Malformed Request"),
      Self::Target(AuthorityFault::Host(HostFault::Address)) => (403, "IP Address Not Allowed"),
      Self::Target(_) => (400, "Malformed Target"),
      Self::HostNotAllowed { .. } => (403, "Host Not In Allowlist"),
      Self::PortNotAllowed { .. } => (403, "Port Not In Allowlist"),
      Self::PlainOnTlsPort => (403, "Plain HTTP Not Allowed On 443"),
      Self::AddressNotPublic { .. } => (403, "Host Address Not Public"),
      Self::Unresolved(_) | Self::TooManyAddresses(_) => (502, "Host Not Resolved"),
      Self::ResolveTimeout(_) => (504, "Name Lookup Timeout"),
      Self::Unreachable(_) => (502, "Host Unreachable"),
      Self::DialTimeout(_) => (504, "Connect Timeout"),
      Self::BadReply(_) => (502, "Bad Reply From Server"),
      Self::Quota(quota) => quota.status(),
    }
  }

  /// What is wrong and what would do instead.
  pub fn reason(&self) -> String {
    match self {
      Self::Malformed(why) => {
        format!("The request {why}. Use CONNECT host:port, or an absolute http:// URL with a matching Host.")
      }
      Self::Target(fault) => target(*fault),
      Self::HostNotAllowed { host, allowed } => {
        format!(
          "The host {host} is not in the allowlist. Allowed: {allowed}. Do not retry; use an allowed host."
        )
      }
      Self::PortNotAllowed { port, allowed } => {
        format!("Port {port} is not in the allowlist. Allowed: {allowed}. Do not retry; use an allowed port.")
      }
      Self::PlainOnTlsPort => {
        "An http:// request for port 443 is refused, where only TLS is allowed. Use https://.".to_owned()
      }
      Self::AddressNotPublic { host, range } => format!(
        "The host {host} has an address that is not globally reachable ({range}), which is not allowed. Do not retry."
      ),
      Self::Unresolved(host) => {
        format!("The host {host} could not be resolved. Check its spelling, or try again later.")
      }
      Self::TooManyAddresses(host) => {
        format!("The host {host} has too many addresses to check them all. Use another host.")
      }
      Self::ResolveTimeout(host) => format!("Looking up {host} took too long. Try again later."),
      Self::Unreachable(host) => {
        format!("No address of {host} accepted the connection. Check the port, or try again later.")
      }
      Self::DialTimeout(host) => format!("No address of {host} answered in time. Try again later."),
      Self::BadReply(why) => format!("The server {why}, so its reply cannot be passed on. Try https://."),
      Self::Quota(quota) => quota.reason(),
    }
  }

  /// The whole reply, after which the connection ends. `HEAD` has no body.
  pub fn reply(&self, head_only: bool) -> Vec<u8> {
    let (status, phrase) = self.status();
    let mut body = self.reason();
    body.push('\n');
    let mut reply = format!(
      "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
       Connection: close\r\n\r\n",
      body.len()
    );
    if !head_only {
      reply.push_str(&body);
    }
    reply.into_bytes()
  }
}

fn target(fault: AuthorityFault) -> String {
  match fault {
    AuthorityFault::Host(HostFault::Address) => {
      "IP addresses are not allowed, only names in the allowlist. Use the host's name.".to_owned()
    }
    AuthorityFault::Host(fault) => format!("The target's host {}. Check its spelling.", fault.text()),
    AuthorityFault::UserInfo => "The target has a user name in it. Send credentials in a header.".to_owned(),
    AuthorityFault::PortMissing => "The target has no port. CONNECT needs host:port.".to_owned(),
    AuthorityFault::Port => "The target's port is no number from 1 to 65535. Check it.".to_owned(),
  }
}

#[cfg(test)]
mod tests;
