//! The resident transport: every operation is a channel of one stream to our own process 1 of the container. It needs
//! nothing of the image, has no gap between checking a path and using it, and knows how a command ended.

mod command;
mod container;
mod files;
mod watch;

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;

pub use container::Container;
use watch::Patience;

use super::{Capabilities, Command, CommandResult, Export, FileRange, Listing, Outcome, Sandbox};
use crate::cancel::Cancel;
use crate::docker::ByteStream;
use crate::error::{Error, Result, fail};
use crate::supervisor::link::Link;
use crate::supervisor::wire::Capability;
use crate::workspace::path::WorkspacePath;

/// Where the supervisor reads the kernel's count of kills for memory.
const CAPABILITIES: Capabilities = Capabilities {
  transport: "resident",
  outcomes: &[
    Outcome::Exited,
    Outcome::Signaled,
    Outcome::TimedOut,
    Outcome::OutputLimit,
    Outcome::Oom,
    Outcome::NotStarted,
  ],
  race_free_paths: true,
};

/// Where it cannot: the end of a command for memory is one by a signal.
const WITHOUT_MEMORY_KILLS: Capabilities = Capabilities {
  outcomes: &[
    Outcome::Exited,
    Outcome::Signaled,
    Outcome::TimedOut,
    Outcome::OutputLimit,
    Outcome::NotStarted,
  ],
  ..CAPABILITIES
};

/// A running container whose process 1 is our supervisor.
pub struct ResidentSandbox {
  container: Container,
  link: Link,
  env: BTreeMap<String, String>,
}

impl ResidentSandbox {
  /// Over a link that was opened to this container; commands have `env` and nothing else but their own variables.
  pub const fn new(container: Container, link: Link, env: BTreeMap<String, String>) -> Self {
    Self { container, link, env }
  }

  async fn file<T>(
    &self,
    verb: &str,
    path: &WorkspacePath,
    work: impl Future<Output = Result<T>>,
  ) -> Result<T> {
    let what = format!("{verb} {path}");
    self.explained(self.watched(&what, Patience::FILE, work).await).await
  }

  async fn explained<T>(&self, result: Result<T>) -> Result<T> {
    match result {
      Ok(value) => Ok(value),
      Err(error) => Err(self.container.explain(error).await),
    }
  }
}

#[async_trait]
impl Sandbox for ResidentSandbox {
  fn capabilities(&self) -> &Capabilities {
    let told_apart = self.link.welcome().can(Capability::MemoryKills);
    if told_apart { &CAPABILITIES } else { &WITHOUT_MEMORY_KILLS }
  }

  async fn read_file(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
  ) -> Result<FileRange> {
    self.file("Reading", path, self.read(path, offset, limit, cancel)).await
  }

  async fn write_file(
    &self,
    path: &WorkspacePath,
    contents: Bytes,
    mode: u32,
    cancel: &Cancel,
  ) -> Result<()> {
    self.file("Writing", path, self.write(path, contents, mode, cancel)).await
  }

  async fn list(&self, path: &WorkspacePath, depth: u32, limit: usize, cancel: &Cancel) -> Result<Listing> {
    self.file("Listing", path, self.entries(path, depth, limit, cancel)).await
  }

  async fn exec(&self, command: Command, cancel: &Cancel) -> Result<CommandResult> {
    let patience = Patience::command(command.timeout);
    self.explained(self.watched("The sandbox command", patience, self.run(command, cancel)).await).await
  }

  async fn import(&self, tar: ByteStream, cancel: &Cancel) -> Result<()> {
    self.explained(self.unpack(tar, cancel).await).await
  }

  async fn export(&self, max_bytes: u64, cancel: &Cancel) -> Result<Export> {
    let tar = self.explained(self.pack(max_bytes, cancel).await).await?;
    Ok(Export { tar, base: None })
  }

  /// Commands of a holder that died are operations that the supervisor still knows.
  async fn kill_all(&self) -> Result<()> {
    for operation in &self.link.welcome().operations {
      self.link.dismiss(operation.op).await?;
    }
    Ok(())
  }

  fn detach(&self) {
    self.link.close();
  }
}

fn unexpected(what: &str) -> Error {
  fail!(
    ContainerLost,
    "The sandbox's process 1 answered {what} with something else: it is not our supervisor."
  )
}
