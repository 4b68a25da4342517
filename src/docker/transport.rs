//! Connections to an engine: pooled ones for ordinary requests, one of its own for each hijacked stream.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{Request, Response, body::Incoming};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyperlocal::UnixConnector;
use tokio::sync::OnceCell;
use tower_service::Service;

use super::connection::Stream;
use super::endpoint::{Endpoint, chain, no_socket};
use super::locate::{self, Surroundings};
use crate::error::{Error, Result, fail};

/// A request's body: whole or streamed.
pub type Body = UnsyncBoxBody<Bytes, Error>;

/// An idle connection is closed after this long, before an engine or a forwarder in between does.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// What requests over TCP name as their host, whichever engine they go to.
const AUTHORITY: &str = "http://docker";

/// An engine and the connections to it.
pub struct Transport {
  connector: Connector,
  surroundings: Surroundings,
  /// Connections to a unix socket, which a request's URI names.
  local: HyperClient<UnixConnector, Body>,
  /// All others.
  remote: HyperClient<Connector, Body>,
}

/// Makes connections: all to one engine, whatever a request's URI says.
#[derive(Clone)]
struct Connector {
  /// Empty until the engine is found, where nobody said which.
  engine: Arc<OnceCell<Endpoint>>,
}

impl Transport {
  /// For this engine, or for the one that is meant in these surroundings. Connects when first used.
  pub fn new(engine: Option<Endpoint>, surroundings: Surroundings) -> Self {
    let connector = Connector { engine: Arc::new(OnceCell::new_with(engine)) };
    let mut pool = HyperClient::builder(TokioExecutor::new());
    pool.pool_idle_timeout(POOL_IDLE).pool_timer(TokioTimer::new());
    let (local, remote) = (pool.build(UnixConnector), pool.build(connector.clone()));
    Self { connector, surroundings, local, remote }
  }

  /// Finds the engine, once; where there is none, the next call looks again. Nothing else may be called before.
  pub async fn locate(&self) -> Result<()> {
    self.connector.engine.get_or_try_init(|| locate::find(&self.surroundings)).await.map(drop)
  }

  /// What the process says.
  pub const fn surroundings(&self) -> &Surroundings {
    &self.surroundings
  }

  /// The engine, once it was found.
  pub fn engine(&self) -> Option<&Endpoint> {
    self.connector.engine.get()
  }

  /// The URI of a path on this engine, as its pool wants it.
  pub fn uri(&self, path: &str) -> String {
    match self.engine() {
      Some(Endpoint::Unix(socket)) => hyper::Uri::from(hyperlocal::Uri::new(socket, path)).to_string(),
      _ => format!("{AUTHORITY}{path}"),
    }
  }

  /// Sends a request on a pooled connection; resolves when the reply's head is there.
  pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>> {
    let what = format!("{} {}", request.method(), engine_path(request.uri()));
    let sent = match self.engine() {
      Some(Endpoint::Unix(_)) => self.local.request(request),
      _ => self.remote.request(request),
    };
    sent.await.map_err(|error| self.request_error(&what, error))
  }

  fn request_error(&self, what: &str, error: hyper_util::client::legacy::Error) -> Error {
    let refused = || match self.engine() {
      Some(Endpoint::Unix(socket)) if error.is_connect() => {
        Some(no_socket(socket, chain(&error).find_map(io_error)?))
      }
      _ => None,
    };
    own_error(&error).or_else(refused).unwrap_or_else(|| self.broken_off(what, error))
  }

  /// A connection of its own, for a stream that will never be HTTP again.
  pub async fn connect(&self) -> Result<Stream> {
    self.connector.connect().await
  }

  /// The error where a connection ended before the reply to `what` began.
  pub fn broken_off(&self, what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    self.engine().and_then(|engine| engine.tls_error(&error)).unwrap_or_else(|| {
      fail!(
        DockerApi,
        "The Docker engine broke off {what} before it replied; it may or may not have acted on it."
      )
      .with_source(error)
    })
  }
}

impl Connector {
  async fn connect(&self) -> Result<Stream> {
    match self.engine.get() {
      Some(engine) => engine.connect().await,
      None => Err(fail!(Internal, "A connection was wanted before the engine was looked for.")),
    }
  }
}

impl Service<hyper::Uri> for Connector {
  type Response = TokioIo<Stream>;
  type Error = Error;
  type Future = Pin<Box<dyn Future<Output = Result<Self::Response>> + Send>>;

  fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<()>> {
    Poll::Ready(Ok(()))
  }

  fn call(&mut self, _uri: hyper::Uri) -> Self::Future {
    let connector = self.clone();
    Box::pin(async move { connector.connect().await.map(TokioIo::new) })
  }
}

fn engine_path(uri: &hyper::Uri) -> &str {
  uri.path_and_query().map_or("/", |path| path.as_str())
}

/// An error of ours, which hyper passes through: of a connection, or of a request's body (a caller's stream that failed).
fn own_error(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
  chain(error).find_map(|error| error.downcast_ref::<Error>()).cloned()
}

fn io_error(error: &(dyn std::error::Error + 'static)) -> Option<io::Error> {
  let found = error.downcast_ref::<io::Error>()?;
  let code = found.raw_os_error();
  Some(code.map_or_else(|| io::Error::new(found.kind(), found.to_string()), io::Error::from_raw_os_error))
}
