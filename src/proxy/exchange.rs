//! One request and its reply in plain HTTP.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

use super::gauge::{Cut, Gauge, Way};
use super::http::body::{Body, Length};
use super::http::reply::{self, Next};
use super::intake::{HeadFault, read_head};
use super::refusal::Refusal;
use crate::limits::{MAX_REPLY_HEAD_BYTES, PROXY_BUFFER_BYTES};

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
  let up = async {
    gauge.send(&mut server_out, plain.head, Way::Up).await?;
    let fault = |why| Cut::Refused(Refusal::Malformed(why));
    pass_body(&mut client_in, &mut server_out, early, Body::of(plain.length), gauge, Way::Up, fault).await
  };
  // A server may reply, and close, before it has read the whole body. So only the reply's end is the end, and a server
  // that takes no more may still have said why.
  let up = async {
    match up.await {
      Ok(()) | Err(Cut::Broken) => std::future::pending().await,
      Err(cut) => cut,
    }
  };
  tokio::select! {
    result = pass_reply(&mut server_in, &mut client_out, plain.is_head, gauge, begun) => result,
    cut = up => Err(cut),
    cut = gauge.over() => Err(cut),
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
