//! How a container ended. One that is removed when it ends (`AutoRemove`) cannot be asked afterwards, so the question is
//! put before: `POST /containers/{id}/wait` answers its head at once and its body at the end.

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, Response};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::client::Client;
use super::request::{encode, segment};
use crate::error::{Result, fail};
use crate::limits::{ENGINE_REQUEST_TIMEOUT, MAX_REPLY_BYTES};
use crate::stream::json_lines::JsonLines;

/// A question that is answered when the container is gone.
pub struct Ending(Response<Incoming>);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Waited {
  status_code: i64,
}

impl Ending {
  /// Waits until the container is removed; the exit code of its process 1, `None` where the engine does not tell.
  pub async fn code(self) -> Option<i64> {
    let body = Limited::new(self.0.into_body(), MAX_REPLY_BYTES).collect().await.ok()?.to_bytes();
    serde_json::from_slice::<Waited>(&body).ok().map(|waited| waited.status_code)
  }
}

impl Client {
  /// Asks how a container will end. Resolves when the engine has the question: ask before the start, or an end that
  /// comes at once is missed.
  pub async fn ending(&self, id: &str) -> Result<Ending> {
    let path = format!("/containers/{}/wait?condition=removed", segment(id)?);
    let asked = async {
      let version = self.version().await?;
      let request = self.request(Method::POST, &format!("/v{version}{path}"), None)?;
      self.open(&Method::POST, &path, request).await.map(Ending)
    };
    timeout(ENGINE_REQUEST_TIMEOUT, asked).await.unwrap_or_else(|_elapsed| {
      let seconds = ENGINE_REQUEST_TIMEOUT.as_secs();
      Err(fail!(DockerApi, "The Docker engine did not answer POST {path} within {seconds} s."))
    })
  }

  /// Whether the kernel killed something of the container for memory between two times, in seconds since 1970. From the
  /// engine's memory of its last events, so a busy engine may have forgotten.
  pub async fn ran_out_of_memory(&self, id: &str, since: u64, until: u64) -> Result<bool> {
    let filters = json!({ "container": [id], "event": ["oom"] }).to_string();
    let path = format!("/events?since={since}&until={until}&filters={}", encode(&filters));
    let body = self.expect(Method::GET, &path, None).await?;
    let mut lines = JsonLines::default();
    let events = lines.push(&body)?;
    lines.finish()?;
    let about_it = |event: &serde_json::Value| {
      let status = event.get("status").or_else(|| event.get("Action")).and_then(|value| value.as_str());
      let of = event.get("id").or_else(|| event.pointer("/Actor/ID")).and_then(|value| value.as_str());
      status == Some("oom") && of == Some(id)
    };
    Ok(events.iter().any(about_it))
  }
}
