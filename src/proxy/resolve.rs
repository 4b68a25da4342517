//! Names to addresses that may be connected to.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::address::not_global;
use super::host::Host;
use super::ledger::Slot;
use super::own;
use super::refusal::Refusal;
use crate::limits::{MAX_LOOKUPS, MAX_PROXY_ADDRESSES, PROXY_RESOLVE_TIMEOUT};

/// Looks names up. Addresses have no zone: those that would need one are not globally reachable.
#[async_trait]
pub trait Resolver: Send + Sync {
  /// Every IPv4 and IPv6 address of `host`.
  async fn lookup(&self, host: &Host) -> io::Result<Vec<IpAddr>>;
}

static LOOKUPS: Semaphore = Semaphore::const_new(MAX_LOOKUPS);

/// The system's resolver (`getaddrinfo`). Names are looked up as absolute ones: the search domains of `resolv.conf` are
/// not tried, and names that stand in `/etc/hosts` alone are not found.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
  async fn lookup(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
    // The semaphore is never closed.
    let _turn = LOOKUPS.acquire().await;
    // The port is not part of the look-up.
    let addresses = tokio::net::lookup_host((host.absolute(), 0)).await?;
    Ok(addresses.map(|address| address.ip()).collect())
  }
}

/// Looks `host` up twice and checks every answer of both times; the addresses are those of the second. A server that
/// changes its answer between a check and a use (DNS rebinding) is refused, or its checked answer is used.
pub(super) async fn checked_addresses(
  resolver: &Arc<dyn Resolver>,
  host: &Host,
  allow_private: bool,
  slot: Slot,
) -> Result<Vec<IpAddr>, Refusal> {
  let slot = Arc::new(slot);
  let both = async {
    let first = look_up(resolver, host, &slot).await?;
    check(host, &first, allow_private)?;
    let second = look_up(resolver, host, &slot).await?;
    // Most answers are the same twice.
    if second != first {
      check(host, &second, allow_private)?;
    }
    Ok(second)
  };
  timeout(PROXY_RESOLVE_TIMEOUT, both).await.unwrap_or_else(|_| Err(Refusal::ResolveTimeout(host.clone())))
}

/// One look-up, in a task of its own: the system's cannot be broken off, so its slot must stay taken until it ends even
/// if nobody waits for it any longer.
async fn look_up(
  resolver: &Arc<dyn Resolver>,
  host: &Host,
  slot: &Arc<Slot>,
) -> Result<Vec<IpAddr>, Refusal> {
  let (resolver, asked, slot) = (Arc::clone(resolver), host.clone(), Arc::clone(slot));
  let answer = tokio::spawn(async move {
    let answer = resolver.lookup(&asked).await;
    drop(slot);
    answer
  });
  match answer.await {
    Ok(Ok(mut addresses)) if !addresses.is_empty() => {
      let mut seen = std::collections::HashSet::new();
      addresses.retain(|address| seen.insert(*address));
      Ok(addresses)
    }
    _ => Err(Refusal::Unresolved(host.clone())),
  }
}

/// Why a connection to `address` would not leave for the Internet. Connections to an address of this host's own pass by
/// whatever firewall is between it and the Internet, so they reach more than others would.
fn not_reachable(address: IpAddr) -> Option<&'static str> {
  not_global(address).or_else(|| own::is_own(address).then_some("an address of this host"))
}

fn check(host: &Host, addresses: &[IpAddr], allow_private: bool) -> Result<(), Refusal> {
  if addresses.len() > MAX_PROXY_ADDRESSES {
    return Err(Refusal::TooManyAddresses(host.clone()));
  }
  if allow_private {
    return Ok(());
  }
  match addresses.iter().find_map(|address| not_reachable(*address)) {
    Some(range) => Err(Refusal::AddressNotPublic { host: host.clone(), range }),
    None => Ok(()),
  }
}
