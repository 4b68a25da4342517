//! A connection of a program in the container, as a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use super::channels::{Arrival, Channel, Lost};
use super::outgoing::{Hurry, Pushed};
use super::{Event, Link};
use crate::cancel::Cancel;
use crate::docker::Stdin;
use crate::error::{Result, fail};
use crate::supervisor::wire::{
  CHANNEL_WINDOW, Capability, Close, Credit, Data, Failed, Listen, Reply, Stream, ToInside,
};

const WHAT: &str = "Listening for connections to the proxy";

/// Connections as programs make them.
pub struct Connections {
  link: Link,
  arrived: mpsc::Receiver<Arrival>,
}

impl Link {
  /// Has the supervisor listen on a port of the container's own loopback address, for this holder, until the link ends.
  ///
  /// # Errors
  ///
  /// `UNSUPPORTED` where there is no loopback interface, or something else has the port.
  pub async fn listen(&self, port: u16) -> Result<Connections> {
    if !self.welcome().can(Capability::Channels) {
      return Err(fail!(
        Unsupported,
        "The container has no loopback address that is up, so the network allowlist cannot be carried into it."
      ));
    }
    // Before it is asked for: the first may come with the answer.
    let arrived = self.shared().channels.expect();
    let operation = self.request(ToInside::Listen(Listen { port, window: CHANNEL_WINDOW })).await?;
    let quiet = |_event: Event| Ok(());
    match operation.run(Stdin::Empty, WHAT, &Cancel::new(), quiet).await? {
      Reply::Listening => Ok(Connections { link: self.clone(), arrived }),
      Reply::Failed(Failed { errno, .. }) => Err(fail!(
        Unsupported,
        "Process 1 of the sandbox cannot listen on port {port} of its loopback address (error {errno} of Linux)."
      )),
      _ => Err(fail!(ContainerLost, "The sandbox's process 1 answered something else than it was asked.")),
    }
  }
}

impl Connections {
  /// The next connection; `None` once the link has ended.
  pub async fn next(&mut self) -> Option<Connection> {
    let Arrival { number, channel } = self.arrived.recv().await?;
    Some(Connection { link: self.link.clone(), number, channel, input_ended: false, over: false })
  }
}

/// One connection. Dropping it resets it; [`Self::finish`] ends it.
pub struct Connection {
  link: Link,
  number: u64,
  channel: Arc<Channel>,
  /// Our direction is ended.
  input_ended: bool,
  over: bool,
}

impl Connection {
  /// Ends it as any other: what was written arrives.
  pub fn finish(mut self) {
    self.end(Close::Ended);
  }

  fn end(&mut self, how: Close) {
    if !std::mem::replace(&mut self.over, true) && self.channel.abandon() {
      self.link.shared().send_small(Hurry::Now, &ToInside::Close(how), self.number);
    }
  }

  /// Sends a frame, as soon as there is room for it.
  fn poll_send(&self, context: &Context<'_>, message: &ToInside<'_>) -> Poll<io::Result<()>> {
    let shared = self.link.shared();
    if shared.life.is_cancelled() {
      return Poll::Ready(Err(lost(Lost)));
    }
    let encode = |out: &mut Vec<u8>| message.encode(&shared.encoder, self.number, out);
    match shared.outgoing.push_or_wake(self.number, context.waker(), encode) {
      Ok(Pushed::Taken) => Poll::Ready(Ok(())),
      Ok(Pushed::Full) => Poll::Pending,
      Err(error) => Poll::Ready(Err(io::Error::other(error))),
    }
  }
}

impl AsyncRead for Connection {
  fn poll_read(
    self: Pin<&mut Self>,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
  ) -> Poll<io::Result<()>> {
    let granted = ready!(self.channel.poll_read(context, buffer)).map_err(lost)?;
    if let Some(limit) = granted {
      let credit = ToInside::Credit(Credit { stream: Stream::Output, limit });
      self.link.shared().send_small(Hurry::Now, &credit, self.number);
    }
    Poll::Ready(Ok(()))
  }
}

impl AsyncWrite for Connection {
  fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    if self.input_ended {
      return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
    }
    let (room, offset) = ready!(self.channel.poll_room(context)).map_err(lost)?;
    let bytes = bytes.get(..room).unwrap_or(bytes);
    if !bytes.is_empty() {
      let data = ToInside::Data(Data { stream: Stream::Input, offset, bytes });
      ready!(self.poll_send(context, &data))?;
      self.channel.sent(bytes.len());
    }
    Poll::Ready(Ok(bytes.len()))
  }

  fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
    Poll::Ready(Ok(()))
  }

  fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    if !self.input_ended {
      ready!(self.poll_send(context, &ToInside::End(Stream::Input)))?;
      self.input_ended = true;
    }
    Poll::Ready(Ok(()))
  }
}

impl Drop for Connection {
  fn drop(&mut self) {
    self.end(Close::Reset);
  }
}

fn lost(_lost: Lost) -> io::Error {
  io::ErrorKind::ConnectionReset.into()
}
