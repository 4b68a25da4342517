//! Connections to an engine: pooled ones for ordinary requests, one of its own for each hijacked stream.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{Request, Response, body::Incoming};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyperlocal::UnixConnector;
use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::client::DEFAULT_SOCKET;
use super::locate::{self, Surroundings};
use crate::error::{Error, Result, fail};
use crate::limits::ENGINE_CONNECT_TIMEOUT;

/// A request's body: whole or streamed.
pub type Body = UnsyncBoxBody<Bytes, Error>;

/// An idle connection is closed after this long, before an engine or a forwarder in between does.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// Where an engine listens.
pub struct Transport {
  /// Empty until the engine is found, where nobody said which.
  socket: OnceCell<PathBuf>,
  surroundings: Surroundings,
  pool: HyperClient<UnixConnector, Body>,
}

impl Transport {
  /// For the engine behind this unix socket, or for the one that is meant in these surroundings. Connects when first used.
  pub fn new(socket: Option<PathBuf>, surroundings: Surroundings) -> Self {
    let pool = HyperClient::builder(TokioExecutor::new())
      .pool_idle_timeout(POOL_IDLE)
      .pool_timer(TokioTimer::new())
      .build(UnixConnector);
    Self { socket: OnceCell::new_with(socket), surroundings, pool }
  }

  /// Finds the engine, once; where there is none, the next call looks again. Nothing else may be called before.
  pub async fn locate(&self) -> Result<()> {
    self.socket.get_or_try_init(|| locate::find(&self.surroundings)).await.map(drop)
  }

  fn socket(&self) -> &Path {
    self.socket.get().map_or(Path::new(DEFAULT_SOCKET), PathBuf::as_path)
  }

  /// The URI of a path on this engine, as the connector wants it.
  pub fn uri(&self, path: &str) -> hyper::Uri {
    hyperlocal::Uri::new(self.socket(), path).into()
  }

  /// Sends a request on a pooled connection; resolves when the reply's head is there.
  pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>> {
    let what = format!("{} {}", request.method(), engine_path(request.uri()));
    self.pool.request(request).await.map_err(|error| self.request_error(&what, error))
  }

  /// A connection of its own, for a stream that will never be HTTP again.
  pub async fn connect(&self) -> Result<UnixStream> {
    match timeout(ENGINE_CONNECT_TIMEOUT, UnixStream::connect(self.socket())).await {
      Ok(Ok(stream)) => Ok(stream),
      Ok(Err(error)) => Err(unavailable(self.socket(), error)),
      Err(_elapsed) => Err(fail!(
        DockerUnavailable,
        "Docker socket {} did not accept a connection within {} s; is the engine overloaded?",
        self.socket().display(),
        ENGINE_CONNECT_TIMEOUT.as_secs()
      )),
    }
  }

  fn request_error(&self, what: &str, error: hyper_util::client::legacy::Error) -> Error {
    match (error.is_connect(), io_error(&error)) {
      (true, Some(io)) => unavailable(self.socket(), io),
      (true, None) => {
        fail!(DockerUnavailable, "Docker socket {} is not available: {error}.", self.socket().display())
      }
      (false, _) => own_error(&error).unwrap_or_else(|| {
        fail!(
          DockerApi,
          "The Docker engine broke off {what} before it replied; it may or may not have acted on it."
        )
        .with_source(error)
      }),
    }
  }
}

fn engine_path(uri: &hyper::Uri) -> &str {
  uri.path_and_query().map_or("/", |path| path.as_str())
}

fn chain<'a>(
  error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
  std::iter::successors(Some(error), |error| error.source())
}

fn io_error(error: &(dyn std::error::Error + 'static)) -> Option<io::Error> {
  let found = chain(error).find_map(|error| error.downcast_ref::<io::Error>())?;
  Some(
    found
      .raw_os_error()
      .map_or_else(|| io::Error::new(found.kind(), found.to_string()), io::Error::from_raw_os_error),
  )
}

/// The error of a request body of ours (a caller's stream that failed), which hyper passes through.
fn own_error(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
  chain(error).find_map(|error| error.downcast_ref::<Error>()).cloned()
}

fn unavailable(socket: &Path, error: io::Error) -> Error {
  let shown = socket.display();
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
