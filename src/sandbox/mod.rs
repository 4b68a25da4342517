//! What can be done in one running container: one trait, with an implementation for each transport.

pub mod connections;
pub mod exec;
pub mod output;
pub mod resident;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::cancel::Cancel;
use crate::docker::{ByteStream, Stdin};
use crate::error::Result;
use crate::workspace::path::WorkspacePath;
use output::{OutputWriter, ProcessEnd};

/// How a command ended. Never guessed: a transport reports only what it can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
  /// It returned its exit code.
  Exited,
  /// A signal that was not ours ended it.
  Signaled,
  /// Its time limit passed.
  TimedOut,
  /// It wrote more than the cap.
  OutputLimit,
  /// The kernel killed it for memory.
  Oom,
  /// It never ran: no such program, not executable, no such working directory.
  NotStarted,
}

impl Outcome {
  /// The public string.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Exited => "exited",
      Self::Signaled => "signaled",
      Self::TimedOut => "timed_out",
      Self::OutputLimit => "output_limit",
      Self::Oom => "oom",
      Self::NotStarted => "not_started",
    }
  }
}

/// What a transport can do and tell.
#[derive(Clone, Debug)]
pub struct Capabilities {
  /// `exec` or `resident`.
  pub transport: &'static str,
  /// Which outcomes it can tell apart.
  pub outcomes: &'static [Outcome],
  /// No gap between checking a path and using it.
  pub race_free_paths: bool,
  /// Nothing that a command started is left once it has ended.
  pub commands_end: bool,
  /// Most operations at once but for streams and snapshots; others wait for their turn on this side.
  pub most_operations: usize,
  /// Of these, most commands, whatever the environment allows.
  pub most_commands: u32,
  /// And most operations on files.
  pub most_file_operations: usize,
}

/// A part of a file.
#[derive(Clone, Debug)]
pub struct FileRange {
  /// The bytes asked for, fewer at the end of the file.
  pub data: Bytes,
  /// Size of the whole file.
  pub size: u64,
  /// Permission bits.
  pub mode: u32,
}

/// What a listing says an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryType {
  /// A regular file.
  File,
  /// A directory.
  Directory,
  /// A symbolic link, never followed.
  Symlink,
  /// A pipe, a socket, a device.
  Other,
}

/// One entry of a listing.
#[derive(Clone, Debug)]
pub struct ListEntry {
  /// Path relative to the workspace; bytes that are no UTF-8 became U+FFFD.
  pub path: String,
  /// What it is.
  pub kind: EntryType,
  /// Size in bytes; 0 for what is no regular file.
  pub size: u64,
  /// Permission bits.
  pub mode: u32,
}

/// A listing, sorted by path in byte order.
#[derive(Clone, Debug, Default)]
pub struct Listing {
  /// The entries.
  pub entries: Vec<ListEntry>,
  /// There are more.
  pub truncated: bool,
}

/// A command for the sandbox. It was checked by the policy before.
pub struct Command {
  /// Bare name or absolute path of the program.
  pub program: String,
  /// Its arguments.
  pub args: Vec<String>,
  /// Where it starts.
  pub cwd: WorkspacePath,
  /// Variables of this command on top of the environment's.
  pub env: BTreeMap<String, String>,
  /// What it reads.
  pub stdin: Stdin,
  /// Its time limit, if it has one.
  pub timeout: Option<Duration>,
  /// Cap in bytes, of each of the two streams.
  pub max_output_bytes: u64,
}

/// What a command did.
#[derive(Clone, Debug)]
pub struct CommandResult {
  /// Its exit code; `None` where it has none or nobody knows it.
  pub exit_code: Option<i64>,
  /// The name of the signal that ended it (`SIGSEGV`), where the transport can tell.
  pub signal: Option<&'static str>,
  /// How it ended.
  pub outcome: Outcome,
  /// Standard output, at most the cap.
  pub stdout: Vec<u8>,
  /// Standard error, at most the cap.
  pub stderr: Vec<u8>,
  /// One of the caps was reached.
  pub truncated: bool,
  /// From the request to the result, our side's clock.
  pub duration: Duration,
}

/// A file that is read piece by piece.
pub struct FileStream {
  /// Size of the whole file when it was opened; no more than that is read.
  pub size: u64,
  /// Permission bits.
  pub mode: u32,
  /// The bytes asked for; fewer where the file ends before.
  pub bytes: ByteStream,
}

/// A tar of the workspace: hostile data until checked.
pub struct Export {
  /// The tar.
  pub tar: ByteStream,
  /// The one directory that all its entries are in; `None` where their names begin at the workspace.
  pub base: Option<&'static str>,
}

/// A running container with a workspace.
#[async_trait]
pub trait Sandbox: Send + Sync {
  /// What this transport can do.
  fn capabilities(&self) -> &Capabilities;
  /// Reads `limit` bytes from `offset` of a regular file.
  async fn read_file(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
  ) -> Result<FileRange>;
  /// Writes a file whole, or not at all; parents are made.
  async fn write_file(&self, path: &WorkspacePath, contents: Bytes, mode: u32, cancel: &Cancel)
  -> Result<()>;
  /// Reads a file of any size, `limit` bytes from `offset`.
  async fn read_stream(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
  ) -> Result<FileStream>;
  /// Writes a file of any size whole, or not at all: an error of `contents` leaves the old one. The size that it has now.
  async fn write_stream(
    &self,
    path: &WorkspacePath,
    contents: ByteStream,
    mode: u32,
    cancel: &Cancel,
  ) -> Result<u64>;
  /// Lists a directory, `depth` levels deep (1: its own entries), at most `limit` entries.
  async fn list(&self, path: &WorkspacePath, depth: u32, limit: usize, cancel: &Cancel) -> Result<Listing>;
  /// Runs a command to its end.
  async fn exec(&self, command: Command, cancel: &Cancel) -> Result<CommandResult>;
  /// Runs a command to its end, its output to `output` as it comes; where there is no room, the command is held back.
  /// Its cap does not count. The end is told to `output` too, as soon as it is known.
  async fn stream(&self, command: Command, output: &OutputWriter, cancel: &Cancel) -> Result<ProcessEnd>;
  /// Unpacks a tar of ours into the workspace.
  async fn import(&self, tar: ByteStream, cancel: &Cancel) -> Result<()>;
  /// The workspace as the container packs it.
  async fn export(&self, max_bytes: u64, cancel: &Cancel) -> Result<Export>;
  /// Ends every command that still runs, whoever started it.
  async fn kill_all(&self) -> Result<()>;
  /// False once its container is known to serve nobody any more.
  fn is_alive(&self) -> bool {
    true
  }
  /// From now on the container ends itself after `silence` without its holder, where it can at all.
  async fn outlive(&self, _silence: Duration) -> Result<()> {
    Ok(())
  }
  /// Lets go of the container, so that the next holder has it to itself; it goes on running. Nothing can be done with
  /// this afterwards.
  fn detach(&self) {}
}
