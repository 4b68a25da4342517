//! The engine-only transport: every operation is a `docker exec`. It needs `/bin/sh` and a few programs of the image,
//! costs about 50 ms an operation, and cannot tell a command that a signal ended from one that exited with 128 and more.

pub mod archive_files;
mod command;
mod files;
mod marks;
mod process;
mod scripts;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;

use super::output::{OutputWriter, ProcessEnd};
use super::{Capabilities, Command, CommandResult, Export, FileRange, FileStream, Listing, Outcome, Sandbox};
use crate::archive::Owner;
use crate::cancel::Cancel;
use crate::docker::engine::Permit;
use crate::docker::{ArchiveBody, ByteStream, Engine, EngineKind, ExecEnd, Stdin};
use crate::error::{Error, ErrorCode, Result, fail};
use crate::random;
use crate::workspace::path::{WORKSPACE_NAME, WORKSPACE_ROOT, WorkspacePath};

/// Each is a `docker exec` or two, of which an engine starts some twenty a second, however many are asked for.
const MOST_FILE_OPERATIONS: usize = 8;

/// What this transport can do with a real engine.
const CAPABILITIES: Capabilities = Capabilities {
  transport: "exec",
  outcomes: &[Outcome::Exited, Outcome::TimedOut, Outcome::OutputLimit, Outcome::NotStarted],
  race_free_paths: true,
  // While another command runs, one that hides from being found is not looked for.
  commands_end: false,
  most_operations: Semaphore::MAX_PERMITS,
  most_commands: u32::MAX,
  most_file_operations: MOST_FILE_OPERATIONS,
};

/// Through a client of the application's own: files are written by archives, which see a path later than it was checked.
const OWN_CAPABILITIES: Capabilities = Capabilities { race_free_paths: false, ..CAPABILITIES };

/// And with a double, which has only the public `DockerClient`'s methods and no programs.
const PLAIN_CAPABILITIES: Capabilities = Capabilities {
  outcomes: &[Outcome::Exited, Outcome::TimedOut, Outcome::OutputLimit],
  commands_end: true,
  ..OWN_CAPABILITIES
};

/// A running container that is talked to by `docker exec`.
pub struct ExecSandbox {
  engine: Arc<dyn Engine>,
  container: String,
  user: String,
  owner: Owner,
  env: BTreeMap<String, String>,
  permit: Option<Permit>,
  /// The engine runs real programs, so that scripts can do the work.
  scripts: bool,
  /// Programs get input, and give output while they run.
  streams: bool,
}

impl ExecSandbox {
  /// For this container; commands run as `owner` and have `env` on top of the container's variables. Nothing is started in
  /// it without the `permit`.
  pub fn new(
    engine: Arc<dyn Engine>,
    container: String,
    owner: Owner,
    env: BTreeMap<String, String>,
    permit: Option<Permit>,
  ) -> Self {
    let (scripts, streams) = match engine.kind() {
      EngineKind::Node => (true, true),
      EngineKind::Own => (true, false),
      EngineKind::Memory => (false, false),
    };
    let user = format!("{}:{}", owner.uid, owner.gid);
    Self { engine, container, user, owner, env, permit, scripts, streams }
  }

  async fn explained<T>(&self, result: Result<T>) -> Result<T> {
    match result {
      Ok(value) => Ok(value),
      Err(error) => Err(self.explain(error).await),
    }
  }

  /// An error after which the container turns out to have ended is `CONTAINER_LOST`.
  async fn explain(&self, error: Error) -> Error {
    if matches!(error.code(), ErrorCode::Cancelled | ErrorCode::DockerUnavailable | ErrorCode::Limit) {
      return error;
    }
    match self.alive().await {
      Err(lost) => lost.with_source(error),
      Ok(()) => error,
    }
  }

  /// `CONTAINER_LOST` where the engine says that the container is gone or has ended.
  async fn alive(&self) -> Result<()> {
    let how = match self.engine.inspect_container(&self.container).await {
      Err(gone) if gone.is_not_found() => "is gone".to_owned(),
      Ok(found) if !found.state.running => {
        let memory =
          if found.state.oom_killed { ", after the kernel killed something in it for memory" } else { "" };
        format!("has ended (state {}, exit code {}{memory})", found.state.status, found.state.exit_code)
      }
      _ => return Ok(()),
    };
    Err(fail!(
      ContainerLost,
      "The sandbox's container {} {how}. Release this run; acquiring it again restores it where a snapshot allows.",
      self.container
    ))
  }
}

#[async_trait]
impl Sandbox for ExecSandbox {
  fn capabilities(&self) -> &Capabilities {
    match (self.scripts, self.streams) {
      (true, true) => &CAPABILITIES,
      (true, false) => &OWN_CAPABILITIES,
      (false, _) => &PLAIN_CAPABILITIES,
    }
  }

  async fn read_file(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
  ) -> Result<FileRange> {
    if self.scripts {
      return self.read(path, offset, limit, cancel).await;
    }
    let read =
      archive_files::read_file(self.engine.as_ref(), &self.container, path, offset, limit, cancel).await;
    self.explained(read).await
  }

  async fn write_file(
    &self,
    path: &WorkspacePath,
    contents: Bytes,
    mode: u32,
    cancel: &Cancel,
  ) -> Result<()> {
    // The script takes the contents as input.
    if self.scripts && self.streams {
      return self.write(path, contents, mode, cancel).await;
    }
    if let (EngineKind::Own, Some(permit)) = (self.engine.kind(), &self.permit) {
      permit().await?;
    }
    let (engine, container) = (self.engine.as_ref(), self.container.as_str());
    let written =
      archive_files::write_file(engine, container, path, contents, mode, self.owner, cancel).await;
    self.explained(written).await
  }

  async fn list(&self, path: &WorkspacePath, depth: u32, limit: usize, cancel: &Cancel) -> Result<Listing> {
    if self.scripts {
      return self.entries(path, depth, limit, cancel).await;
    }
    let listed = archive_files::list(self.engine.as_ref(), &self.container, path, depth, limit, cancel).await;
    self.explained(listed).await
  }

  async fn exec(&self, command: Command, cancel: &Cancel) -> Result<CommandResult> {
    self.run(command, cancel).await
  }

  async fn stream(&self, command: Command, output: &OutputWriter, cancel: &Cancel) -> Result<ProcessEnd> {
    self.run_streamed(command, output, cancel).await
  }

  async fn read_stream(&self, path: &WorkspacePath, _: u64, _: u64, _: &Cancel) -> Result<FileStream> {
    Err(fail!(
      Unsupported,
      "Reading {path} as a stream needs the resident transport; this session has exec. Use readFile in parts (offset, limit)."
    ))
  }

  async fn write_stream(&self, path: &WorkspacePath, _: ByteStream, _: u32, _: &Cancel) -> Result<u64> {
    Err(fail!(
      Unsupported,
      "Writing {path} from a stream needs the resident transport; this session has exec. Use writeFile, or a command that reads it as stdin."
    ))
  }

  async fn import(&self, tar: ByteStream, cancel: &Cancel) -> Result<()> {
    let put = self.engine.put_workspace(&self.container, WORKSPACE_ROOT, ArchiveBody::Stream(tar));
    self.explained(cancel.guard("Filling the workspace", put).await).await
  }

  async fn export(&self, max_bytes: u64, cancel: &Cancel) -> Result<Export> {
    let get = self.engine.get_archive(&self.container, WORKSPACE_ROOT, max_bytes);
    let tar = self.explained(cancel.guard("Reading the workspace", get).await).await?;
    // Engines name an archive after the directory that it is of.
    Ok(Export { tar, base: Some(WORKSPACE_NAME) })
  }

  async fn kill_all(&self) -> Result<()> {
    if !self.scripts {
      return Ok(());
    }
    let script = self.script(scripts::KILL_ALL, [], Stdin::Empty, 4096, &Cancel::new()).await?;
    match (script.end, script.exit_code) {
      // A shell says 1 when there was nothing to kill.
      (ExecEnd::Finished | ExecEnd::OutputHeld, Some(0 | 1)) => Ok(()),
      (_, exit) => {
        Err(fail!(DockerApi, "The commands of container {} could not be ended ({exit:?}).", self.container))
      }
    }
  }
}

/// A random name that no program can guess before it is used.
struct Nonce(String);

impl Nonce {
  fn new() -> Result<Self> {
    random::hex::<16>().map(Self)
  }

  fn as_str(&self) -> &str {
    &self.0
  }

  fn mark(&self, word: &str) -> String {
    format!("{}:{word};", self.0)
  }
}
