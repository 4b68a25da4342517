//! An engine over the memory engine that can misbehave in the ways that these tests need.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::cancel::Cancel;
use crate::docker::memory::{MemoryEngine, MemoryOptions};
use crate::docker::model::{
  ContainerSpec, EngineInfo, ImageInspection, Inspection, ListedContainer, Network,
};
use crate::docker::{ArchiveBody, ByteStream, Engine, EngineKind, ExecEnd, ExecOutput, ExecRequest, Told};
use crate::error::Result;

/// How `realpath` deviates.
#[derive(Clone, Copy, PartialEq)]
pub enum Realpath {
  /// Not at all: what does not exist has none.
  Strict,
  /// The last component may be missing, as with GNU's.
  LastMayMiss,
  /// A path that ends with a dot is taken for a name.
  NoDots,
}

/// What `mv` does.
#[derive(Clone, Copy, PartialEq)]
pub enum Mv {
  /// It is one.
  Real,
  /// There is none.
  Missing,
  /// Every command says 0 and does nothing.
  Stub,
}

/// The engine.
pub struct Double {
  pub inner: MemoryEngine,
  pub realpath: Realpath,
  pub mv: Mv,
  /// Answers for every `get_archive`, repeated for ever where `endless`.
  pub archive: Option<Bytes>,
  pub endless: bool,
  /// `put_archive` does its work and then never returns.
  pub stuck: bool,
}

impl Double {
  pub fn new(options: &str) -> Self {
    Self {
      inner: MemoryEngine::new(MemoryOptions::from_json(options).unwrap()),
      realpath: Realpath::Strict,
      mv: Mv::Real,
      archive: None,
      endless: false,
      stuck: false,
    }
  }
}

#[async_trait]
impl Engine for Double {
  fn kind(&self) -> EngineKind {
    self.inner.kind()
  }

  async fn put_archive(&self, id: &str, path: &str, body: ArchiveBody) -> Result<()> {
    let put = self.inner.put_archive(id, path, body).await;
    if self.stuck {
      std::future::pending::<()>().await;
    }
    put
  }

  async fn get_archive(&self, id: &str, path: &str, max_bytes: u64) -> Result<ByteStream> {
    match self.archive.clone() {
      Some(tar) if self.endless => Ok(stream::repeat_with(move || Ok(tar.clone())).boxed()),
      Some(tar) => Ok(stream::iter([Ok(tar)]).boxed()),
      None => self.inner.get_archive(id, path, max_bytes).await,
    }
  }

  async fn exec(&self, id: &str, request: ExecRequest) -> Result<ExecOutput> {
    let said = |code| ExecOutput {
      exit_code: Some(code),
      stdout: Vec::new(),
      stderr: Vec::new(),
      end: ExecEnd::Finished,
    };
    match self.mv {
      Mv::Missing if request.cmd[0] == "/bin/mv" => Ok(said(127)),
      Mv::Stub => Ok(said(0)),
      _ => self.inner.exec(id, request).await,
    }
  }

  async fn realpath(&self, id: &str, path: &str) -> Result<String> {
    if self.realpath == Realpath::NoDots && path.ends_with("/.") {
      return self.inner.realpath(id, "/no/such/thing").await;
    }
    let found = self.inner.realpath(id, path).await;
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let last_may_miss = self.realpath == Realpath::LastMayMiss && !path.ends_with("/.");
    if found.is_err() && last_may_miss && self.inner.realpath(id, parent).await.is_ok() {
      return Ok(path.to_owned());
    }
    found
  }

  async fn info(&self) -> Result<EngineInfo> {
    self.inner.info().await
  }

  async fn create_container(&self, spec: &ContainerSpec) -> Result<String> {
    self.inner.create_container(spec).await
  }

  async fn start_container(&self, id: &str) -> Result<()> {
    self.inner.start_container(id).await
  }

  async fn inspect_container(&self, id: &str) -> Result<Inspection> {
    self.inner.inspect_container(id).await
  }

  async fn inspect_container_json(&self, id: &str) -> Result<String> {
    self.inner.inspect_container_json(id).await
  }

  async fn remove_container(&self, id: &str) -> Result<()> {
    self.inner.remove_container(id).await
  }

  async fn kill_container(&self, id: &str, signal: &str) -> Result<()> {
    self.inner.kill_container(id, signal).await
  }

  async fn list_containers(&self, label: &str) -> Result<Vec<ListedContainer>> {
    self.inner.list_containers(label).await
  }

  async fn commit_container(
    &self,
    id: &str,
    repo: &str,
    tag: &str,
    labels: Option<&BTreeMap<String, String>>,
  ) -> Result<String> {
    self.inner.commit_container(id, repo, tag, labels).await
  }

  async fn inspect_image(&self, image: &str) -> Result<ImageInspection> {
    self.inner.inspect_image(image).await
  }

  async fn pull_image(&self, image: &str, told: Told<'_>, cancel: &Cancel) -> Result<()> {
    self.inner.pull_image(image, told, cancel).await
  }

  async fn remove_image(&self, id: &str) -> Result<()> {
    self.inner.remove_image(id).await
  }

  async fn create_network(&self, name: &str) -> Result<Network> {
    self.inner.create_network(name).await
  }

  async fn remove_network(&self, id: &str) -> Result<()> {
    self.inner.remove_network(id).await
  }
}
