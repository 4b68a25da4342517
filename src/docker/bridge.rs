//! A TLS stream as a local socket.
//!
//! Hijacked streams are written by whoever has something to say, without waiting, and read by somebody else; a TLS session
//! is one thing with one state, whose writes need to be driven on after they were taken. So a task carries the bytes
//! between it and a pair of local sockets, and the near one is used as any other. It costs a copy each way, beside
//! encrypting and a network.
//!
//! Either direction may end before the other: the end of the near socket becomes `close_notify` and a TCP `FIN`, as Docker's
//! own client ends a command's input, and the engine's `close_notify` becomes the end of the near socket. An engine that
//! goes without one was cut off (RFC 8446, section 6.1): that is an error to the reader, never the end of the data.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, copy, split};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// When nobody uses the near socket any more, what was written to it has this long to go out.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Why a stream was cut, where it was.
type Fault = OnceLock<(io::ErrorKind, String)>;

/// What keeps a stream's task at work; the task ends with it.
pub struct Bridge {
  fault: Arc<Fault>,
  _in_use: DropGuard,
}

impl Bridge {
  /// Why the far end was cut, where it did not come to its end.
  pub fn fault(&self) -> Option<io::Error> {
    self.fault.get().map(|(kind, text)| io::Error::new(*kind, text.clone()))
  }
}

/// Carries a TLS stream; the near socket, to be used in its place while the [`Bridge`] is held.
pub fn build(far: TlsStream<TcpStream>) -> io::Result<(UnixStream, Bridge)> {
  let (near, other) = UnixStream::pair()?;
  let (left, fault) = (CancellationToken::new(), Arc::<Fault>::default());
  tokio::spawn(carry(far, other, left.clone(), Arc::clone(&fault)));
  Ok((near, Bridge { fault, _in_use: left.drop_guard() }))
}

async fn carry(far: TlsStream<TcpStream>, near: UnixStream, left: CancellationToken, fault: Arc<Fault>) {
  let (mut far_read, mut far_write) = split(far);
  let (mut near_read, mut near_write) = near.into_split();
  let out = async {
    // An engine that takes no more is told by what it says, or by its end.
    let _ended = copy(&mut near_read, &mut far_write).await;
    let _told = far_write.shutdown().await;
  };
  let into = async {
    if let Err(error) = copy(&mut far_read, &mut near_write).await {
      // Before the near socket closes, or its reader would miss it.
      let _first = fault.set((error.kind(), error.to_string()));
    }
  };
  tokio::pin!(out, into);
  let mut is_out = false;
  loop {
    tokio::select! {
      () = &mut into => return,
      () = &mut out, if !is_out => is_out = true,
      () = left.cancelled() => break,
    }
  }
  if !is_out {
    let _late = timeout(LAST_WORDS, out).await;
  }
}
