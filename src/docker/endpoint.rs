//! An engine that was found, and how to connect to it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::net::sockopt;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::address::HostPort;
use super::connection::Stream;
use super::tls::{Tls, TlsError};
use crate::error::{Error, Result, fail};
use crate::limits::{ENGINE_CONNECT_TIMEOUT, ENGINE_KEEPALIVE};

/// Where an engine is, and how it is spoken to.
#[derive(Clone)]
pub enum Endpoint {
  /// Over a unix socket.
  Unix(PathBuf),
  /// Over TCP; with TLS unless whoever named it said that there is none.
  Tcp(HostPort, Option<Tls>),
}

impl Endpoint {
  /// A new connection. `DOCKER_UNAVAILABLE` says why there is none, and what to do.
  pub async fn connect(&self) -> Result<Stream> {
    let opening = async {
      match self {
        Self::Unix(path) => {
          UnixStream::connect(path).await.map(Stream::Unix).map_err(|error| no_socket(path, error))
        }
        Self::Tcp(address, tls) => self.connect_tcp(address, tls.as_ref()).await,
      }
    };
    timeout(ENGINE_CONNECT_TIMEOUT, opening).await.unwrap_or_else(|_elapsed| {
      Err(fail!(
        DockerUnavailable,
        "{} did not accept a connection within {} s; is it overloaded, or is something in between that drops it?",
        self.name(),
        ENGINE_CONNECT_TIMEOUT.as_secs()
      ))
    })
  }

  async fn connect_tcp(&self, address: &HostPort, tls: Option<&Tls>) -> Result<Stream> {
    let port = address.port(tls.is_some());
    let connected = TcpStream::connect((address.host.as_str(), port)).await;
    let stream = connected.map_err(|error| no_port(address, port, error))?;
    prepare(&stream).map_err(|error| no_port(address, port, error))?;
    let Some(tls) = tls else { return Ok(Stream::Tcp(stream)) };
    match tls.handshake(&address.host, stream).await {
      Ok(stream) => Ok(Stream::Tls(Box::new(stream))),
      Err(error) => Err(self.tls_error(&error).unwrap_or_else(|| no_port(address, port, error))),
    }
  }

  /// The error of a connection that was there, where TLS is the reason: an engine refuses a client's certificate only after
  /// the client's own part is done.
  pub fn tls_error(&self, error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let Self::Tcp(address, Some(tls)) = self else { return None };
    let found = chain(error).find_map(of_tls)?;
    Some(tls.error(&address.to_string(), &address.host, found))
  }

  /// How messages call it.
  pub fn name(&self) -> String {
    match self {
      Self::Unix(path) => format!("Docker socket {}", path.display()),
      Self::Tcp(address, _) => format!("The Docker engine at {address}"),
    }
  }
}

impl fmt::Debug for Endpoint {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&self.name())
  }
}

/// A small request must not wait for more to come, and a stream that is quiet for hours must not be forgotten in between.
fn prepare(stream: &TcpStream) -> io::Result<()> {
  stream.set_nodelay(true)?;
  sockopt::set_socket_keepalive(stream, true)?;
  sockopt::set_tcp_keepidle(stream, ENGINE_KEEPALIVE)?;
  sockopt::set_tcp_keepintvl(stream, ENGINE_KEEPALIVE)?;
  Ok(())
}

/// Errors, each the cause of the one before.
pub fn chain<'a>(
  error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
  std::iter::successors(Some(error), |error| error.source())
}

/// An I/O error has its cause inside and tells that one's cause as its own.
fn of_tls<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a TlsError> {
  let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
  error.downcast_ref().or_else(|| inside.and_then(|inside| inside.downcast_ref()))
}

/// The error of a socket that could not be opened.
pub fn no_socket(path: &Path, error: io::Error) -> Error {
  let shown = path.display();
  let message = match error.kind() {
    io::ErrorKind::NotFound => format!(
      "Docker socket {shown} does not exist. Start Docker, or pass socketPath with the path of the engine's socket."
    ),
    io::ErrorKind::ConnectionRefused => {
      format!(
        "Docker socket {shown} refuses connections: nothing listens on it. Start the engine, or pass another socketPath."
      )
    }
    io::ErrorKind::PermissionDenied => format!(
      "Docker socket {shown} may not be opened by this user. Run as a member of its group (usually \"docker\"), or pass another socketPath."
    ),
    _ => format!("Docker socket {shown} is not available: {error}."),
  };
  fail!(DockerUnavailable, "{message}").with_source(error)
}

fn no_port(address: &HostPort, port: u16, error: io::Error) -> Error {
  let message = match error.kind() {
    io::ErrorKind::ConnectionRefused => format!(
      "The Docker engine at {address} refuses connections: nothing listens on port {port}. Start it with a --host of that port, or set DOCKER_HOST to another."
    ),
    // What a look-up says has no kind of its own.
    _ if error.raw_os_error().is_none() && error.kind() != io::ErrorKind::UnexpectedEof => {
      format!("The Docker engine at {address} cannot be reached: {error}. Is the name right?")
    }
    _ => format!("The Docker engine at {address} cannot be reached: {error}."),
  };
  fail!(DockerUnavailable, "{message}").with_source(error)
}
