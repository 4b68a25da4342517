//! Host names in the one form in which they are compared and looked up.

use core::net::Ipv6Addr;
use std::fmt;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use crate::limits::{MAX_HOST_BYTES, MAX_HOST_INPUT_BYTES, MAX_LABEL_BYTES};

/// A DNS name in ASCII: lower case, IDNA applied, without the dot at its end, and no spelling of an IP address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host(String);

/// Why a text is no host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFault {
  /// Nothing is there, or a label is empty: `.`, `a..b`, more than one dot at the end.
  EmptyLabel,
  /// More than 253 bytes, or a label of more than 63.
  TooLong,
  /// Characters or label forms that DNS host names and IDNA do not have.
  Characters,
  /// An IP address in some spelling.
  Address,
}

impl HostFault {
  /// The fault in a few words, to follow "the host".
  pub const fn text(self) -> &'static str {
    match self {
      Self::EmptyLabel => "has an empty label",
      Self::TooLong => "is longer than a DNS name can be (253 bytes, 63 for each label)",
      Self::Characters => "is no DNS host name (letters, digits and inner hyphens)",
      Self::Address => "is an IP address",
    }
  }
}

impl Host {
  /// Reads a name as a request or a rule spells it.
  pub fn parse(text: &str) -> Result<Self, HostFault> {
    if text.len() > MAX_HOST_INPUT_BYTES {
      return Err(HostFault::TooLong);
    }
    // No name has these. Brackets and colons belong to IPv6 addresses, a percent sign to their zones.
    if text.contains(['[', ']', ':', '%']) {
      return Err(if is_literal(text) { HostFault::Address } else { HostFault::Characters });
    }
    let ascii = Uts46::new()
      .to_ascii(text.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore)
      .map_err(|_| HostFault::Characters)?;
    // After IDNA, since it maps other full stops to this one.
    let name = ascii.strip_suffix('.').unwrap_or(&ascii);
    check_labels(name)?;
    if ends_in_number(name) {
      return Err(HostFault::Address);
    }
    Ok(Self(name.to_owned()))
  }

  /// The name.
  pub fn as_str(&self) -> &str {
    &self.0
  }

  /// The name with the dot that keeps a resolver from trying its search domains.
  pub fn absolute(&self) -> String {
    format!("{}.", self.0)
  }

  /// True if this name is one or more labels below `base`.
  pub fn is_below(&self, base: &Self) -> bool {
    self.0.strip_suffix(base.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
  }
}

impl fmt::Display for Host {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&self.0)
  }
}

fn check_labels(name: &str) -> Result<(), HostFault> {
  if name.len() > MAX_HOST_BYTES {
    return Err(HostFault::TooLong);
  }
  for label in name.split('.') {
    if label.is_empty() {
      return Err(HostFault::EmptyLabel);
    }
    if label.len() > MAX_LABEL_BYTES {
      return Err(HostFault::TooLong);
    }
    let fits = label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if !fits || label.starts_with('-') || label.ends_with('-') {
      return Err(HostFault::Characters);
    }
  }
  Ok(())
}

/// An address, in brackets or not, with a zone or without (RFC 3986, section 3.2.2; RFC 4007, section 11).
fn is_literal(text: &str) -> bool {
  let bare = text.trim_matches(['[', ']']);
  let address = bare.split_once('%').map_or(bare, |(address, _zone)| address);
  address.parse::<Ipv6Addr>().is_ok() || (!bare.is_empty() && ends_in_number(bare))
}

/// Resolvers read a name as an IPv4 address if its last label is a number: decimal, octal or `0x`. No top-level domain is
/// one (RFC 3696, section 2).
fn ends_in_number(name: &str) -> bool {
  let last = name.rsplit('.').next().unwrap_or_default();
  let decimal = last.bytes().all(|byte| byte.is_ascii_digit());
  let hex = last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
  decimal || hex
}

#[cfg(test)]
mod tests;
