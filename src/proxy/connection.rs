//! One connection from accept to end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::exchange::{self, Plain};
use super::gauge::{Cut, Gauge};
use super::http::request::{self, Kind, Request};
use super::intake::{HeadFault, read_head};
use super::ledger::Slot;
use super::passing::Passing;
use super::session::{Inner, Served};
use super::tls::{ACCESS_DENIED, HelloFault, Sniffer};
use super::{Authority, ProxyEvent, Quota, Refusal, Shared, dial, linger, resolve, tunnel};
use crate::limits::MAX_PROXY_REFUSED;

/// The port on which a tunnel must carry TLS.
const TLS_PORT: u16 = 443;

/// A connection of a session.
pub(super) struct Accepted<'a> {
  session: &'a Inner,
  at: Instant,
}

/// A connection to a server that may be used, and the rule that allows it.
struct Opened {
  server: TcpStream,
  rule: String,
}

impl<'a> Accepted<'a> {
  /// A connection that was accepted at this time.
  pub(super) const fn new(session: &'a Inner, at: Instant) -> Self {
    Self { session, at }
  }

  /// Serves it to its end.
  pub(super) async fn serve<S>(&self, client: &mut S) -> Served
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    let _slots = match self.admit() {
      Ok(slots) => slots,
      Err(refusal) => return self.turn_away(client, &refusal).await,
    };
    let mut early = BytesMut::new();
    let request = match self.intake(client, &mut early).await {
      Ok(Some(request)) => request,
      Ok(None) => return Served::Ended,
      Err(refusal) => return self.refuse(client, None, &refusal).await,
    };
    let lifetime = self.session.shared.quotas.tunnel_lifetime;
    let opened = timeout_at(self.at + lifetime, self.open(&request.authority)).await;
    match opened.unwrap_or_else(|_| Err(Refusal::Quota(Quota::Lifetime(lifetime.as_millis())))) {
      Ok(opened) => self.pass(client, early, &request, opened).await,
      Err(refusal) => self.refuse(client, Some(&request), &refusal).await,
    }
  }

  fn admit(&self) -> Result<(Slot, Slot), Refusal> {
    let quotas = &self.session.shared.quotas;
    let own = self.session.connections.take(quotas.max_connections);
    let own = own.ok_or(Refusal::Quota(Quota::RunConnections(quotas.max_connections)))?;
    let all = self.session.shared.open.take(quotas.max_total_connections);
    Ok((own, all.ok_or(Refusal::Quota(Quota::TotalConnections(quotas.max_total_connections)))?))
  }

  /// Reads the request; `None` if the client ended without one. What came behind the head is left in `early`.
  async fn intake<S>(&self, client: &mut S, early: &mut BytesMut) -> Result<Option<Request>, Refusal>
  where
    S: AsyncRead + Unpin,
  {
    let quotas = &self.session.shared.quotas;
    let wait = quotas.head_timeout.min(quotas.tunnel_lifetime);
    let reading = read_head(client, early, quotas.max_head_bytes);
    let length = match timeout_at(self.at + wait, reading).await {
      Ok(Ok(length)) => length,
      Ok(Err(HeadFault::Ended(0))) => return Ok(None),
      Ok(Err(HeadFault::Ended(_))) => return Err(Refusal::Malformed("ended in the middle of its head")),
      Ok(Err(HeadFault::Malformed(why))) => return Err(Refusal::Malformed(why)),
      Ok(Err(HeadFault::TooLarge)) => return Err(Refusal::Quota(Quota::HeadTooLarge(quotas.max_head_bytes))),
      Err(_) => return Err(Refusal::Quota(Quota::HeadTimeout(wait.as_millis()))),
    };
    request::parse(&early.split_to(length)).map(Some)
  }

  /// Counts, decides, looks up and connects.
  async fn open(&self, authority: &Authority) -> Result<Opened, Refusal> {
    let Shared { policy, quotas, resolver, dialer, .. } = &*self.session.shared;
    self.session.ledger.count_request(quotas)?;
    let rule = policy.decide(authority)?.to_string();
    let slot = self.session.lookups.take(quotas.max_in_flight_dns);
    let slot = slot.ok_or(Refusal::Quota(Quota::InFlightDns(quotas.max_in_flight_dns)))?;
    let host = &authority.host;
    let addresses = resolve::checked_addresses(resolver, host, policy.allows_private(), slot).await?;
    let to = |address| SocketAddr::new(address, authority.port);
    let addresses: Vec<_> = addresses.into_iter().map(to).collect();
    let server = dial::first_of(&**dialer, host, &addresses).await?;
    Ok(Opened { server, rule })
  }

  /// Moves bytes until one side or a quota ends it.
  async fn pass<S>(&self, client: &mut S, early: BytesMut, request: &Request, opened: Opened) -> Served
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    let Opened { mut server, rule } = opened;
    let Inner { shared, ledger, .. } = self.session;
    let gauge = Gauge::new(&shared.quotas, ledger, self.at);
    let passing = Passing::begin(self.session, &request.authority, rule, &gauge);
    // A tunnel tells the client that it stands before anything else; HTTP could not be heard in it.
    let begun = AtomicBool::new(request.kind == Kind::Connect);
    let passed = match &request.kind {
      Kind::Connect => {
        let Authority { host, port } = &request.authority;
        let sniffer = Sniffer::new(host, *port == TLS_PORT);
        tunnel::run(client, &mut server, early, sniffer, &gauge).await
      }
      Kind::Plain { head, length, is_head } => {
        let plain = Plain { head, length: *length, is_head: *is_head };
        exchange::run(client, &mut server, early, plain, &gauge, &begun).await
      }
    };
    passing.end(passed.as_ref().err().map(Cut::reason));
    match passed {
      Ok(()) => {
        drop(server);
        if request.kind != Kind::Connect {
          linger::end(client).await;
        }
        Served::Ended
      }
      Err(cut) => {
        // Without this the server could take half of an upload for all of it. If it fails, the socket is broken anyway.
        drop(server.set_zero_linger());
        drop(server);
        cut_off(client, cut, request, begun.load(Ordering::Relaxed)).await
      }
    }
  }

  /// Refuses a connection that has no place. What waits to be heard out is bounded too.
  async fn turn_away<S>(&self, client: &mut S, refusal: &Refusal) -> Served
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    let Some(_slot) = self.session.refused.take(MAX_PROXY_REFUSED) else {
      self.tell(None, refusal);
      return Served::Cut;
    };
    self.refuse(client, None, refusal).await
  }

  /// Answers with the reason, and lets nothing that the client sends go anywhere.
  async fn refuse<S>(&self, client: &mut S, request: Option<&Request>, refusal: &Refusal) -> Served
  where
    S: AsyncRead + AsyncWrite + Send + Unpin,
  {
    self.tell(request, refusal);
    linger::reply(client, &refusal.reply(request.is_some_and(Request::is_head))).await;
    Served::Ended
  }

  /// Records the refusal as an event.
  fn tell(&self, request: Option<&Request>, refusal: &Refusal) {
    let authority = request.map(|request| &request.authority);
    self.session.shared.events.record(ProxyEvent::Refused {
      run: Arc::clone(&self.session.run),
      host: authority.map(|authority| authority.host.to_string()),
      port: authority.map(|authority| authority.port),
      status: refusal.status().0,
      reason: refusal.reason(),
    });
  }
}

/// Tells the client why, where it can still hear it.
async fn cut_off<S>(client: &mut S, cut: Cut, request: &Request, begun: bool) -> Served
where
  S: AsyncRead + AsyncWrite + Send + Unpin,
{
  match cut {
    Cut::Refused(refusal) if !begun => {
      linger::reply(client, &refusal.reply(request.is_head())).await;
      Served::Ended
    }
    Cut::Hello(HelloFault::NotTls) => Served::Ended,
    Cut::Hello(_) => {
      linger::reply(client, &ACCESS_DENIED).await;
      Served::Ended
    }
    Cut::Refused(_) | Cut::Broken => Served::Cut,
  }
}
