//! Images: inspect, list, remove.

use hyper::Method;
use serde_json::json;

use super::client::Client;
use super::dialect::Dialect;
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
    let mut listed: Vec<ListedImage> = self.json(Method::GET, &path, None).await?;
    for tag in listed.iter_mut().flat_map(|image| &mut image.repo_tags) {
      // Podman lists by its whole name what was asked for by the one that Docker knows it by.
      if let Some(short) = tag.strip_prefix("docker.io/") {
        *tag = short.to_owned();
      }
    }
    // Checked again: an engine that ignored the filter would hand us everybody's.
    let is_of = |image: &ListedImage| image.repo_tags.iter().any(|tag| is_tag_of(tag, repository));
    Ok(listed.into_iter().filter(is_of).collect())
  }

  pub(super) async fn delete_image(&self, id: &str) -> Result<()> {
    if id.is_empty() {
      return Err(fail!(NotFound, "An image without a name was to be removed."));
    }
    // Docker spares containers that run of it all the same; Podman would remove those, whoever made them.
    let force = self.dialect().await? == Dialect::Docker;
    self.expect(Method::DELETE, &format!("/images/{}?force={force}", encode(id)), None).await.map(drop)
  }
}

/// Whether a `name:tag` is of this repository.
pub fn is_tag_of(reference: &str, repository: &str) -> bool {
  reference.strip_prefix(repository).is_some_and(|rest| rest.starts_with(':'))
}
