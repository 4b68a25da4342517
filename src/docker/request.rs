//! One request and its reply: versioned path, bounded body, the engine's errors as ours.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HttpBody, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::client::Client;
use super::transport::Body;
use crate::error::{Error, ErrorCode, Result, fail, shown};
use crate::limits::{
  ENGINE_REQUEST_TIMEOUT, MAX_ENGINE_MESSAGE_CHARS, MAX_ERROR_BODY_BYTES, MAX_REPLY_BYTES,
  MAX_REQUEST_PATH_BYTES,
};

/// All but the unreserved characters of RFC 3986, section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value as one segment of a path, or as the value of a query.
pub fn encode(value: &str) -> impl std::fmt::Display + '_ {
  utf8_percent_encode(value, RESERVED)
}

/// An id or name as one segment of a path: never empty and never a dot segment, which would name another resource.
pub fn segment(id: &str) -> Result<String> {
  if id.is_empty() || id == "." || id == ".." || id.contains('\0') {
    return Err(fail!(NotFound, "{:?} is not an id or name of anything on a Docker engine.", shown(id)));
  }
  Ok(encode(id).to_string())
}

/// A whole body.
pub fn full(bytes: impl Into<Bytes>) -> Body {
  Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A reply whose body was read.
pub struct Reply {
  /// The status.
  pub status: StatusCode,
  /// The body, bounded.
  pub body: Bytes,
}

impl Reply {
  /// The status that Docker would have given. Podman has 500 for much that Docker has a status for, and says in `cause`
  /// which of its errors it was (`libpod/define/errors.go`, `storage/errors.go`).
  pub fn meaning(&self) -> StatusCode {
    if self.status != StatusCode::INTERNAL_SERVER_ERROR {
      return self.status;
    }
    let json = serde_json::from_slice::<serde_json::Value>(&self.body).ok();
    match json.as_ref().and_then(|json| json.get("cause")?.as_str()) {
      Some("no such container" | "no such exec session" | "no such volume" | "network not found") => {
        StatusCode::NOT_FOUND
      }
      Some("that name is already in use" | "container already exists" | "container state improper") => {
        StatusCode::CONFLICT
      }
      _ => self.status,
    }
  }
}

impl Client {
  /// Sends JSON or nothing, reads the reply whole. `path` begins behind the version.
  pub(super) async fn call(
    &self,
    method: Method,
    path: &str,
    body: Option<&serde_json::Value>,
  ) -> Result<Reply> {
    self.call_within(method, path, body, ENGINE_REQUEST_TIMEOUT).await
  }

  pub(super) async fn call_within(
    &self,
    method: Method,
    path: &str,
    body: Option<&serde_json::Value>,
    limit: Duration,
  ) -> Result<Reply> {
    let what = format!("{method} {path}");
    let exchange = async {
      let version = self.version().await?;
      let request = self.request(method, &format!("/v{version}{path}"), body)?;
      let response = self.transport().send(request).await?;
      let status = response.status();
      let cap = if status.is_success() { MAX_REPLY_BYTES } else { MAX_ERROR_BODY_BYTES };
      Ok(Reply { status, body: read_body(response.into_body(), cap, status.is_success(), &what).await? })
    };
    match timeout(limit, exchange).await {
      Ok(reply) => reply,
      Err(_elapsed) => Err(fail!(
        DockerApi,
        "The Docker engine did not answer {what} within {} s; it may or may not have acted on it.",
        limit.as_secs()
      )),
    }
  }

  /// A call that must succeed; the reply's body.
  pub(super) async fn expect(
    &self,
    method: Method,
    path: &str,
    body: Option<&serde_json::Value>,
  ) -> Result<Bytes> {
    let reply = self.call(method.clone(), path, body).await?;
    if reply.status.is_success() { Ok(reply.body) } else { Err(api_error(&method, path, &reply)) }
  }

  /// A call that must succeed with JSON.
  pub(super) async fn json<T: DeserializeOwned>(
    &self,
    method: Method,
    path: &str,
    body: Option<&serde_json::Value>,
  ) -> Result<T> {
    let bytes = self.expect(method.clone(), path, body).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
      fail!(DockerApi, "The Docker engine answered {method} {path} with JSON that is not as documented.")
        .with_source(error)
    })
  }

  /// A request with a JSON body or none.
  pub(super) fn request(
    &self,
    method: Method,
    path: &str,
    body: Option<&serde_json::Value>,
  ) -> Result<Request<Body>> {
    if path.len() > MAX_REQUEST_PATH_BYTES {
      return Err(fail!(
        ConfigInvalid,
        "{method} {} … is a request of {} bytes; at most {MAX_REQUEST_PATH_BYTES} are possible. Pass a shorter id, name or label.",
        shown(path),
        path.len()
      ));
    }
    let builder =
      Request::builder().method(method).uri(self.transport().uri(path)).header(header::HOST, "docker");
    let request = match body {
      Some(json) => builder.header(header::CONTENT_TYPE, "application/json").body(full(json.to_string())),
      None => builder.body(full(Bytes::new())),
    };
    request.map_err(|error| fail!(Internal, "A request for {path} could not be made.").with_source(error))
  }

  /// Sends a request whose reply is read piece by piece; an error status is read and returned as the error.
  pub(super) async fn open(
    &self,
    method: &Method,
    path: &str,
    request: Request<Body>,
  ) -> Result<Response<Incoming>> {
    let response = self.transport().send(request).await?;
    let status = response.status();
    if status.is_success() {
      return Ok(response);
    }
    let what = format!("{method} {path}");
    let body = read_body(response.into_body(), MAX_ERROR_BODY_BYTES, false, &what).await?;
    Err(api_error(method, path, &Reply { status, body }))
  }
}

/// Reads a body up to `cap`; past it or where it is cut, an error where all of it is needed
/// (`strict`), else what was read.
async fn read_body(mut body: Incoming, cap: usize, strict: bool, what: &str) -> Result<Bytes> {
  let hint = usize::try_from(body.size_hint().lower()).unwrap_or(0);
  let mut read = BytesMut::with_capacity(hint.min(64 * 1024));
  while let Some(frame) = body.frame().await {
    let frame = match frame {
      Ok(frame) => frame,
      Err(_cut) if !strict => break,
      Err(error) => {
        let message = "The Docker engine broke off its reply to";
        return Err(fail!(DockerApi, "{message} {what} half way.").with_source(error));
      }
    };
    let Ok(data) = frame.into_data() else { continue };
    let (kept, over) = data.split_at(data.len().min(cap - read.len()));
    if strict && !over.is_empty() {
      return Err(fail!(Limit, "The Docker engine's reply to {what} is longer than {cap} bytes."));
    }
    read.extend_from_slice(kept);
    if !over.is_empty() {
      break;
    }
  }
  Ok(read.freeze())
}

/// What an engine's error says: `{"message": …}`, or the text itself, bounded.
pub fn engine_message(body: &[u8]) -> String {
  let text = match serde_json::from_slice::<serde_json::Value>(body) {
    Ok(json) => json.get("message").and_then(|message| message.as_str()).unwrap_or_default().to_owned(),
    Err(_not_json) => String::from_utf8_lossy(body).into_owned(),
  };
  let text = text.trim();
  match text.char_indices().nth(MAX_ENGINE_MESSAGE_CHARS) {
    None => text.to_owned(),
    Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
  }
}

/// The error of a reply: 404 is `NOT_FOUND`, all others are `DOCKER_API`; message, method, path and status are kept.
pub fn api_error(method: &Method, path: &str, reply: &Reply) -> Error {
  let code =
    if reply.meaning() == StatusCode::NOT_FOUND { ErrorCode::NotFound } else { ErrorCode::DockerApi };
  let message = engine_message(&reply.body);
  let message = if message.is_empty() { "the engine gave no reason" } else { &message };
  Error::new(
    code,
    format!("Docker API {method} {} returned {}: {message}", shown(path), reply.status.as_u16()),
  )
}
