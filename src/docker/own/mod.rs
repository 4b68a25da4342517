//! A client that the application wrote, as an [`Engine`]. It has the methods of the public `DockerClient` and perhaps a
//! few more; what it answers is checked, and what it need not do is done here.

mod answers;
mod exec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use self::answers::{Created, MadeNetwork, parsed, rubbish};
use super::container::has_label;
use super::engine::{ArchiveBody, ByteStream, Engine, EngineKind, ExecOutput, ExecRequest};
use super::model::{ContainerSpec, EngineInfo, ImageInspection, Inspection, ListedContainer, Network};
use super::pull::Told;
use super::time::seconds_of;
use crate::cancel::Cancel;
use crate::clock::now_seconds;
use crate::error::{Result, fail};
use crate::limits::MAX_ARCHIVE_BYTES;

/// On every container that we make. A client that tells no labels with an inspection is asked for those that have it.
const OUR_LABEL: &str = "zhivex.sandbox";

/// The methods that `DockerClient` leaves out, and that are asked for where the client has them.
pub const OPTIONAL_METHODS: [&str; 3] = ["info", "inspectImage", "pullImage"];

/// What a command of the application's client did.
pub struct ExecAnswer {
  /// `{ exitCode, truncated, timedOut }`.
  pub facts: Value,
  /// Standard output.
  pub stdout: Bytes,
  /// Standard error.
  pub stderr: Bytes,
}

/// The calls of the application's client. Each ends, whatever the application does: a deadline is the implementation's.
#[async_trait]
pub trait OwnClient: Send + Sync {
  /// It says of itself that it is a double (`kind: "memory"`).
  fn is_double(&self) -> bool;
  /// Whether it has one of [`OPTIONAL_METHODS`].
  fn has(&self, method: &str) -> bool;
  /// Calls a method with these arguments; what it resolves to, null for nothing.
  async fn call(&self, method: &'static str, arguments: Value) -> Result<Value>;
  /// `putArchive(id, path, tar)`.
  async fn put_archive(&self, id: &str, path: &str, tar: Bytes) -> Result<()>;
  /// The tar of `getArchive(id, path, maxBytes)`.
  async fn get_archive(&self, id: &str, path: &str, max_bytes: u64) -> Result<Bytes>;
  /// `exec(id, options)`, whose signal is aborted by `cancel`; it should end within `limit`.
  async fn exec(&self, id: &str, options: Value, limit: Duration, cancel: &Cancel) -> Result<ExecAnswer>;
}

/// The application's client as an engine.
pub struct OwnEngine {
  client: Arc<dyn OwnClient>,
}

impl OwnEngine {
  /// Asks nothing of it yet.
  pub fn new(client: Arc<dyn OwnClient>) -> Self {
    Self { client }
  }

  async fn done(&self, method: &'static str, arguments: Value) -> Result<()> {
    self.client.call(method, arguments).await.map(drop)
  }

  fn lacks(&self, what: &str, method: &str) -> Result<()> {
    if self.client.has(method) {
      return Ok(());
    }
    Err(fail!(
      Unsupported,
      "{what} needs client.{method}(), which the application's own client does not have. Add it, or do without."
    ))
  }

  /// The labels of a container by the list, for clients whose inspections tell none.
  async fn labels(&self, id: &str) -> Result<Option<BTreeMap<String, String>>> {
    let listed: Vec<ListedContainer> =
      parsed("listContainers", self.client.call("listContainers", json!([OUR_LABEL])).await?)?;
    Ok(listed.into_iter().find(|found| found.id == id).map(|found| found.labels))
  }

  /// Name and time of creation, without which a sweep cannot tell what is whose: an engine's list has both, and so have
  /// its inspections.
  async fn complete(&self, found: ListedContainer) -> Result<Option<ListedContainer>> {
    if !found.names.is_empty() && found.created > 0 {
      return Ok(Some(found));
    }
    let inspection = match self.inspect_container(&found.id).await {
      Err(gone) if gone.is_not_found() => return Ok(None),
      inspection => inspection?,
    };
    let names = if inspection.name.is_empty() { found.names } else { vec![inspection.name] };
    // Of unknown age is taken for new: what is old may be removed.
    let created = seconds_of(&inspection.created).unwrap_or(i64::MAX);
    Ok(Some(ListedContainer { names, created, ..found }))
  }
}

#[async_trait]
impl Engine for OwnEngine {
  fn kind(&self) -> EngineKind {
    if self.client.is_double() { EngineKind::Memory } else { EngineKind::Own }
  }

  async fn time(&self) -> Result<i64> {
    if !self.client.has("info") {
      return Ok(now_seconds());
    }
    let info = self.client.call("info", json!([])).await?;
    let told = info.get("SystemTime").and_then(|time| seconds_of(time.as_str()?));
    Ok(told.unwrap_or_else(now_seconds))
  }

  async fn info(&self) -> Result<EngineInfo> {
    let what = "assurance: \"enforced\"";
    self.lacks(what, "info")?;
    // Without it nobody knows the volumes and variables that an image brings along.
    self.lacks(what, "inspectImage")?;
    parsed("info", self.client.call("info", json!([])).await?)
  }

  async fn create_container(&self, spec: &ContainerSpec) -> Result<String> {
    let mut spec = spec.clone();
    if let Some(entrypoint) = spec.entrypoint.as_ref().filter(|_| spec.cmd.is_empty()) {
      // A client that knows no entry point runs this; to the shell of one that does, these are arguments that it ignores.
      spec.cmd.clone_from(entrypoint);
    }
    let created: Created =
      parsed("createContainer", self.client.call("createContainer", json!([spec])).await?)?;
    if created.id.is_empty() {
      return Err(rubbish("createContainer", "its Id is empty"));
    }
    Ok(created.id)
  }

  async fn start_container(&self, id: &str) -> Result<()> {
    self.done("startContainer", json!([id])).await
  }

  async fn inspect_container(&self, id: &str) -> Result<Inspection> {
    let answer = self.client.call("inspectContainer", json!([id])).await?;
    let mut found: Inspection = parsed("inspectContainer", answer)?;
    if found.id.is_empty() {
      return Err(rubbish("inspectContainer", "its Id is empty"));
    }
    if found.config.labels.is_none() {
      found.config.labels = self.labels(&found.id).await?;
    }
    Ok(found)
  }

  async fn inspect_container_json(&self, id: &str) -> Result<String> {
    Ok(self.client.call("inspectContainer", json!([id])).await?.to_string())
  }

  async fn remove_container(&self, id: &str) -> Result<()> {
    self.done("removeContainer", json!([id])).await
  }

  async fn kill_container(&self, id: &str, signal: &str) -> Result<()> {
    self.done("killContainer", json!([id, signal])).await
  }

  async fn list_containers(&self, label: &str) -> Result<Vec<ListedContainer>> {
    let answer = self.client.call("listContainers", json!([label])).await?;
    let listed: Vec<ListedContainer> = parsed("listContainers", answer)?;
    let mut complete = Vec::new();
    for found in listed.into_iter().filter(|found| has_label(&found.labels, label)) {
      if found.id.is_empty() {
        return Err(rubbish("listContainers", "an Id is empty"));
      }
      complete.extend(self.complete(found).await?);
    }
    Ok(complete)
  }

  async fn put_archive(&self, id: &str, path: &str, body: ArchiveBody) -> Result<()> {
    let tar = match body {
      ArchiveBody::Bytes(tar) => tar,
      ArchiveBody::Stream(pieces) => collect(pieces, path).await?,
    };
    self.client.put_archive(id, path, tar).await
  }

  async fn get_archive(&self, id: &str, path: &str, max_bytes: u64) -> Result<ByteStream> {
    let most = max_bytes.min(MAX_ARCHIVE_BYTES);
    let tar = self.client.get_archive(id, path, most).await?;
    if tar.len() as u64 > most {
      return Err(too_long(path, most));
    }
    Ok(stream::iter([Ok(tar)]).boxed())
  }

  async fn exec(&self, id: &str, request: ExecRequest) -> Result<ExecOutput> {
    self.run(id, request).await
  }

  async fn realpath(&self, id: &str, path: &str) -> Result<String> {
    let resolved: String = parsed("realpath", self.client.call("realpath", json!([id, path])).await?)?;
    if resolved.starts_with('/') && !resolved.contains('\0') {
      return Ok(resolved);
    }
    Err(fail!(PathInvalid, "The realpath of {path:?} in container {id} is not a usable path."))
  }

  async fn commit_container(
    &self,
    id: &str,
    repo: &str,
    tag: &str,
    labels: Option<&BTreeMap<String, String>>,
  ) -> Result<String> {
    let answer = self.client.call("commitContainer", json!([id, repo, tag, labels])).await?;
    parsed::<Created>("commitContainer", answer).map(|created| created.id)
  }

  async fn inspect_image(&self, image: &str) -> Result<ImageInspection> {
    if !self.client.has("inspectImage") {
      return Ok(ImageInspection::default());
    }
    parsed("inspectImage", self.client.call("inspectImage", json!([image])).await?)
  }

  async fn pull_image(&self, image: &str, _told: Told<'_>, cancel: &Cancel) -> Result<()> {
    self.lacks(&format!("Pulling image {image}"), "pullImage")?;
    cancel.guard(&format!("Pulling image {image}"), self.done("pullImage", json!([image]))).await
  }

  async fn remove_image(&self, id: &str) -> Result<()> {
    self.done("removeImage", json!([id])).await
  }

  async fn create_network(&self, name: &str) -> Result<Network> {
    let answer = self.client.call("createNetwork", json!([name])).await?;
    let MadeNetwork { id, gateway } = parsed("createNetwork", answer)?;
    Ok(Network { id, gateway, subnet: None })
  }

  async fn remove_network(&self, id: &str) -> Result<()> {
    self.done("removeNetwork", json!([id])).await
  }
}

async fn collect(mut pieces: ByteStream, path: &str) -> Result<Bytes> {
  let mut tar = BytesMut::new();
  while let Some(piece) = pieces.next().await {
    tar.extend_from_slice(&piece?);
    if tar.len() as u64 > MAX_ARCHIVE_BYTES {
      return Err(too_long(path, MAX_ARCHIVE_BYTES));
    }
  }
  Ok(tar.freeze())
}

fn too_long(path: &str, most: u64) -> crate::error::Error {
  fail!(
    Limit,
    "The archive of {path} is longer than the {most} bytes that may pass through the application's own client."
  )
}
