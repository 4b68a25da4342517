//! The deterministic double of an engine: containers with files, a few commands, archives, images and networks, all in
//! memory. It enforces nothing and says so. The same calls give the same ids; only times are the host's.

mod archive;
mod commands;
mod container;
mod exec;
mod image;
mod mount;
mod options;
mod state;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};

use self::archive::NotPacked;
use self::exec::lock;
pub use self::options::{DEFAULT_IMAGES, Fault, METHODS, MemoryOptions};
use self::state::State;
use self::tree::{Last, path_of};
use super::engine::{ArchiveBody, ByteStream, Engine, EngineKind, ExecOutput, ExecRequest};
use super::model::{
  ContainerSpec, EngineInfo, ImageInspection, Inspection, ListedContainer, ListedImage, Network,
};
use super::pull::Told;
use crate::cancel::Cancel;
use crate::error::{Result, fail};
use crate::limits::{MAX_ARCHIVE_BYTES, MAX_PATH_BYTES};

/// An archive comes in pieces of this many bytes, as from a socket.
const PIECE_BYTES: usize = 64 * 1024;

/// The double. Share it in an `Arc`; it may be used from many tasks at once.
pub struct MemoryEngine {
  state: Mutex<State>,
}

impl MemoryEngine {
  /// A double as the options say.
  pub fn new(options: MemoryOptions) -> Self {
    Self { state: Mutex::new(State::new(options)) }
  }

  fn with<T>(&self, method: &'static str, run: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
    let mut state = lock(&self.state);
    state.count(method)?;
    run(&mut state)
  }
}

impl Default for MemoryEngine {
  fn default() -> Self {
    Self::new(MemoryOptions::default())
  }
}

#[async_trait]
impl Engine for MemoryEngine {
  fn kind(&self) -> EngineKind {
    EngineKind::Memory
  }

  async fn info(&self) -> Result<EngineInfo> {
    self.with("info", |_state| {
      Ok(EngineInfo {
        server_version: "memory".to_owned(),
        architecture: "x86_64".to_owned(),
        os_type: "linux".to_owned(),
        ..EngineInfo::default()
      })
    })
  }

  async fn create_container(&self, spec: &ContainerSpec) -> Result<String> {
    self.with("createContainer", |state| state.create(spec))
  }

  async fn start_container(&self, id: &str) -> Result<()> {
    self.with("startContainer", |state| state.start(id))
  }

  async fn inspect_container(&self, id: &str) -> Result<Inspection> {
    self.with("inspectContainer", |state| Ok(state.container(id)?.inspection()))
  }

  async fn inspect_container_json(&self, id: &str) -> Result<String> {
    let found = self.inspect_container(id).await?;
    serde_json::to_string(&found).map_err(|error| {
      fail!(Internal, "The inspection of container {id} could not be written.").with_source(error)
    })
  }

  async fn remove_container(&self, id: &str) -> Result<()> {
    self.with("removeContainer", |state| state.remove(id))
  }

  async fn kill_container(&self, id: &str, signal: &str) -> Result<()> {
    self.with("killContainer", |state| state.container(id)?.kill(signal))
  }

  async fn list_containers(&self, label: &str) -> Result<Vec<ListedContainer>> {
    self.with("listContainers", |state| Ok(state.list(label)))
  }

  async fn put_archive(&self, id: &str, path: &str, body: ArchiveBody) -> Result<()> {
    self.with("putArchive", |state| state.running(id).map(drop))?;
    let tar = collect(id, path, body).await?;
    let mut state = lock(&self.state);
    archive::unpack(&mut state.running(id)?.tree, path, &tar).map_err(|said| {
      fail!(DockerApi, "The archive could not be unpacked into {path} of container {id}: {said}")
    })
  }

  async fn get_archive(&self, id: &str, path: &str, max_bytes: u64) -> Result<ByteStream> {
    check_single(path)?;
    let packed = self.with("getArchive", |state| {
      let container = state.running(id)?;
      Ok(archive::pack(&container.tree, path, container.owner(), max_bytes))
    })?;
    // Like a real tar's, a failure shows only when the stream is read.
    let pieces = match packed {
      Ok(tar) => pieces(tar).into_iter().map(Ok).collect(),
      Err(NotPacked::Missing(said)) => {
        vec![Err(fail!(NotFound, "Path {path} was not found in container {id}: {said}"))]
      }
      Err(NotPacked::TooLong) => {
        vec![Err(fail!(Limit, "The archive of {path} in container {id} is longer than {max_bytes} bytes."))]
      }
      Err(NotPacked::Failed(said)) => {
        vec![Err(fail!(DockerApi, "The archive of {path} in container {id} could not be made: {said}"))]
      }
    };
    Ok(stream::iter(pieces).boxed())
  }

  async fn exec(&self, id: &str, request: ExecRequest) -> Result<ExecOutput> {
    self.with("exec", |_state| Ok(()))?;
    exec::exec(&self.state, id, request).await
  }

  async fn realpath(&self, id: &str, path: &str) -> Result<String> {
    if !path.starts_with('/') || path.contains('\0') || path.len() > MAX_PATH_BYTES {
      return Err(fail!(PathInvalid, "realpath needs an absolute path of at most {MAX_PATH_BYTES} bytes."));
    }
    self.with("realpath", |state| {
      let (place, _) =
        state.running(id)?.tree.existing(&[], path.as_bytes(), Last::Follow).map_err(|refusal| {
          fail!(NotFound, "Path {path:?} was not found in container {id}: realpath: {refusal}")
        })?;
      String::from_utf8(path_of(&place)).map_err(|error| {
        fail!(PathInvalid, "The realpath of {path:?} in container {id} is not a usable path.")
          .with_source(error)
      })
    })
  }

  async fn commit_container(
    &self,
    id: &str,
    repo: &str,
    tag: &str,
    labels: Option<&BTreeMap<String, String>>,
  ) -> Result<String> {
    self.with("commitContainer", |state| state.commit(id, &format!("{repo}:{tag}"), labels))
  }

  async fn inspect_image(&self, image: &str) -> Result<ImageInspection> {
    self.with("inspectImage", |state| Ok(state.image(image)?.inspection()))
  }

  async fn pull_image(&self, image: &str, _told: Told<'_>, cancel: &Cancel) -> Result<()> {
    cancel.check(&format!("Pulling image {image}"))?;
    self.with("pullImage", |state| {
      state.pull(image);
      Ok(())
    })
  }

  async fn remove_image(&self, id: &str) -> Result<()> {
    self.with("removeImage", |state| state.remove_image(id))
  }

  async fn list_images(&self, repository: &str) -> Result<Vec<ListedImage>> {
    Ok(lock(&self.state).list_images(repository))
  }

  async fn create_network(&self, name: &str) -> Result<Network> {
    self.with("createNetwork", |state| state.create_network(name))
  }

  async fn remove_network(&self, id: &str) -> Result<()> {
    self.with("removeNetwork", |state| state.remove_network(id))
  }
}

/// The whole of an archive; no more than a real client would send as one.
async fn collect(id: &str, path: &str, body: ArchiveBody) -> Result<Bytes> {
  let mut pieces = match body {
    ArchiveBody::Bytes(bytes) => stream::once(async { Ok(bytes) }).boxed(),
    ArchiveBody::Stream(pieces) => pieces,
  };
  let mut tar = BytesMut::new();
  while let Some(piece) = pieces.next().await {
    let piece = piece?;
    if (tar.len() + piece.len()) as u64 > MAX_ARCHIVE_BYTES {
      return Err(fail!(
        Limit,
        "The archive for {path} of container {id} is longer than {MAX_ARCHIVE_BYTES} bytes; send it in parts."
      ));
    }
    tar.extend_from_slice(&piece);
  }
  Ok(tar.freeze())
}

fn pieces(mut tar: Bytes) -> Vec<Bytes> {
  let mut pieces = Vec::new();
  while !tar.is_empty() {
    pieces.push(tar.split_to(PIECE_BYTES.min(tar.len())));
  }
  pieces
}

/// An archive is of one thing that has a name.
fn check_single(path: &str) -> Result<()> {
  let name = path.rsplit('/').next().unwrap_or_default();
  if path.starts_with('/') && !path.contains('\0') && !matches!(name, "" | "." | "..") {
    return Ok(());
  }
  Err(fail!(
    PathInvalid,
    "Archive path {path:?} names no single file or directory; use an absolute path such as /workspace/src."
  ))
}
