//! The network allowlist of runs. With the resident transport connections come over the stream to process 1, and the
//! container has no network; with the exec transport they come over an internal network of the run's own ([`bridge`]).

pub mod bridge;
mod events;
mod serving;
mod site;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::serving::Serving;
pub use self::site::Site;
use super::event::Events;
use super::options::{Allowlist, Options};
use crate::proxy::{Proxy, ProxyParts, Resolver};

/// Where programs find the proxy: the port of squid, which many know as one of a proxy.
pub const PORT: u16 = 3128;

/// The proxy of an environment with an allowlist. Names are looked up by the system unless there is a `resolver`.
pub fn proxy(options: &Options, events: &Events, resolver: Option<Arc<dyn Resolver>>) -> Option<Proxy> {
  let Allowlist { policy, quotas } = options.network.allowlist()?.clone();
  let parts = ProxyParts::new(policy, quotas, Arc::new(events.clone()));
  Some(Proxy::new(match resolver {
    Some(resolver) => ProxyParts { resolver, ..parts },
    None => parts,
  }))
}

/// The variables by which programs find a proxy at `address` (`host:port`). `NO_PROXY` is empty, so that nothing is tried
/// without it; what would be, reaches nobody.
pub fn variables(address: &str) -> BTreeMap<&'static str, String> {
  let url = format!("http://{address}");
  let mut variables = BTreeMap::from([("NODE_USE_ENV_PROXY", "1".to_owned())]);
  for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
    variables.insert(name, url.clone());
  }
  variables.insert("NO_PROXY", String::new());
  variables.insert("no_proxy", String::new());
  variables
}
