//! Which hosts and ports may be reached: the rules of `allowedDomains` and `allowedPorts`.

use std::fmt;

use super::authority::Authority;
use super::host::{Host, HostFault};
use super::refusal::Refusal;
use crate::error::{Result, fail, shown};

/// Rules that a refusal shows; a model needs no more to go on.
const SHOWN_RULES: usize = 20;

/// One entry of `allowedDomains`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
  /// This name alone.
  Exact(Host),
  /// Names one or more labels below this one, but not the name itself (`*.example.com`).
  Below(Host),
}

/// What the network lets through. There is no rule that refuses, so their order means nothing; what no rule allows is
/// refused, and no rules allow nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
  rules: Vec<Rule>,
  ports: Vec<u16>,
  allow_private: bool,
}

impl Rule {
  /// Reads one entry; `CONFIG_INVALID` says why it is no rule.
  pub fn parse(text: &str) -> Result<Self> {
    let (name, wildcard) = text.strip_prefix("*.").map_or((text, false), |rest| (rest, true));
    if name.contains('*') {
      return Err(invalid(text, "\"*\" may only be the whole first label, as in \"*.example.com\""));
    }
    if name.contains([':', '/']) {
      return Err(invalid(text, "only a name can be allowed, without scheme, port or path"));
    }
    let host = Host::parse(name).map_err(|fault| match fault {
      HostFault::Address => invalid(text, "it is an IP address, and only names can be allowed"),
      other => invalid(text, &format!("the name {}", other.text())),
    })?;
    if public_suffix(&host) == host.as_str() {
      return Err(invalid(text, "it is a public suffix, below which names belong to anybody"));
    }
    Ok(if wildcard { Self::Below(host) } else { Self::Exact(host) })
  }

  /// True if the rule allows `host`. A wildcard ends at the next public suffix: `*.amazonaws.com` allows
  /// `sts.amazonaws.com`, but not `mine.s3.amazonaws.com`, since whoever likes may own a name below `s3.amazonaws.com`.
  pub fn allows(&self, host: &Host) -> bool {
    match self {
      Self::Exact(name) => name == host,
      Self::Below(base) => host.is_below(base) && public_suffix(host).len() < base.as_str().len(),
    }
  }
}

impl fmt::Display for Rule {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self {
      Self::Exact(host) => write!(f, "{host}"),
      Self::Below(base) => write!(f, "*.{base}"),
    }
  }
}

impl Policy {
  /// Reads `allowedDomains`, `allowedPorts` and `allowPrivateNetworks`. `CONFIG_INVALID` names the entry that is wrong.
  pub fn new<T: AsRef<str>>(domains: &[T], ports: &[u16], allow_private: bool) -> Result<Self> {
    let mut rules = domains.iter().map(|text| Rule::parse(text.as_ref())).collect::<Result<Vec<_>>>()?;
    rules.sort();
    rules.dedup();
    if ports.contains(&0) {
      return Err(fail!(ConfigInvalid, "Option network.allowedPorts has 0; a port may be 1 to 65535."));
    }
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    ports.dedup();
    Ok(Self { rules, ports, allow_private })
  }

  /// The rule that allows this host at this port.
  pub fn decide(&self, authority: &Authority) -> Result<&Rule, Refusal> {
    let Some(rule) = self.rules.iter().find(|rule| rule.allows(&authority.host)) else {
      return Err(Refusal::HostNotAllowed { host: authority.host.clone(), allowed: self.shown_rules() });
    };
    if !self.ports.contains(&authority.port) {
      let allowed = list(self.ports.iter());
      return Err(Refusal::PortNotAllowed { port: authority.port, allowed });
    }
    Ok(rule)
  }

  /// The rules, sorted, each once.
  pub fn rules(&self) -> &[Rule] {
    &self.rules
  }

  /// The ports, sorted, each once.
  pub fn ports(&self) -> &[u16] {
    &self.ports
  }

  /// True if names may have addresses that are not globally reachable.
  pub const fn allows_private(&self) -> bool {
    self.allow_private
  }

  fn shown_rules(&self) -> String {
    let more = self.rules.len().saturating_sub(SHOWN_RULES);
    let front = list(self.rules.iter().take(SHOWN_RULES));
    if more > 0 { format!("{front} and {more} more") } else { front }
  }
}

fn list<T: fmt::Display>(items: impl Iterator<Item = T>) -> String {
  let items: Vec<_> = items.map(|item| item.to_string()).collect();
  if items.is_empty() { "nothing".to_owned() } else { items.join(", ") }
}

/// The part of the name under which anybody may register: by the public suffix list, or the last label.
fn public_suffix(host: &Host) -> &str {
  psl::suffix_str(host.as_str()).unwrap_or(host.as_str())
}

fn invalid(text: &str, why: &str) -> crate::error::Error {
  fail!(ConfigInvalid, "Option network.allowedDomains has {:?}, which cannot be a rule: {why}.", shown(text))
}

#[cfg(test)]
mod tests;
