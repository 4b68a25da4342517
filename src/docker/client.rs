//! The client of a real engine.

use std::path::PathBuf;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::{HeaderMap, Method, StatusCode, header};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::dialect::Dialect;
use super::endpoint::Endpoint;
use super::locate::Surroundings;
use super::time::seconds_of_date;
use super::transport::Transport;
use super::version::ApiVersion;
use crate::error::{Error, Result, fail, shown};
use crate::limits::{ENGINE_REQUEST_TIMEOUT, MAX_PATH_BYTES, MAX_REPLY_BYTES};

/// Where the machine's own engine listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// A Docker engine behind a unix socket or a TCP port. Cheap to clone; methods may be called at the same time.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
  transport: Transport,
  version: OnceCell<ApiVersion>,
  dialect: OnceCell<Dialect>,
}

impl Client {
  /// A client of the engine behind `socket`, or of the one that [`super::locate`] finds at the first call. The version is
  /// negotiated then too, unless one is given (`1.41` or `v1.41`). Connects to nothing yet.
  pub fn new(socket: Option<PathBuf>, api_version: Option<&str>) -> Result<Self> {
    Self::in_surroundings(socket, api_version, Surroundings::default())
  }

  /// As [`Self::new`], with what the process says of engines.
  pub fn in_surroundings(
    socket: Option<PathBuf>,
    api_version: Option<&str>,
    surroundings: Surroundings,
  ) -> Result<Self> {
    let version = match api_version {
      None => OnceCell::new(),
      Some(text) => OnceCell::new_with(Some(ApiVersion::parse(text).ok_or_else(|| {
        fail!(
          ConfigInvalid,
          "apiVersion was {:?}; it may be a version such as \"1.41\" or \"v1.41\".",
          shown(text)
        )
      })?)),
    };
    let length = socket.as_ref().map_or(1, |socket| socket.as_os_str().len());
    if length == 0 {
      return Err(fail!(
        ConfigInvalid,
        "socketPath was empty; it may be the path of a Docker engine's unix socket."
      ));
    }
    if length > MAX_PATH_BYTES {
      return Err(fail!(
        ConfigInvalid,
        "socketPath has {length} bytes; no path has more than {MAX_PATH_BYTES}."
      ));
    }
    let transport = Transport::new(socket.map(Endpoint::Unix), surroundings);
    Ok(Self(Arc::new(Inner { transport, version, dialect: OnceCell::new() })))
  }

  pub(super) fn transport(&self) -> &Transport {
    &self.0.transport
  }

  /// The version in use. The first calls, however many, share one negotiation.
  pub(super) async fn version(&self) -> Result<ApiVersion> {
    self.transport().locate().await?;
    self.0.version.get_or_try_init(|| self.negotiate()).await.copied()
  }

  /// Whose API it is. The negotiation tells, so that it costs a call only where a version was given.
  pub(super) async fn dialect(&self) -> Result<Dialect> {
    self.version().await?;
    self.0.dialect.get_or_try_init(|| async { Ok(Dialect::of(&self.ping().await?)) }).await.copied()
  }

  /// The time of day by the engine's clock, in seconds since 1970: its own replies say it. `None` where this one does not.
  pub(super) async fn clock(&self) -> Result<Option<i64>> {
    let ping = async {
      self.version().await?;
      self.ping().await
    };
    let Ok(headers) = timeout(ENGINE_REQUEST_TIMEOUT, ping).await else {
      return Err(fail!(DockerUnavailable, "The Docker engine did not answer GET /_ping in time."));
    };
    Ok(headers?.get(header::DATE).and_then(|date| seconds_of_date(date.to_str().ok()?)))
  }

  /// `/_ping` says the newest version in a header; where it does not, `/version` says it in its body.
  async fn negotiate(&self) -> Result<ApiVersion> {
    let headers = self.ping().await?;
    // Whoever was first has said the same.
    let _ = self.0.dialect.set(Dialect::of(&headers));
    let header = headers.get("api-version").and_then(|value| value.to_str().ok());
    let newest = match header.and_then(ApiVersion::parse) {
      Some(version) => version,
      None => self.version_of_body().await?,
    };
    ApiVersion::negotiate(newest)
  }

  async fn ping(&self) -> Result<HeaderMap> {
    let ping = self.transport().send(self.request(Method::GET, "/_ping", None)?).await?;
    let (status, headers) = (ping.status(), ping.headers().clone());
    // Read to the end, so that the connection can serve the next request.
    let body = http_body_util::Limited::new(ping.into_body(), MAX_REPLY_BYTES).collect().await;
    if status == StatusCode::BAD_REQUEST && body.is_ok_and(|body| wants_tls(&body.to_bytes())) {
      return Err(self.without_tls());
    }
    Ok(headers)
  }

  fn without_tls(&self) -> Error {
    let engine = self.transport().engine().map(Endpoint::name).unwrap_or_default();
    fail!(
      DockerUnavailable,
      "{engine} speaks TLS on this port, and was spoken to without. Set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder with ca.pem, cert.pem and key.pem."
    )
  }

  async fn version_of_body(&self) -> Result<ApiVersion> {
    let request = self.request(Method::GET, "/version", None)?;
    let reply = self.open(&Method::GET, "/version", request).await?;
    let body = http_body_util::Limited::new(reply.into_body(), MAX_REPLY_BYTES).collect().await;
    let json = body.ok().and_then(|body| serde_json::from_slice::<serde_json::Value>(&body.to_bytes()).ok());
    let text = json.as_ref().and_then(|json| json.get("ApiVersion")).and_then(|version| version.as_str());
    text.and_then(ApiVersion::parse).ok_or_else(|| {
      fail!(DockerApi, "Docker API GET /version named no API version; is this the socket of a Docker engine?")
    })
  }
}

/// Go's server says this to whoever speaks HTTP where TLS is spoken.
fn wants_tls(body: &[u8]) -> bool {
  String::from_utf8_lossy(body).contains("HTTP request to an HTTPS server")
}
