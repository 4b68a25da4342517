//! One request and its reply in plain HTTP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::gauge::{Cut, Gauge, Way};
use super::http::body::{Body, Length};
use super::http::reply::{self, Next};
use super::intake::{HeadFault, read_head};
use super::refusal::Refusal;
use crate::limits::{MAX_REPLY_HEAD_BYTES, PROXY_BUFFER_BYTES};

/// How long a reply may take to begin once the client has ended its direction. A program that was ended looks like that.
const HALF_CLOSED: Duration = Duration::from_secs(5);

/// What goes to the server before the body.
pub(super) struct Plain<'a> {
  /// The head.
  pub(super) head: &'a [u8],
  /// How the body ends.
  pub(super) length: Option<Length>,
  /// The reply has no body.
  pub(super) is_head: bool,
}

/// Passes one request and its reply. `early` is what the client sent behind its head; what it sends behind the body goes
/// nowhere. `begun` becomes true before the first byte of a reply goes to the client.
pub(super) async fn run<S>(
  client: &mut S,
  server: &mut TcpStream,
  early: BytesMut,
  plain: Plain<'_>,
  gauge: &Gauge<'_>,
  begun: &AtomicBool,
) -> Result<(), Cut>
where
  S: AsyncRead + AsyncWrite + Unpin,
{
  let (mut client_in, mut client_out) = tokio::io::split(client);
  let (mut server_in, mut server_out) = server.split();
  // A server may reply, and close, before it has read the whole body. So only the reply's end is the end, and a server
  // that takes no more may still have said why.
  let up = async {
    let fault = |why| Cut::Refused(Refusal::Malformed(why));
    let body = Body::of(plain.length);
    let sent = match gauge.send(&mut server_out, plain.head, Way::Up).await {
      Ok(()) => pass_body(&mut client_in, &mut server_out, early, body, gauge, Way::Up, fault).await,
      Err(cut) => Err(cut),
    };
    match sent {
      Ok(()) | Err(Cut::Broken) => {}
      Err(cut) => return cut,
    }
    gone(&mut client_in, begun).await;
    Cut::Broken
  };
  tokio::select! {
    result = pass_reply(&mut server_in, &mut client_out, plain.is_head, gauge, begun) => result,
    cut = up => Err(cut),
    cut = gauge.over() => Err(cut),
  }
}

/// Resolves once nobody is there any more who could take a reply, so that a request that was given up keeps no place.
/// What the client sends behind its request is dropped, up to a limit, and then no longer read.
async fn gone<R: AsyncRead + Unpin>(client: &mut R, begun: &AtomicBool) {
  let mut behind = BytesMut::with_capacity(PROXY_BUFFER_BYTES);
  loop {
    match client.read_buf(&mut behind).await {
      Ok(0) => break,
      Ok(_) if behind.len() < PROXY_BUFFER_BYTES => {}
      Ok(_) => return std::future::pending().await,
      Err(_reset) => return,
    }
  }
  // One that only ended its own direction is given a little time, and all of it once the reply has begun: what is written
  // to one that is gone fails by itself.
  sleep(HALF_CLOSED).await;
  if begun.load(Ordering::Relaxed) {
    std::future::pending::<()>().await;
  }
}

async fn pass_reply<R, W>(
  from: &mut R,
  to: &mut W,
  is_head: bool,
  gauge: &Gauge<'_>,
  begun: &AtomicBool,
) -> Result<(), Cut>
where
  R: AsyncRead + Unpin,
  W: AsyncWrite + Unpin,
{
  let bad = |why| Cut::Refused(Refusal::BadReply(why));
  let mut buffer = BytesMut::new();
  loop {
    let length = read_head(from, &mut buffer, MAX_REPLY_HEAD_BYTES).await.map_err(|fault| match fault {
      HeadFault::TooLarge => bad("sent too large a head"),
      HeadFault::Malformed(_) => bad("sent a malformed head"),
      HeadFault::Ended(_) => bad("closed the connection before it replied"),
    })?;
    let head = buffer.split_to(length);
    let reply = reply::parse(&head, is_head).map_err(bad)?;
    gauge.touch();
    begun.store(true, Ordering::Relaxed);
    gauge.send(to, &reply.head, Way::Down).await?;
    if let Next::Body(body) = reply.next {
      return pass_body(from, to, buffer, body, gauge, Way::Down, bad).await;
    }
  }
}

/// Passes a body, of which `front` is there already, and nothing behind it.
async fn pass_body<R, W>(
  from: &mut R,
  to: &mut W,
  front: BytesMut,
  mut body: Body,
  gauge: &Gauge<'_>,
  way: Way,
  fault: impl Fn(&'static str) -> Cut,
) -> Result<(), Cut>
where
  R: AsyncRead + Unpin,
  W: AsyncWrite + Unpin,
{
  let mut bytes = front;
  loop {
    let taken = body.take(&bytes).map_err(&fault)?;
    gauge.send(to, bytes.get(..taken).unwrap_or_default(), way).await?;
    if body.is_complete() {
      return Ok(());
    }
    bytes.clear();
    bytes.reserve(PROXY_BUFFER_BYTES);
    match from.read_buf(&mut bytes).await {
      Ok(read) if read > 0 => {}
      Ok(_) if body.may_end() => return Ok(()),
      _ => return Err(fault("ended in the middle of its body")),
    }
    gauge.touch();
  }
}
