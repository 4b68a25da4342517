//! Connecting to one of several addresses.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::host::Host;
use super::refusal::Refusal;
use crate::limits::{PROXY_DIAL_STAGGER, PROXY_DIAL_TIMEOUT};

/// Opens connections. It is given addresses and never names, so nothing is looked up a third time.
#[async_trait]
pub trait Dialer: Send + Sync {
  /// Connects to this address.
  async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// Plain TCP from this host.
#[derive(Clone, Copy, Debug)]
pub struct TcpDialer;

#[async_trait]
impl Dialer for TcpDialer {
  async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // The proxy writes what it has; waiting for more would only delay it.
    stream.set_nodelay(true)?;
    Ok(stream)
  }
}

/// The first connection that comes about. Each address is tried as soon as the one before failed or was silent for a
/// moment, so that a silent one delays nobody; all are tried well before the deadline. The losers are closed.
pub(super) async fn first_of(
  dialer: &dyn Dialer,
  host: &Host,
  addresses: &[SocketAddr],
) -> Result<TcpStream, Refusal> {
  match timeout(PROXY_DIAL_TIMEOUT, race(dialer, addresses)).await {
    Ok(Some(stream)) => Ok(stream),
    Ok(None) => Err(Refusal::Unreachable(host.clone())),
    Err(_) => Err(Refusal::DialTimeout(host.clone())),
  }
}

async fn race(dialer: &dyn Dialer, addresses: &[SocketAddr]) -> Option<TcpStream> {
  let half = PROXY_DIAL_TIMEOUT / 2;
  let pause =
    u32::try_from(addresses.len()).map_or(half, |count| half / count.max(1)).min(PROXY_DIAL_STAGGER);
  let mut waiting = addresses.iter();
  let mut running = FuturesUnordered::new();
  loop {
    match waiting.next() {
      Some(address) => running.push(dialer.connect(*address)),
      None if running.is_empty() => return None,
      None => {}
    }
    tokio::select! {
      Some(result) = running.next() => if let Ok(stream) = result { return Some(stream) },
      () = sleep(pause), if waiting.len() > 0 => {}
    }
  }
}
