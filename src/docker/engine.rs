//! The interface of an engine: the methods of the public `DockerClient`, for the real client and the double alike.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::client::Client;
use super::dialect::Dialect;
use super::model::{
  ContainerSpec, EngineInfo, ImageInspection, Inspection, ListedContainer, ListedImage, ListedNetwork,
  Network, PathStat,
};
use super::pull::Told;
use crate::cancel::Cancel;
use crate::clock::now_seconds;
use crate::error::Result;
pub use crate::stream::ByteStream;
use crate::stream::frame::Channel;

/// Which kind of engine answers: the public `DockerClient.kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
  /// A real engine behind a socket.
  Node,
  /// What an application's own client says to be a real engine. Nobody here can vouch for it, and it has only the public
  /// methods: its commands get no input, and their output comes at their end.
  Own,
  /// The deterministic double, which enforces nothing.
  Memory,
}

/// An archive to be put into a container.
pub enum ArchiveBody {
  /// All of it.
  Bytes(Bytes),
  /// Piece by piece, so that memory does not grow with it.
  Stream(ByteStream),
}

/// What a command reads.
pub enum Stdin {
  /// Nothing: it sees the end at once.
  Empty,
  /// These bytes, then the end.
  Bytes(Bytes),
  /// Piece by piece; an error ends the command.
  Stream(ByteStream),
}

impl Stdin {
  /// True where no input is attached at all.
  pub const fn is_empty(&self) -> bool {
    matches!(self, Self::Empty)
  }
}

/// Asked when all is ready for a command to start. This process may have been stopped since it was called for, and an
/// engine starts what it is asked to, whoever asks. An error is the command's, which is not started.
pub type Permit = Arc<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// A command to run in a container.
pub struct ExecRequest {
  /// Program and arguments.
  pub cmd: Vec<String>,
  /// `uid:gid`, or empty for the container's own.
  pub user: String,
  /// `NAME=value`, on top of the container's.
  pub env: Vec<String>,
  /// Working directory, absolute.
  pub working_dir: String,
  /// For everything: creating, starting, feeding, reading, inspecting. Then the command's processes are killed.
  pub timeout: Duration,
  /// Cap in bytes of standard output and of standard error, each. Past it the command's processes are killed.
  pub max_output_bytes: u64,
  /// So much more of standard error, for marks that a script of ours writes there.
  pub extra_stderr_bytes: u64,
  /// What it reads.
  pub stdin: Stdin,
  /// Ends it early: its processes are killed and the call fails with `CANCELLED`.
  pub cancel: Cancel,
  /// Leave the command's processes alone whatever happens; for short helper commands of our own.
  pub skip_terminate: bool,
  /// Also kill, at the end, processes whose command line contains this text (the public `marker`).
  pub marker: Option<String>,
  /// Once this is on standard error and the command has ended, none of its processes are left, so none is looked for.
  /// An empty mark is on every standard error: for commands that leave nothing behind.
  pub clean_mark: Option<String>,
  /// The container runs nothing of its own but process 1 and its session. Then a process that hides from being found
  /// (a new session, an emptied environment) is known to be a command's, and dies when no other command runs.
  pub exclusive: bool,
  /// Output goes here as it comes, and the cap does not count; a full channel holds the command back. What the real
  /// engine alone can do.
  pub tap: Option<mpsc::Sender<(Channel, Bytes)>>,
  /// Without its word the command is not started. The double does not ask.
  pub permit: Option<Permit>,
}

/// Why an exec is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecEnd {
  /// The command ended and its output was read to the end.
  Finished,
  /// The command ended; a process that it left behind still holds its output open, which is read no further.
  OutputHeld,
  /// The deadline passed; the processes were killed.
  TimedOut,
  /// A cap was passed; the processes were killed.
  Truncated,
}

/// What a command did.
#[derive(Clone, Debug)]
pub struct ExecOutput {
  /// As the engine knows it; `None` when it does not. A killed command has 137 where the engine says so.
  pub exit_code: Option<i64>,
  /// Standard output, at most the cap.
  pub stdout: Vec<u8>,
  /// Standard error, at most the cap.
  pub stderr: Vec<u8>,
  /// Why it is over.
  pub end: ExecEnd,
}

/// An exit code, or that there is none, as part of a sentence.
pub fn exit_text(code: Option<i64>) -> String {
  code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"))
}

/// A Docker engine. All errors are typed as in the public declarations: `DOCKER_UNAVAILABLE`, `NOT_FOUND`,
/// `DOCKER_API`, `LIMIT`, `CANCELLED`, `PATH_INVALID`.
#[async_trait]
pub trait Engine: Send + Sync {
  /// Real or double.
  fn kind(&self) -> EngineKind;
  /// The client of a real engine, for what only that can do (volumes, attach).
  fn client(&self) -> Option<&Client> {
    None
  }
  /// Whose API it speaks, where that can be known.
  async fn dialect(&self) -> Result<Dialect> {
    Ok(Dialect::Docker)
  }
  /// The time of day in seconds since 1970 by the clock that its times of creation are by, where the engine tells.
  async fn time(&self) -> Result<i64> {
    Ok(now_seconds())
  }
  /// What the engine is and can enforce.
  async fn info(&self) -> Result<EngineInfo>;
  /// Creates a container, returns its id. A taken name is a `CONFLICT`, a missing image an `IMAGE_MISSING`.
  async fn create_container(&self, spec: &ContainerSpec) -> Result<String>;
  /// Starts it; one that runs already is fine.
  async fn start_container(&self, id: &str) -> Result<()>;
  /// State, limits and labels.
  async fn inspect_container(&self, id: &str) -> Result<Inspection>;
  /// The engine's whole reply to an inspection, as JSON text.
  async fn inspect_container_json(&self, id: &str) -> Result<String>;
  /// Removes it, running or not, with its anonymous volumes; waits while another removal is under way.
  /// A container that is not there is `NOT_FOUND`.
  async fn remove_container(&self, id: &str) -> Result<()>;
  /// Sends a signal to process 1; a container that has ended is fine.
  async fn kill_container(&self, id: &str, signal: &str) -> Result<()>;
  /// Containers, running or not, with this label (`name` or `name=value`); checked again on our side.
  async fn list_containers(&self, label: &str) -> Result<Vec<ListedContainer>>;
  /// Unpacks a tar below `path`: by the archive API, or by the container's own `tar` where that cannot reach (tmpfs).
  async fn put_archive(&self, id: &str, path: &str, body: ArchiveBody) -> Result<()>;
  /// The same for a tar of our own of a whole workspace, in a container with `/bin/sh`: modes are those of the tar, as the
  /// archive API sets them.
  async fn put_workspace(&self, id: &str, path: &str, body: ArchiveBody) -> Result<()> {
    self.put_archive(id, path, body).await
  }
  /// A tar of `path` by the container's own `tar`, piece by piece; `LIMIT` past `max_bytes`.
  async fn get_archive(&self, id: &str, path: &str, max_bytes: u64) -> Result<ByteStream>;
  /// Runs a command to its end.
  async fn exec(&self, id: &str, request: ExecRequest) -> Result<ExecOutput>;
  /// The path with all symbolic links resolved, by the container's own `realpath`.
  async fn realpath(&self, id: &str, path: &str) -> Result<String>;
  /// Makes an image of the container's root file system (never of its tmpfs), returns its id.
  async fn commit_container(
    &self,
    id: &str,
    repo: &str,
    tag: &str,
    labels: Option<&BTreeMap<String, String>>,
  ) -> Result<String>;
  /// The same while its processes go on, where the client can do that: for a container whose root file system nobody writes
  /// to. Frozen for it, it would be found so by whoever follows a host that dies meanwhile.
  async fn commit_running(
    &self,
    id: &str,
    repo: &str,
    tag: &str,
    labels: &BTreeMap<String, String>,
  ) -> Result<String> {
    self.commit_container(id, repo, tag, Some(labels)).await
  }
  /// What an image brings along; `NOT_FOUND` where it is not on the engine.
  async fn inspect_image(&self, image: &str) -> Result<ImageInspection>;
  /// Fetches an image from its registry, and tells how far that is where the client knows.
  async fn pull_image(&self, image: &str, told: Told<'_>, cancel: &Cancel) -> Result<()>;
  /// Removes an image and its tags.
  async fn remove_image(&self, id: &str) -> Result<()>;
  /// Images with a tag in this repository (a name without a tag); none where the client cannot list images.
  async fn list_images(&self, _repository: &str) -> Result<Vec<ListedImage>> {
    Ok(Vec::new())
  }
  /// Makes an internal bridge network.
  async fn create_network(&self, name: &str) -> Result<Network>;
  /// The same with labels, where the engine knows labels of networks.
  async fn create_labelled_network(&self, name: &str, _labels: &BTreeMap<String, String>) -> Result<Network> {
    self.create_network(name).await
  }
  /// Networks with this label (`name` or `name=value`), checked again on our side; none where the engine knows no labels
  /// of networks.
  async fn list_networks(&self, _label: &str) -> Result<Vec<ListedNetwork>> {
    Ok(Vec::new())
  }
  /// Removes a network.
  async fn remove_network(&self, id: &str) -> Result<()>;
}

/// The public `getArchive` result: the archive in one piece and what it says of the path.
pub struct Archive {
  /// The tar.
  pub tar: Vec<u8>,
  /// The path's own entry.
  pub stat: PathStat,
}
