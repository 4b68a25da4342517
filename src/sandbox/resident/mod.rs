//! The resident transport: every operation is a channel of one stream to our own process 1 of the container. It needs
//! nothing of the image, has no gap between checking a path and using it, and knows how a command ended.

mod command;
mod container;
mod files;
mod listing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use tokio::time::timeout;

pub use container::Container;

use super::{Capabilities, Command, CommandResult, Export, FileRange, Listing, Outcome, Sandbox};
use crate::cancel::Cancel;
use crate::docker::ByteStream;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::limits::{ARCHIVE_TIMEOUT, FILE_OPERATION_TIMEOUT};
use crate::supervisor::link::Link;
use crate::workspace::path::WorkspacePath;

/// The supervisor ends a command at its time limit, which under a tight CPU quota was seen to take 0.8 s more, and kills
/// everything, itself included, where that is of no use. What is not over by then ends with the container.
const COMMAND_MARGIN: Duration = Duration::from_secs(10);
/// What is under way, for messages.
const FILLING: &str = "Filling the workspace";
const PACKING: &str = "Reading the workspace";

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

/// A running container whose process 1 is our supervisor.
pub struct ResidentSandbox {
  container: Arc<Container>,
  link: Link,
  env: BTreeMap<String, String>,
}

impl ResidentSandbox {
  /// Over a link that was opened to this container; commands have `env` and nothing else but their own variables.
  pub fn new(container: Container, link: Link, env: BTreeMap<String, String>) -> Self {
    Self { container: Arc::new(container), link, env }
  }

  /// Runs an operation within `limit`, the host's own: a supervisor that is ours keeps the deadlines that it was given,
  /// and one that is not may keep an operation open for ever.
  async fn operate<T>(
    &self,
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T>>,
  ) -> Result<T> {
    if let Some(lost) = self.container.lost() {
      return Err(lost);
    }
    let ended = timeout(limit, work).await.unwrap_or_else(|_elapsed| Err(overdue(what, limit)));
    match ended {
      Err(error) => Err(settle(&self.container, &self.link, error).await),
      ended => ended,
    }
  }
}

/// What an operation's error means. Where the stream is broken, or what came over it cannot have come from our
/// supervisor, the container goes, and every operation from then on says so.
async fn settle(container: &Container, link: &Link, error: Error) -> Error {
  if error.is_cancelled() {
    return error;
  }
  let broken = link.broken().is_some_and(|reason| reason.code() != ErrorCode::Released);
  if broken || error.code() == ErrorCode::ContainerLost || container.lost().is_some() {
    let lost = container.lose(error).await;
    link.close();
    return lost;
  }
  error
}

#[async_trait]
impl Sandbox for ResidentSandbox {
  fn capabilities(&self) -> &Capabilities {
    &CAPABILITIES
  }

  async fn read_file(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
  ) -> Result<FileRange> {
    let what = format!("Reading {path}");
    self.operate(FILE_OPERATION_TIMEOUT, &what, self.read(path, offset, limit, &what, cancel)).await
  }

  async fn write_file(
    &self,
    path: &WorkspacePath,
    contents: Bytes,
    mode: u32,
    cancel: &Cancel,
  ) -> Result<()> {
    let what = format!("Writing {path}");
    self.operate(FILE_OPERATION_TIMEOUT, &what, self.write(path, contents, mode, &what, cancel)).await
  }

  async fn list(&self, path: &WorkspacePath, depth: u32, limit: usize, cancel: &Cancel) -> Result<Listing> {
    let what = format!("Listing {path}");
    self.operate(FILE_OPERATION_TIMEOUT, &what, self.entries(path, depth, limit, &what, cancel)).await
  }

  async fn exec(&self, command: Command, cancel: &Cancel) -> Result<CommandResult> {
    let limit = command.timeout.saturating_add(COMMAND_MARGIN);
    self.operate(limit, "The sandbox command", self.run(command, cancel)).await
  }

  async fn import(&self, tar: ByteStream, cancel: &Cancel) -> Result<()> {
    self.operate(ARCHIVE_TIMEOUT, FILLING, self.unpack(tar, cancel)).await
  }

  async fn export(&self, max_bytes: u64, cancel: &Cancel) -> Result<Export> {
    let tar = self.operate(ARCHIVE_TIMEOUT, PACKING, self.pack(max_bytes, cancel)).await?;
    let (container, link) = (Arc::clone(&self.container), self.link.clone());
    let settled = tar.or_else(move |error| {
      let (container, link) = (Arc::clone(&container), link.clone());
      async move { Err(settle(&container, &link, error).await) }
    });
    Ok(Export { tar: settled.boxed(), base: None })
  }

  /// Commands of a holder that died are operations that the supervisor still knows.
  async fn kill_all(&self) -> Result<()> {
    let dismissed = async {
      for operation in &self.link.welcome().operations {
        self.link.dismiss(operation.op).await?;
      }
      Ok(())
    };
    self.operate(FILE_OPERATION_TIMEOUT, "Ending the commands of an earlier holder", dismissed).await
  }

  fn detach(&self) {
    self.link.close();
  }
}

fn overdue(what: &str, limit: Duration) -> Error {
  fail!(ContainerLost, "{what} was not over after {} s, beyond every deadline inside", limit.as_secs())
}

fn unexpected(what: &str) -> Error {
  fail!(
    ContainerLost,
    "The sandbox's process 1 answered {what} with something else: it is not our supervisor."
  )
}
