//! The network allowlist: who may be reached, and the proxy through which alone a container reaches anybody.
//!
//! Deciders take values and return values: `host` and `authority` read names, `policy` holds the rules, [`address`]
//! knows special ranges, `http` and `tls` read what clients send. The rest moves bytes: [`Proxy`] makes a [`Session`]
//! for each run, and whoever carries connections out of a container gives them to [`Session::serve`].

pub mod address;
mod authority;
mod connection;
mod dial;
mod event;
mod exchange;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gauge;
mod host;
mod http;
mod intake;
mod ledger;
mod linger;
mod own;
mod passing;
mod policy;
mod quotas;
mod refusal;
mod resolve;
mod session;
mod tls;
mod tunnel;

use std::sync::Arc;

pub use authority::{Authority, AuthorityFault};
pub use dial::{Dialer, TcpDialer};
pub use event::{ProxyEvent, ProxyEvents};
pub use host::{Host, HostFault};
pub use ledger::OpenConnections;
pub use policy::{Policy, Rule};
pub use quotas::{Quotas, RunCounts};
pub use refusal::{Quota, Refusal};
pub use resolve::{Resolver, SystemResolver};
pub use session::{Served, Session};

/// The proxy of one environment. Needs a tokio runtime with time and I/O wherever its sessions serve.
#[derive(Clone)]
pub struct Proxy {
  shared: Arc<Shared>,
}

/// What all sessions of a proxy share.
struct Shared {
  policy: Policy,
  quotas: Quotas,
  resolver: Arc<dyn Resolver>,
  dialer: Arc<dyn Dialer>,
  events: Arc<dyn ProxyEvents>,
  open: OpenConnections,
}

/// What a proxy is made of.
pub struct ProxyParts {
  /// Which hosts and ports are allowed.
  pub policy: Policy,
  /// Bounds.
  pub quotas: Quotas,
  /// Looks names up; [`SystemResolver`] unless a test says otherwise.
  pub resolver: Arc<dyn Resolver>,
  /// Connects; [`TcpDialer`] unless a test says otherwise.
  pub dialer: Arc<dyn Dialer>,
  /// Is told every decision.
  pub events: Arc<dyn ProxyEvents>,
  /// Counts the connections of all runs; [`OpenConnections::of_process`] unless a test says otherwise.
  pub open: OpenConnections,
}

impl ProxyParts {
  /// Parts that use the system's resolver and sockets, and count with all other proxies of this process.
  pub fn new(policy: Policy, quotas: Quotas, events: Arc<dyn ProxyEvents>) -> Self {
    let open = OpenConnections::of_process();
    Self { policy, quotas, resolver: Arc::new(SystemResolver), dialer: Arc::new(TcpDialer), events, open }
  }
}

impl Proxy {
  /// A proxy that serves nobody yet.
  pub fn new(parts: ProxyParts) -> Self {
    let ProxyParts { policy, quotas, resolver, dialer, events, open } = parts;
    Self { shared: Arc::new(Shared { policy, quotas, resolver, dialer, events, open }) }
  }

  /// Begins one acquired session of a run, whose id is in its events. `used` is what the run had used before, as
  /// [`Session::counts`] told it; a new run has used nothing.
  pub fn run_session(&self, run: &str, used: RunCounts) -> Session {
    Session::new(Arc::clone(&self.shared), run, used)
  }
}
