//! Images: inspect, pull, remove.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::client::Client;
use super::model::{ImageInspection, ListedImage};
use super::request::{encode, engine_message};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::stream::json_lines::JsonLines;

/// An engine reports progress several times a second while it fetches and unpacks. It is silent while another pull has
/// the same layer, and while a slow registry starts to answer.
const PULL_SILENCE: Duration = Duration::from_secs(300);

impl Client {
  pub(super) async fn image(&self, image: &str) -> Result<ImageInspection> {
    if image.is_empty() {
      return Err(fail!(NotFound, "An image without a name was asked for."));
    }
    self.json(Method::GET, &format!("/images/{}/json", encode(image)), None).await
  }

  pub(super) async fn images(&self, repository: &str) -> Result<Vec<ListedImage>> {
    let filters = json!({ "reference": [repository] }).to_string();
    let path = format!("/images/json?filters={}", encode(&filters));
    let listed: Vec<ListedImage> = self.json(Method::GET, &path, None).await?;
    // Checked again: an engine that ignored the filter would hand us everybody's.
    let is_of = |image: &ListedImage| image.repo_tags.iter().any(|tag| is_tag_of(tag, repository));
    Ok(listed.into_iter().filter(is_of).collect())
  }

  pub(super) async fn delete_image(&self, id: &str) -> Result<()> {
    if id.is_empty() {
      return Err(fail!(NotFound, "An image without a name was to be removed."));
    }
    self.expect(Method::DELETE, &format!("/images/{}?force=true", encode(id)), None).await.map(drop)
  }

  /// Pulls and waits for the end. An engine reports failures of a pull inside a successful reply.
  pub(super) async fn pull(&self, image: &str, cancel: &Cancel) -> Result<()> {
    cancel.guard(&format!("Pulling image {image}"), self.pull_to_end(image)).await
  }

  async fn pull_to_end(&self, image: &str) -> Result<()> {
    let (name, tag) = name_and_tag(image);
    let path = format!("/images/create?fromImage={}&tag={}", encode(name), encode(tag));
    let version = self.version().await?;
    let request = self.request(Method::POST, &format!("/v{version}{path}"), None)?;
    let opening = self.open(&Method::POST, &path, request);
    let reply = timeout(PULL_SILENCE, opening).await.unwrap_or_else(|_elapsed| Err(silent(image)));
    let reply = reply.map_err(|error| not_pulled(image, error))?;
    let (mut body, mut lines) = (reply.into_body(), JsonLines::default());
    while let Some(frame) = timeout(PULL_SILENCE, body.frame()).await.map_err(|_elapsed| silent(image))? {
      let frame = frame.map_err(|error| {
        fail!(DockerApi, "The Docker engine broke off the pull of image {image}.").with_source(error)
      })?;
      let Ok(data) = frame.into_data() else { continue };
      for progress in lines.push(&data)? {
        refusal(image, &progress)?;
      }
    }
    lines.finish()
  }
}

/// Whether a `name:tag` is of this repository.
pub fn is_tag_of(reference: &str, repository: &str) -> bool {
  reference.strip_prefix(repository).is_some_and(|rest| rest.starts_with(':'))
}

/// Name and tag of a reference; a digest takes the tag's place (Engine API, `POST /images/create`).
fn name_and_tag(image: &str) -> (&str, &str) {
  if let Some((name, digest)) = image.split_once('@') {
    return (name, digest);
  }
  match image.rsplit_once(':') {
    // A colon before a slash parts host and port.
    Some((name, tag)) if !tag.contains('/') => (name, tag),
    _ => (image, "latest"),
  }
}

fn refusal(image: &str, progress: &Value) -> Result<()> {
  match progress.get("error") {
    None => Ok(()),
    Some(error) => {
      let message = engine_message(error.as_str().unwrap_or("the engine gave no reason").as_bytes());
      Err(missing(image, &message))
    }
  }
}

fn not_pulled(image: &str, error: Error) -> Error {
  match error.code() {
    ErrorCode::DockerUnavailable | ErrorCode::Cancelled => error,
    _ => missing(image, error.message()),
  }
}

fn silent(image: &str) -> Error {
  fail!(
    DockerApi,
    "The Docker engine said nothing of the pull of image {image} for {} s; it was given up.",
    PULL_SILENCE.as_secs()
  )
}

fn missing(image: &str, why: &str) -> Error {
  fail!(
    ImageMissing,
    "Image {image} could not be pulled: {why}. Pull or build it yourself, or pass another image."
  )
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn references_come_apart() {
    assert_eq!(name_and_tag("alpine"), ("alpine", "latest"));
    assert_eq!(name_and_tag("alpine:3.21"), ("alpine", "3.21"));
    assert_eq!(name_and_tag("localhost:5000/a/b"), ("localhost:5000/a/b", "latest"));
    assert_eq!(name_and_tag("localhost:5000/a/b:t"), ("localhost:5000/a/b", "t"));
    assert_eq!(name_and_tag("a@sha256:00"), ("a", "sha256:00"));
  }
}
