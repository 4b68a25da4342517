//! One acquired session of a run: takes its connections from accept to end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::exchange::{self, Plain};
use super::gauge::{Cut, Gauge};
use super::http::request::{self, Kind, Request};
use super::intake::{HeadFault, read_head};
use super::ledger::{Ledger, Slot, Slots};
use super::tls::{ACCESS_DENIED, HelloFault, Sniffer};
use super::{Authority, ProxyEvent, Refusal, RunCounts, Shared, dial, linger, resolve, tunnel};
use crate::cancel::Cancel;

/// The port on which a tunnel must carry TLS.
const TLS_PORT: u16 = 443;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
  /// With everything said; the carrier may end it as any other.
  Ended,
  /// In the middle. The carrier should reset it, so that nobody takes what came for all there was.
  Cut,
}

/// The connections of one acquired session. Clones are the same session.
#[derive(Clone)]
pub struct Session {
  inner: Arc<Inner>,
}

struct Inner {
  shared: Arc<Shared>,
  run: Arc<str>,
  ledger: Ledger,
  connections: Slots,
  lookups: Slots,
  cancel: Cancel,
  tasks: TaskTracker,
}

/// A connection to a server that may be used, and the rule that allows it.
struct Opened {
  server: TcpStream,
  rule: String,
}

impl Session {
  pub(super) fn new(shared: Arc<Shared>, run: &str, used: RunCounts) -> Self {
    let inner = Inner {
      shared,
      run: run.into(),
      ledger: Ledger::new(used),
      connections: Slots::default(),
      lookups: Slots::default(),
      cancel: Cancel::new(),
      tasks: TaskTracker::new(),
    };
    Self { inner: Arc::new(inner) }
  }

  /// Serves one connection that a carrier accepted just now: the time for its head runs from this call. The future is
  /// the connection; dropping it cuts the connection.
  pub fn serve<S>(&self, mut stream: S) -> impl Future<Output = Served> + Send + use<S>
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    let accepted = Instant::now();
    let inner = Arc::clone(&self.inner);
    let task = inner.tasks.token();
    async move {
      let served = tokio::select! {
        biased;
        () = inner.cancel.cancelled() => Served::Cut,
        served = inner.connection(&mut stream, accepted) => served,
      };
      drop(stream);
      drop(task);
      served
    }
  }

  /// What the run has used, to be stored; it may grow until [`Session::close`] is done.
  pub fn counts(&self) -> RunCounts {
    self.inner.ledger.counts()
  }

  /// Cuts every connection, refuses new ones, and returns what the run has used in the end.
  pub async fn close(&self) -> RunCounts {
    self.inner.cancel.cancel();
    self.inner.tasks.close();
    self.inner.tasks.wait().await;
    self.counts()
  }
}

impl Inner {
  async fn connection<S>(&self, client: &mut S, accepted: Instant) -> Served
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    let _slots = match self.admit() {
      Ok(slots) => slots,
      Err(refusal) => return self.refuse(client, None, &refusal, false).await,
    };
    let mut early = BytesMut::new();
    let request = match self.intake(client, &mut early, accepted).await {
      Ok(Some(request)) => request,
      Ok(None) => return Served::Ended,
      Err(refusal) => return self.refuse(client, None, &refusal, false).await,
    };
    let lifetime = self.shared.quotas.tunnel_lifetime;
    let opened = timeout_at(accepted + lifetime, self.open(&request.authority)).await;
    match opened.unwrap_or_else(|_| Err(Refusal::Lifetime(lifetime.as_millis()))) {
      Ok(opened) => self.pass(client, early, &request, opened, accepted).await,
      Err(refusal) => {
        let is_head = matches!(request.kind, Kind::Plain { is_head: true, .. });
        self.refuse(client, Some(&request.authority), &refusal, is_head).await
      }
    }
  }

  fn admit(&self) -> Result<(Slot, Slot), Refusal> {
    let quotas = &self.shared.quotas;
    let own = self.connections.take(quotas.max_connections);
    let own = own.ok_or(Refusal::RunConnections(quotas.max_connections))?;
    let all = self.shared.open.take(quotas.max_total_connections);
    Ok((own, all.ok_or(Refusal::TotalConnections(quotas.max_total_connections))?))
  }

  /// Reads the request; `None` if the client ended without one. What came behind the head is left in `early`.
  async fn intake<S>(
    &self,
    client: &mut S,
    early: &mut BytesMut,
    accepted: Instant,
  ) -> Result<Option<Request>, Refusal>
  where
    S: AsyncRead + Unpin,
  {
    let quotas = &self.shared.quotas;
    let reading = read_head(client, early, quotas.max_head_bytes);
    let wait = quotas.head_timeout.min(quotas.tunnel_lifetime);
    let length = match timeout_at(accepted + wait, reading).await {
      Ok(Ok(length)) => length,
      Ok(Err(HeadFault::Ended(0))) => return Ok(None),
      Ok(Err(HeadFault::Ended(_))) => return Err(Refusal::Malformed("ended in the middle of its head")),
      Ok(Err(HeadFault::Malformed(why))) => return Err(Refusal::Malformed(why)),
      Ok(Err(HeadFault::TooLarge)) => return Err(Refusal::HeadTooLarge(quotas.max_head_bytes)),
      Err(_) => return Err(Refusal::HeadTimeout(wait.as_millis())),
    };
    let head = early.split_to(length);
    request::parse(&head).map(Some)
  }

  /// Counts, decides, looks up and connects.
  async fn open(&self, authority: &Authority) -> Result<Opened, Refusal> {
    let Shared { policy, quotas, resolver, dialer, .. } = &*self.shared;
    self.ledger.count_request(quotas)?;
    let rule = policy.decide(authority)?.to_string();
    let slot = self.lookups.take(quotas.max_in_flight_dns);
    let slot = slot.ok_or(Refusal::InFlightDns(quotas.max_in_flight_dns))?;
    let host = &authority.host;
    let addresses = resolve::checked_addresses(resolver, host, policy.allows_private(), slot).await?;
    let addresses: Vec<_> =
      addresses.into_iter().map(|address| SocketAddr::new(address, authority.port)).collect();
    let server = dial::first_of(&**dialer, host, &addresses).await?;
    Ok(Opened { server, rule })
  }

  async fn pass<S>(
    &self,
    client: &mut S,
    early: BytesMut,
    request: &Request,
    opened: Opened,
    accepted: Instant,
  ) -> Served
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    let Opened { mut server, rule } = opened;
    let Authority { host, port } = &request.authority;
    let run = &self.run;
    self.record(ProxyEvent::Allowed {
      run: Arc::clone(run),
      host: host.to_string(),
      port: *port,
      rule: rule.clone(),
    });
    let gauge = Gauge::new(&self.shared.quotas, &self.ledger, accepted);
    let begun = AtomicBool::new(true);
    let passed = match &request.kind {
      Kind::Connect => {
        let sniffer = Sniffer::new(host, *port == TLS_PORT);
        tunnel::run(client, &mut server, early, sniffer, &gauge).await
      }
      Kind::Plain { head, length, is_head } => {
        begun.store(false, Ordering::Relaxed);
        let plain = Plain { head, length: *length, is_head: *is_head };
        exchange::run(client, &mut server, early, plain, &gauge, &begun).await
      }
    };
    let (bytes_up, bytes_down) = gauge.moved();
    self.record(ProxyEvent::Closed {
      run: Arc::clone(run),
      host: host.to_string(),
      port: *port,
      rule,
      bytes_up,
      bytes_down,
      reason: passed.as_ref().err().map(Cut::reason),
    });
    finish(client, server, passed, request, begun.into_inner()).await
  }

  /// Answers with the reason, and lets nothing that the client sends go anywhere.
  async fn refuse<S>(
    &self,
    client: &mut S,
    authority: Option<&Authority>,
    refusal: &Refusal,
    is_head: bool,
  ) -> Served
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    self.record(ProxyEvent::Refused {
      run: Arc::clone(&self.run),
      host: authority.map(|authority| authority.host.to_string()),
      port: authority.map(|authority| authority.port),
      status: refusal.status().0,
      reason: refusal.reason(),
    });
    linger::reply(client, &refusal.reply(is_head)).await;
    Served::Ended
  }

  fn record(&self, event: ProxyEvent) {
    self.shared.events.record(event);
  }
}

/// Ends both sides so that each can tell a whole exchange from a broken one.
async fn finish<S>(
  client: &mut S,
  server: TcpStream,
  passed: Result<(), Cut>,
  request: &Request,
  begun: bool,
) -> Served
where
  S: AsyncRead + AsyncWrite + Send + Unpin,
{
  let Err(cut) = passed else {
    drop(server);
    if request.kind != Kind::Connect {
      linger::end(client).await;
    }
    return Served::Ended;
  };
  // Without this the server could take half of an upload for a whole one. If it fails, the socket is broken already.
  drop(server.set_zero_linger());
  drop(server);
  match cut {
    Cut::Refused(refusal) if !begun => {
      let is_head = matches!(request.kind, Kind::Plain { is_head: true, .. });
      linger::reply(client, &refusal.reply(is_head)).await;
      Served::Ended
    }
    Cut::Hello(fault) => {
      if fault != HelloFault::NotTls {
        linger::reply(client, &ACCESS_DENIED).await;
      }
      Served::Ended
    }
    _ => Served::Cut,
  }
}
