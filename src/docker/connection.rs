//! A connection to an engine, whatever carries it, and how it comes apart into two halves that are used side by side.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio_rustls::client::TlsStream;

use super::bridge::{self, Bridge};

/// A connection.
pub enum Stream {
  /// Over a unix socket.
  Unix(UnixStream),
  /// Over TCP, readable by whoever is in between.
  Tcp(TcpStream),
  /// Over TCP, with both ends known to each other.
  Tls(Box<TlsStream<TcpStream>>),
}

/// What is read of a connection.
pub struct ReadHalf {
  half: Read,
  bridge: Option<Arc<Bridge>>,
}

/// What is written to a connection. Dropped, it ends what the other side reads.
pub struct WriteHalf {
  half: Write,
  _bridge: Option<Arc<Bridge>>,
}

enum Read {
  Unix(unix::OwnedReadHalf),
  Tcp(tcp::OwnedReadHalf),
}

enum Write {
  Unix(unix::OwnedWriteHalf),
  Tcp(tcp::OwnedWriteHalf),
}

impl Stream {
  /// Takes it apart. Fails where TLS cannot have the two sockets that it takes for that.
  pub fn into_split(self) -> io::Result<(ReadHalf, WriteHalf)> {
    let (stream, bridge) = match self {
      Self::Tcp(stream) => {
        let (read, write) = stream.into_split();
        let read = ReadHalf { half: Read::Tcp(read), bridge: None };
        return Ok((read, WriteHalf { half: Write::Tcp(write), _bridge: None }));
      }
      Self::Unix(stream) => (stream, None),
      Self::Tls(stream) => {
        let (near, bridge) = bridge::build(*stream)?;
        (near, Some(Arc::new(bridge)))
      }
    };
    let (read, write) = stream.into_split();
    let read = ReadHalf { half: Read::Unix(read), bridge: bridge.clone() };
    Ok((read, WriteHalf { half: Write::Unix(write), _bridge: bridge }))
  }
}

impl WriteHalf {
  /// Writes what finds room now; `WouldBlock` where there is none.
  pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
    match &self.half {
      Write::Unix(half) => half.try_write(bytes),
      Write::Tcp(half) => half.try_write(bytes),
    }
  }

  /// Resolves when there may be room.
  pub async fn writable(&self) -> io::Result<()> {
    match &self.half {
      Write::Unix(half) => half.writable().await,
      Write::Tcp(half) => half.writable().await,
    }
  }
}

/// Calls a method of what carries a connection, pinned.
macro_rules! carried {
  ($on:expr, $($kind:path),+; $half:ident => $call:expr) => {
    match $on {
      $($kind($half) => {
        let $half = Pin::new($half);
        $call
      })+
    }
  };
}

impl AsyncRead for Stream {
  fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    carried!(self.get_mut(), Self::Unix, Self::Tcp, Self::Tls; stream => stream.poll_read(cx, buffer))
  }
}

impl AsyncWrite for Stream {
  fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    carried!(self.get_mut(), Self::Unix, Self::Tcp, Self::Tls; stream => stream.poll_write(cx, bytes))
  }

  fn poll_write_vectored(
    self: Pin<&mut Self>,
    cx: &mut Context<'_>,
    pieces: &[io::IoSlice<'_>],
  ) -> Poll<io::Result<usize>> {
    carried!(self.get_mut(), Self::Unix, Self::Tcp, Self::Tls; stream => stream.poll_write_vectored(cx, pieces))
  }

  fn is_write_vectored(&self) -> bool {
    true
  }

  fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    carried!(self.get_mut(), Self::Unix, Self::Tcp, Self::Tls; stream => stream.poll_flush(cx))
  }

  fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    carried!(self.get_mut(), Self::Unix, Self::Tcp, Self::Tls; stream => stream.poll_shutdown(cx))
  }
}

impl Connection for Stream {
  fn connected(&self) -> Connected {
    Connected::new()
  }
}

impl AsyncRead for ReadHalf {
  fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    let this = self.get_mut();
    let before = buffer.filled().len();
    let polled = carried!(&mut this.half, Read::Unix, Read::Tcp; half => half.poll_read(cx, buffer));
    let Poll::Ready(read) = polled else { return Poll::Pending };
    // The near socket cannot say whether the far end came to its end or was cut.
    let is_over = read.is_err() || buffer.filled().len() == before;
    Poll::Ready(match this.bridge.as_ref().filter(|_| is_over).and_then(|bridge| bridge.fault()) {
      Some(fault) => Err(fault),
      None => read,
    })
  }
}

impl AsyncWrite for WriteHalf {
  fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    carried!(&mut self.get_mut().half, Write::Unix, Write::Tcp; half => half.poll_write(cx, bytes))
  }

  fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    carried!(&mut self.get_mut().half, Write::Unix, Write::Tcp; half => half.poll_flush(cx))
  }

  fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    carried!(&mut self.get_mut().half, Write::Unix, Write::Tcp; half => half.poll_shutdown(cx))
  }
}
