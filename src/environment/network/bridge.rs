//! The network of a run with the exec transport: an internal bridge network for that container alone, and the proxy at
//! the engine's own address on it.
//!
//! It is the weaker way. The gateway is an address of this host, so what else listens there, or on all of the host's
//! addresses, can be reached from the container too; and the engine must be on this host.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::{PORT, Site, variables};
use crate::docker::EngineKind;
use crate::docker::model::{Inspection, Network};
use crate::environment::claim::Claim;
use crate::environment::core::Core;
use crate::environment::create::{nonce, not_made};
use crate::environment::event::Resource;
use crate::environment::leftovers;
use crate::environment::spec;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::sandbox::connections::{Connection, Connections};

/// A holder before this one may let go of the port a moment after it let go of the run.
const TAKEN_PAUSES: [Duration; 4] =
  [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1)];
/// After the kernel could not give a connection (no descriptors, no memory), none is asked for so long.
const REST: Duration = Duration::from_millis(100);

/// The network of a run.
pub struct Bridge {
  /// The engine's id of it.
  pub id: String,
  /// Where the proxy is.
  pub site: Site,
  /// Connections to it; `None` where the engine is no real one.
  pub connections: Option<Box<dyn Connections>>,
}

/// Makes the network of a run and listens on it. Whatever fails, nothing of it stays.
pub async fn open(
  core: &Core,
  run: Option<&str>,
  name: &str,
  labels: &BTreeMap<String, String>,
  claim: &Claim,
) -> Result<Bridge> {
  let network = match core.engine.create_labelled_network(name, labels).await {
    Ok(network) => network,
    Err(error) => {
      // It may exist all the same: the reply may have been lost.
      let removed = leftovers::remove_networks(core, run, claim).await;
      return Err(exhausted(not_made(core, run, (Resource::Network, name), error, removed)));
    }
  };
  match listen_on(core, &network).await {
    Ok((site, connections)) => Ok(Bridge { id: network.id, site, connections }),
    Err(error) => {
      close(core, run, &network.id).await;
      Err(error)
    }
  }
}

/// Removes the network of a run; where that fails, an event tells.
pub async fn close(core: &Core, run: Option<&str>, id: &str) {
  if let Err(error) = core.engine.remove_network(id).await {
    core.events.left(run, Resource::Network, id, &error);
  }
}

/// The networks that were made for the lease of this claim, on record or not: the engine's ids of them.
pub async fn made_for(core: &Core, claim: &Claim) -> Result<Vec<String>> {
  if core.proxy.is_none() {
    return Ok(Vec::new());
  }
  let label = format!("{}={}", spec::LABEL_NONCE, nonce(claim.token()));
  Ok(core.engine.list_networks(&label).await?.into_iter().map(|network| network.id).collect())
}

/// Connections to the proxy, and the variables by which commands find it where it is not at the place that their container
/// names.
pub type Reopened = (Option<Box<dyn Connections>>, BTreeMap<String, String>);

/// Listens again where a container of an earlier holder expects the proxy. A holder that was stopped keeps its port as long
/// as it is: then it is at another one, and each command is told.
pub async fn reopen(core: &Core, found: &Inspection) -> Result<Reopened> {
  let labels = found.config.labels.as_ref();
  let label = labels.and_then(|labels| labels.get(spec::LABEL_PROXY));
  let Some(site) = label.and_then(|site| site.parse::<Site>().ok()) else {
    return Err(fail!(
      Conflict,
      "Container {} does not say where it expects the proxy of its allowlist.",
      found.id
    ));
  };
  if core.engine.kind() == EngineKind::Memory {
    return Ok((None, BTreeMap::new()));
  }
  let listener = bind_again(site.proxy).await.map_err(|error| not_listening(site.proxy, error))?;
  let proxy = listener.local_addr().map_err(|error| not_listening(site.proxy, error))?;
  let env = if proxy == site.proxy { BTreeMap::new() } else { moved_to(core, proxy) };
  Ok((Some(Box::new(Listening { listener, site: Site { proxy, ..site } })), env))
}

/// At this port, or at another one where somebody else keeps it.
async fn bind_again(wanted: SocketAddr) -> io::Result<TcpListener> {
  for pause in TAKEN_PAUSES {
    match TcpListener::bind(wanted).await {
      Err(error) if error.kind() == io::ErrorKind::AddrInUse => sleep(pause).await,
      bound => return bound,
    }
  }
  bind_near(wanted).await
}

async fn bind_near(wanted: SocketAddr) -> io::Result<TcpListener> {
  match TcpListener::bind(wanted).await {
    Err(error) if error.kind() == io::ErrorKind::AddrInUse => TcpListener::bind((wanted.ip(), 0)).await,
    bound => bound,
  }
}

/// What the application gives its commands counts more, as it does in the container's own variables.
fn moved_to(core: &Core, proxy: SocketAddr) -> BTreeMap<String, String> {
  let told = variables(&proxy.to_string()).into_iter();
  let told = told.filter(|(name, _)| !core.options.env.contains_key(*name));
  told.map(|(name, value)| (name.to_owned(), value)).collect()
}

async fn listen_on(core: &Core, network: &Network) -> Result<(Site, Option<Box<dyn Connections>>)> {
  let subnet = network.subnet.as_ref().and_then(|subnet| subnet.parse().ok());
  let Some(address) = network.gateway.as_ref().and_then(|gateway| gateway.parse::<IpAddr>().ok()) else {
    return Err(fail!(
      Unsupported,
      "The Docker engine told no gateway address of the run's network, at which the proxy could listen."
    ));
  };
  if core.engine.kind() == EngineKind::Memory {
    // Nothing in it connects to anything.
    return Ok((Site { proxy: SocketAddr::new(address, PORT), subnet }, None));
  }
  let wanted = SocketAddr::new(address, PORT);
  // Something on this host may listen there on all addresses.
  let listening = bind_near(wanted).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
  let (proxy, listener) = listening.map_err(|error| not_listening(wanted, error))?;
  let site = Site { proxy, subnet };
  Ok((site, Some(Box::new(Listening { listener, site }))))
}

fn not_listening(address: SocketAddr, error: io::Error) -> Error {
  let code = error.kind();
  match code {
    io::ErrorKind::AddrNotAvailable => fail!(
      Unsupported,
      "The proxy cannot listen at {address}, the gateway of the run's network: it is no address of this host. With the exec transport the allowlist needs a Docker engine on this host, not a remote or rootless one or Docker Desktop; the resident transport does not."
    ),
    _ => fail!(
      Unsupported,
      "The proxy cannot listen at {address}, the gateway of the run's network ({code}). Free the port, or use the resident transport, which needs none."
    ),
  }
  .with_source(error)
}

/// An engine has some thirty address ranges for networks, unless it was told of more.
fn exhausted(error: Error) -> Error {
  let said = error.message();
  let is_exhausted = error.code() == ErrorCode::DockerApi
    && (said.contains("address pool") || said.contains("fully subnetted"));
  if !is_exhausted {
    return error;
  }
  fail!(
    Limit,
    "The Docker engine has no address range left for the network of another run ({}). Release runs, remove networks that nobody uses (docker network prune), give the engine more default-address-pools, or use the resident transport, which needs no network.",
    said.trim_end_matches('.')
  )
  .with_source(error)
}

/// The proxy's port on a run's network.
struct Listening {
  listener: TcpListener,
  site: Site,
}

#[async_trait]
impl Connections for Listening {
  async fn next(&mut self) -> Option<Box<dyn Connection>> {
    loop {
      match self.listener.accept().await {
        Ok((stream, peer)) if self.site.serves(peer.ip()) => {
          stream.set_nodelay(true).ok();
          return Some(Box::new(Accepted(Some(stream))));
        }
        Ok((stranger, _)) => {
          stranger.set_zero_linger().ok();
        }
        Err(error) if is_of_connection(&error) => {}
        Err(_busy) => sleep(REST).await,
      }
    }
  }
}

/// The connection was gone before it was accepted (`accept(2)`).
fn is_of_connection(error: &io::Error) -> bool {
  matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

/// A connection over the run's network; taken out when it is finished.
struct Accepted(Option<TcpStream>);

impl Accepted {
  fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut TcpStream>> {
    self.get_mut().0.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
  }
}

impl Connection for Accepted {
  fn finish(mut self: Box<Self>) {
    drop(self.0.take());
  }
}

impl Drop for Accepted {
  fn drop(&mut self) {
    if let Some(stream) = self.0.take() {
      // Where this fails the connection is broken anyway.
      stream.set_zero_linger().ok();
    }
  }
}

impl AsyncRead for Accepted {
  fn poll_read(
    self: Pin<&mut Self>,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
  ) -> Poll<io::Result<()>> {
    self.stream()?.poll_read(context, buffer)
  }
}

impl AsyncWrite for Accepted {
  fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    self.stream()?.poll_write(context, bytes)
  }

  fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    self.stream()?.poll_flush(context)
  }

  fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    self.stream()?.poll_shutdown(context)
  }
}
