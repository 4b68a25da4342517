//! Local volumes: made with labels and no options, told exactly, filled through a container that never starts.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::client::Client;
use super::request::{api_error, encode, segment};
use crate::error::{Result, fail};

/// What an engine says of a volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase", default)]
pub struct Volume {
  /// Its name.
  pub name: String,
  /// `local` for all that we make.
  pub driver: String,
  /// Driver options; a local volume with any may be a bind mount in disguise.
  pub options: Option<BTreeMap<String, String>>,
  /// Its labels.
  pub labels: Option<BTreeMap<String, String>>,
  /// When it was made, in the engine's words: another volume of the same name has another time.
  pub created_at: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Volumes {
  volumes: Option<Vec<Volume>>,
}

impl Client {
  /// Makes a local volume, or finds the one of that name, whoever made it: check what is returned.
  pub async fn create_volume(&self, name: &str, labels: &BTreeMap<String, String>) -> Result<Volume> {
    let body = json!({ "Name": name, "Driver": "local", "Labels": labels });
    self.json(Method::POST, "/volumes/create", Some(&body)).await
  }

  /// What the engine says of a volume; `NOT_FOUND` where there is none.
  pub async fn inspect_volume(&self, name: &str) -> Result<Volume> {
    self.json(Method::GET, &format!("/volumes/{}", segment(name)?), None).await
  }

  /// Removes a volume that no container has, running or not; `CONFLICT` where one has it.
  pub async fn remove_volume(&self, name: &str) -> Result<()> {
    let path = format!("/volumes/{}", segment(name)?);
    let reply = self.call(Method::DELETE, &path, None).await?;
    match reply.status {
      status if status.is_success() => Ok(()),
      StatusCode::CONFLICT => Err(fail!(Conflict, "Volume {name} is in use.")),
      _ => Err(api_error(&Method::DELETE, &path, &reply)),
    }
  }

  /// Volumes with this label (`name` or `name=value`), checked again on our side.
  pub async fn list_volumes(&self, label: &str) -> Result<Vec<Volume>> {
    let filters = json!({ "label": [label] }).to_string();
    let found: Volumes =
      self.json(Method::GET, &format!("/volumes?filters={}", encode(&filters)), None).await?;
    let volumes = found.volumes.unwrap_or_default();
    let ours = |volume: &Volume| {
      volume.labels.as_ref().is_some_and(|labels| super::container::has_label(labels, label))
    };
    Ok(volumes.into_iter().filter(ours).collect())
  }
}
