//! The resident transport: every operation is a channel of one stream to our own process 1 of the container. It needs
//! nothing of the image, has no gap between checking a path and using it, and knows how a command ended.

mod command;
mod connections;
mod container;
mod file_streams;
mod files;
mod listing;
mod pieces;
mod process;
mod turn;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};

pub use container::{Container, StillHeld};
use watch::{Patience, Watch};

use super::output::{OutputWriter, ProcessEnd};
use super::{Capabilities, Command, CommandResult, Export, FileRange, FileStream, Listing, Outcome, Sandbox};
use crate::cancel::Cancel;
use crate::docker::ByteStream;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::supervisor::link::{Link, Operation};
use crate::supervisor::wire::{Capability, MAX_ACTIVE, ToInside};
use crate::workspace::path::WorkspacePath;

/// What is under way, for messages.
const FILLING: &str = "Filling the workspace";
const PACKING: &str = "Reading the workspace";

/// Process 1 refuses more than `MAX_ACTIVE` operations at once; one is left to a snapshot.
const MOST_OPERATIONS: usize = MAX_ACTIVE - 1;
/// Two are left to files, however many commands there are that may never end.
const MOST_COMMANDS: u32 = (MOST_OPERATIONS - 2) as u32;
/// More of them at once are no sooner done.
const MOST_FILE_OPERATIONS: usize = 16;

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
  commands_end: true,
  most_operations: MOST_OPERATIONS,
  most_commands: MOST_COMMANDS,
  most_file_operations: MOST_FILE_OPERATIONS,
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
  container: Arc<Container>,
  link: Link,
  env: BTreeMap<String, String>,
}

impl ResidentSandbox {
  /// Over a link that was opened to this container; commands have `env` and nothing else but their own variables.
  pub fn new(container: Container, link: Link, env: BTreeMap<String, String>) -> Self {
    Self { container: Arc::new(container), link, env }
  }

  /// Runs an operation within the host's own deadlines: a supervisor that is ours keeps those that it was given, and one
  /// that is not may keep an operation open for ever.
  async fn operate<T>(
    &self,
    patience: Patience,
    what: &str,
    work: impl Future<Output = Result<T>>,
  ) -> Result<T> {
    self.settled(async { Watch::new(patience).over(&self.link, what, work).await }).await
  }

  /// Opens an operation. A process 1 that does not even read what it is asked for is not waited for, and neither is it
  /// once nobody wants it any more.
  async fn ask(&self, request: ToInside<'_>, what: &str, cancel: &Cancel) -> Result<Operation> {
    let asked = cancel.guard(what, self.link.request(request));
    Watch::new(Patience::FILE).over(&self.link, what, asked).await
  }

  /// Runs an operation that takes as long as its caller does.
  async fn settled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
    if let Some(lost) = self.container.lost() {
      return Err(lost);
    }
    match work.await {
      Err(error) => Err(settle(&self.container, &self.link, error).await),
      ended => ended,
    }
  }

  /// A stream over the link, whose errors mean what those of operations do.
  fn settling(&self, pieces: ByteStream) -> ByteStream {
    let (container, link) = (Arc::clone(&self.container), self.link.clone());
    let settled = pieces.or_else(move |error| {
      let (container, link) = (Arc::clone(&container), link.clone());
      async move { Err(settle(&container, &link, error).await) }
    });
    settled.boxed()
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
    let what = format!("Reading {path}");
    self.operate(Patience::FILE, &what, self.read(path, offset, limit, &what, cancel)).await
  }

  async fn write_file(
    &self,
    path: &WorkspacePath,
    contents: Bytes,
    mode: u32,
    cancel: &Cancel,
  ) -> Result<()> {
    let what = format!("Writing {path}");
    self.operate(Patience::FILE, &what, self.write(path, contents, mode, &what, cancel)).await
  }

  async fn list(&self, path: &WorkspacePath, depth: u32, limit: usize, cancel: &Cancel) -> Result<Listing> {
    let what = format!("Listing {path}");
    self.operate(Patience::FILE, &what, self.entries(path, depth, limit, &what, cancel)).await
  }

  async fn exec(&self, command: Command, cancel: &Cancel) -> Result<CommandResult> {
    let patience = Patience::command(command.timeout.unwrap_or(Duration::MAX));
    self.operate(patience, command::WHAT, self.run(command, cancel)).await
  }

  async fn stream(&self, command: Command, output: &OutputWriter, cancel: &Cancel) -> Result<ProcessEnd> {
    self.settled(self.run_streamed(command, output, cancel)).await
  }

  async fn read_stream(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
  ) -> Result<FileStream> {
    let what = format!("Reading {path}");
    let opened = self.operate(Patience::FILE, &what, self.open_stream(path, offset, limit, cancel)).await?;
    Ok(FileStream { bytes: self.settling(opened.bytes), ..opened })
  }

  async fn write_stream(
    &self,
    path: &WorkspacePath,
    contents: ByteStream,
    mode: u32,
    cancel: &Cancel,
  ) -> Result<u64> {
    self.settled(self.write_until_end(path, contents, mode, cancel)).await
  }

  async fn import(&self, tar: ByteStream, cancel: &Cancel) -> Result<()> {
    self.operate(Patience::ARCHIVE, FILLING, self.unpack(tar, cancel)).await
  }

  async fn export(&self, max_bytes: u64, cancel: &Cancel) -> Result<Export> {
    let tar = self.operate(Patience::ARCHIVE, PACKING, self.pack(max_bytes, cancel)).await?;
    Ok(Export { tar: self.settling(tar), base: None })
  }

  /// Commands of a holder that died are operations that the supervisor still knows.
  async fn kill_all(&self) -> Result<()> {
    let what = "Ending the commands of an earlier holder";
    self.operate(Patience::FILE, what, self.link.dismiss_left()).await
  }

  fn is_alive(&self) -> bool {
    self.link.broken().is_none() && self.container.lost().is_none()
  }

  async fn outlive(&self, silence: Duration) -> Result<()> {
    self.link.outlive(silence).await
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
