//! The real client as an [`Engine`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use hyper::Method;

use super::archive::Unpacking;
use super::client::Client;
use super::container::Pause;
use super::dialect::Dialect;
use super::engine::{ArchiveBody, ByteStream, Engine, EngineKind, ExecEnd, ExecOutput, ExecRequest, Stdin};
use super::model::{
  ContainerSpec, EngineInfo, ImageInspection, Inspection, ListedContainer, ListedImage, ListedNetwork,
  Network,
};
use super::pull::Told;
use super::request::segment;
use crate::cancel::Cancel;
use crate::clock::now_seconds;
use crate::error::{Result, fail};
use crate::limits::{MAX_PATH_BYTES, REALPATH_TIMEOUT};

#[async_trait]
impl Engine for Client {
  fn kind(&self) -> EngineKind {
    EngineKind::Node
  }

  fn client(&self) -> Option<&Client> {
    Some(self)
  }

  async fn dialect(&self) -> Result<Dialect> {
    self.dialect().await
  }

  async fn time(&self) -> Result<i64> {
    Ok(self.clock().await?.unwrap_or_else(now_seconds))
  }

  async fn info(&self) -> Result<EngineInfo> {
    self.json(Method::GET, "/info", None).await
  }

  async fn create_container(&self, spec: &ContainerSpec) -> Result<String> {
    self.create(spec).await
  }

  async fn start_container(&self, id: &str) -> Result<()> {
    self.start(id).await
  }

  async fn inspect_container(&self, id: &str) -> Result<Inspection> {
    self.inspection(id).await
  }

  async fn inspect_container_json(&self, id: &str) -> Result<String> {
    let path = format!("/containers/{}/json", segment(id)?);
    let body = self.expect(Method::GET, &path, None).await?;
    String::from_utf8(body.into()).map_err(|error| {
      fail!(DockerApi, "The Docker engine answered GET {path} with text that is no UTF-8.").with_source(error)
    })
  }

  async fn remove_container(&self, id: &str) -> Result<()> {
    self.remove(id).await
  }

  async fn kill_container(&self, id: &str, signal: &str) -> Result<()> {
    self.kill(id, signal).await
  }

  async fn list_containers(&self, label: &str) -> Result<Vec<ListedContainer>> {
    self.list(label).await
  }

  async fn put_archive(&self, id: &str, path: &str, body: ArchiveBody) -> Result<()> {
    self.put(id, path, body, Unpacking::Plain).await
  }

  async fn put_workspace(&self, id: &str, path: &str, body: ArchiveBody) -> Result<()> {
    self.put(id, path, body, Unpacking::AllModes).await
  }

  async fn get_archive(&self, id: &str, path: &str, max_bytes: u64) -> Result<ByteStream> {
    self.get(id, path, max_bytes).await
  }

  async fn exec(&self, id: &str, request: ExecRequest) -> Result<ExecOutput> {
    self.run_exec(id, request).await
  }

  async fn realpath(&self, id: &str, path: &str) -> Result<String> {
    if !path.starts_with('/') || path.contains('\0') || path.len() > MAX_PATH_BYTES {
      return Err(fail!(PathInvalid, "realpath needs an absolute path of at most {MAX_PATH_BYTES} bytes."));
    }
    let request = ExecRequest {
      // BusyBox has it in /usr/bin and not in /bin; merged-usr distributions have it in both.
      cmd: ["/usr/bin/realpath", path].map(str::to_owned).to_vec(),
      user: String::new(),
      env: Vec::new(),
      working_dir: "/".to_owned(),
      timeout: REALPATH_TIMEOUT,
      max_output_bytes: 2 * MAX_PATH_BYTES as u64,
      stdin: Stdin::Empty,
      cancel: Cancel::new(),
      skip_terminate: true,
      marker: None,
      extra_stderr_bytes: 0,
      clean_mark: None,
      exclusive: false,
      tap: None,
      permit: None,
    };
    let output = self.run_exec(id, request).await?;
    if (output.end, output.exit_code) != (ExecEnd::Finished, Some(0)) {
      return Err(fail!(NotFound, "Path {path:?} was not found in container {id}."));
    }
    let resolved = String::from_utf8(output.stdout).ok();
    let resolved = resolved.as_deref().and_then(|text| text.strip_suffix('\n'));
    match resolved.filter(|text| text.starts_with('/') && !text.contains('\0')) {
      Some(text) => Ok(text.to_owned()),
      None => Err(fail!(PathInvalid, "The realpath of {path:?} in container {id} is not a usable path.")),
    }
  }

  async fn commit_container(
    &self,
    id: &str,
    repo: &str,
    tag: &str,
    labels: Option<&BTreeMap<String, String>>,
  ) -> Result<String> {
    self.commit(id, repo, tag, labels, Pause::During).await
  }

  async fn commit_running(
    &self,
    id: &str,
    repo: &str,
    tag: &str,
    labels: &BTreeMap<String, String>,
  ) -> Result<String> {
    self.commit(id, repo, tag, Some(labels), Pause::Never).await
  }

  async fn inspect_image(&self, image: &str) -> Result<ImageInspection> {
    self.image(image).await
  }

  async fn pull_image(&self, image: &str, told: Told<'_>, cancel: &Cancel) -> Result<()> {
    self.pull(image, told, cancel).await
  }

  async fn remove_image(&self, id: &str) -> Result<()> {
    self.delete_image(id).await
  }

  async fn list_images(&self, repository: &str) -> Result<Vec<ListedImage>> {
    self.images(repository).await
  }

  async fn create_network(&self, name: &str) -> Result<Network> {
    self.make_network(name, &BTreeMap::new()).await
  }

  async fn create_labelled_network(&self, name: &str, labels: &BTreeMap<String, String>) -> Result<Network> {
    self.make_network(name, labels).await
  }

  async fn list_networks(&self, label: &str) -> Result<Vec<ListedNetwork>> {
    self.labelled_networks(label).await
  }

  async fn remove_network(&self, id: &str) -> Result<()> {
    self.delete_network(id).await
  }
}
