//! Fetching an image from its registry.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::HeaderValue;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::client::Client;
use super::credentials::{self, Credentials};
use super::progress::{Layers, Progress};
use super::reference::{Reference, Registry};
use super::request::{encode, engine_message};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::stream::json_lines::JsonLines;

/// An engine reports progress several times a second while it fetches and unpacks. It is silent while another pull has
/// the same layer, and while a slow registry starts to answer.
const PULL_SILENCE: Duration = Duration::from_secs(300);
/// Progress is told this often at most.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// The header that a registry's credentials come in.
const CREDENTIALS: &str = "x-registry-auth";

/// Who is told how far a pull is: a few times a second, and at its end where anything came.
pub type Told<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// A pull, for its messages.
struct Pull<'a> {
  image: &'a str,
  registry: Registry<'a>,
  /// Why there are no credentials where there should be.
  unreadable: Option<String>,
}

impl Client {
  /// Pulls and waits for the end. An engine reports failures of a pull inside a successful reply.
  pub(super) async fn pull(&self, image: &str, told: Told<'_>, cancel: &Cancel) -> Result<()> {
    cancel.guard(&format!("Pulling image {image}"), self.pull_to_end(image, told)).await
  }

  async fn pull_to_end(&self, image: &str, told: Told<'_>) -> Result<()> {
    let reference = Reference::read(image);
    let path =
      format!("/images/create?fromImage={}&tag={}", encode(reference.name), encode(reference.wanted()));
    let mut pull = Pull { image, registry: reference.registry(), unreadable: None };
    let version = self.version().await?;
    let mut request = self.request(Method::POST, &format!("/v{version}{path}"), None)?;
    match credentials::find(self.transport().surroundings(), pull.registry).await {
      Credentials::None => {}
      Credentials::Unreadable(why) => pull.unreadable = Some(why),
      Credentials::Header(text) => {
        let mut value = HeaderValue::try_from(text)
          .map_err(|error| fail!(Internal, "Credentials are no header.").with_source(error))?;
        value.set_sensitive(true);
        request.headers_mut().insert(CREDENTIALS, value);
      }
    }
    let opening = self.open(&Method::POST, &path, request);
    let reply = timeout(PULL_SILENCE, opening).await.unwrap_or_else(|_elapsed| Err(pull.silent()));
    let reply = reply.map_err(|error| pull.not_pulled(error))?;
    let (mut body, mut lines) = (reply.into_body(), JsonLines::default());
    let (mut layers, mut last) = (Layers::default(), None);
    while let Some(frame) = timeout(PULL_SILENCE, body.frame()).await.map_err(|_elapsed| pull.silent())? {
      let frame = frame.map_err(|error| {
        fail!(DockerApi, "The Docker engine broke off the pull of image {image}.").with_source(error)
      })?;
      let Ok(data) = frame.into_data() else { continue };
      let mut came = false;
      for said in lines.push(&data)? {
        pull.refusal(&said)?;
        came |= layers.take(&said);
      }
      if came && last.is_none_or(|last: Instant| last.elapsed() >= TELL_EVERY) {
        last = Some(Instant::now());
        told(layers.sum());
      }
    }
    lines.finish()?;
    if last.is_some() {
      told(layers.sum());
    }
    Ok(())
  }
}

impl Pull<'_> {
  fn refusal(&self, said: &Value) -> Result<()> {
    let Some(error) = said.get("error") else { return Ok(()) };
    let message = engine_message(error.as_str().unwrap_or("the engine gave no reason").as_bytes());
    Err(self.missing(&message))
  }

  fn not_pulled(&self, error: Error) -> Error {
    match error.code() {
      ErrorCode::DockerUnavailable | ErrorCode::Cancelled => error,
      _ => self.missing(error.message()),
    }
  }

  fn silent(&self) -> Error {
    fail!(
      DockerApi,
      "The Docker engine said nothing of the pull of image {} for {} s; it was given up.",
      self.image,
      PULL_SILENCE.as_secs()
    )
  }

  fn missing(&self, why: &str) -> Error {
    let Self { image, registry, unreadable } = self;
    let mut message = format!("Image {image} could not be pulled: {why}.");
    if let Some(why) = unreadable {
      message.push_str(&format!(" There were no credentials for {}: {why}.", registry.address()));
    } else if is_of_credentials(why) {
      let host = match registry {
        Registry::Hub => String::new(),
        Registry::Host(host) => format!(" {host}"),
      };
      message.push_str(&format!(" If the registry wants to know who asks, log in (docker login{host})."));
    }
    fail!(ImageMissing, "{message} Pull or build it yourself, or pass another image.")
  }
}

/// Registries and engines word it in many ways.
fn is_of_credentials(why: &str) -> bool {
  let why = why.to_ascii_lowercase();
  ["unauthorized", "denied", "authentication", "no basic auth", "docker login"]
    .iter()
    .any(|word| why.contains(word))
}
