//! Images: inspect, list, remove.

use hyper::Method;
use serde_json::json;

use super::client::Client;
use super::model::{ImageInspection, ListedImage};
use super::request::encode;
use crate::error::{Result, fail};

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
}

/// Whether a `name:tag` is of this repository.
pub fn is_tag_of(reference: &str, repository: &str) -> bool {
  reference.strip_prefix(repository).is_some_and(|rest| rest.starts_with(':'))
}
