//! What a session does in its container. Arguments are checked here, whoever calls: tools or the application.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::changes::By;
use super::event::Operation;
use super::observe::DONE;
use super::session::Session;
use crate::cancel::Cancel;
use crate::docker::Stdin;
use crate::error::{Result, fail};
use crate::sandbox::{Command, CommandResult, FileRange, Listing};
use crate::workspace::path::WorkspacePath;
use crate::workspace::policy::{self, Decision};

/// Permission bits of a written file unless told otherwise.
pub const DEFAULT_FILE_MODE: u32 = 0o644;
/// Entries of a listing unless told otherwise.
pub const DEFAULT_LIST_LIMIT: usize = 1_000;
/// Most entries of a listing.
pub const MAX_LIST_LIMIT: usize = 10_000;
/// Deepest listing.
pub const MAX_LIST_DEPTH: u32 = 64;

/// A command as a caller asks for it.
#[derive(Default)]
pub struct ExecArguments {
  /// Bare name, or path of an executable in `/bin` or `/usr/bin`.
  pub command: String,
  /// Its arguments.
  pub args: Vec<String>,
  /// Directory in the workspace; the workspace itself unless given.
  pub cwd: Option<String>,
  /// Variables on top of the environment's.
  pub env: BTreeMap<String, String>,
  /// What it reads.
  pub stdin: Option<Stdin>,
  /// Time limit; one above the environment's is that one.
  pub timeout: Option<Duration>,
}

impl ExecArguments {
  /// Size of the input, as far as it is known.
  pub(super) fn stdin_bytes(&self) -> usize {
    match &self.stdin {
      Some(Stdin::Bytes(bytes)) => bytes.len(),
      // The size of a stream is nobody's to know.
      Some(Stdin::Stream(_) | Stdin::Empty) | None => 0,
    }
  }
}

impl Session {
  /// Reads a part of a file: `limit` bytes from `offset`, at most `limits.maxFileBytes`.
  pub async fn read_file(
    &self,
    path: &str,
    offset: u64,
    limit: Option<u64>,
    caller: &Cancel,
  ) -> Result<(WorkspacePath, FileRange)> {
    let work = self.read_checked(path, offset, limit, caller);
    self.observed(Operation::ReadFile, 0, work, |(_, range)| (DONE, range.data.len())).await
  }

  async fn read_checked(
    &self,
    path: &str,
    offset: u64,
    limit: Option<u64>,
    caller: &Cancel,
  ) -> Result<(WorkspacePath, FileRange)> {
    let path = WorkspacePath::parse(path)?;
    let cap = self.core().options.limits.max_file_bytes;
    let limit = limit.unwrap_or(cap).min(cap);
    let range = self
      .operate(caller, |cancel| {
        let path = path.clone();
        async move {
          let _place = self.places().take_for_file(&cancel).await?;
          self.sandbox().read_file(&path, offset, limit, &cancel).await
        }
      })
      .await?;
    Ok((path, range))
  }

  /// Writes a file whole; returns its path and size.
  pub async fn write_file(
    &self,
    path: &str,
    contents: Bytes,
    mode: Option<u32>,
    caller: &Cancel,
  ) -> Result<(WorkspacePath, u64)> {
    let (size, work) = (contents.len(), self.write_checked(path, contents, mode, caller));
    self.observed(Operation::WriteFile, size, work, |_| (DONE, 0)).await
  }

  async fn write_checked(
    &self,
    path: &str,
    contents: Bytes,
    mode: Option<u32>,
    caller: &Cancel,
  ) -> Result<(WorkspacePath, u64)> {
    let path = WorkspacePath::parse(path)?;
    let (size, cap) = (contents.len() as u64, self.core().options.limits.max_file_bytes);
    if size > cap {
      return Err(fail!(
        Limit,
        "Cannot write {path}: it has {size} bytes and limits.maxFileBytes allows {cap}. Write it in parts with a command, or raise the limit."
      ));
    }
    let mode = checked_mode(&path, mode)?;
    self
      .operate(caller, |cancel| {
        let path = path.clone();
        async move {
          let _place = self.places().take_for_file(&cancel).await?;
          let _change = self.begin_change(By::Write).await?;
          self.sandbox().write_file(&path, contents, mode, &cancel).await
        }
      })
      .await?;
    Ok((path, size))
  }

  /// Lists a directory.
  pub async fn list(
    &self,
    path: &str,
    depth: Option<u32>,
    limit: Option<usize>,
    caller: &Cancel,
  ) -> Result<(WorkspacePath, Listing)> {
    let work = self.list_checked(path, depth, limit, caller);
    let paths = |listing: &Listing| listing.entries.iter().map(|entry| entry.path.len()).sum();
    self.observed(Operation::List, 0, work, |(_, listing)| (DONE, paths(listing))).await
  }

  async fn list_checked(
    &self,
    path: &str,
    depth: Option<u32>,
    limit: Option<usize>,
    caller: &Cancel,
  ) -> Result<(WorkspacePath, Listing)> {
    let path = WorkspacePath::parse(path)?;
    let depth = depth.unwrap_or(1).clamp(1, MAX_LIST_DEPTH);
    let limit = limit.unwrap_or(DEFAULT_LIST_LIMIT).clamp(1, MAX_LIST_LIMIT);
    let listing = self
      .operate(caller, |cancel| {
        let path = path.clone();
        async move {
          let _place = self.places().take_for_file(&cancel).await?;
          self.sandbox().list(&path, depth, limit, &cancel).await
        }
      })
      .await?;
    Ok((path, listing))
  }

  /// Runs a command to its end.
  pub async fn exec(&self, arguments: ExecArguments, caller: &Cancel) -> Result<CommandResult> {
    let stdin = arguments.stdin_bytes();
    let work = async {
      let command = self.checked_command(arguments)?;
      self
        .operate(caller, |cancel| async move {
          let _place = self.places().take(false, &cancel).await?;
          let _change = self.begin_change(By::Command).await?;
          self.sandbox().exec(command, &cancel).await
        })
        .await
    };
    let seen = |result: &CommandResult| (result.outcome.as_str(), result.stdout.len() + result.stderr.len());
    self.observed(Operation::Exec, stdin, work, seen).await
  }

  pub(super) fn checked_command(&self, arguments: ExecArguments) -> Result<Command> {
    let options = &self.core().options;
    let program = match policy::decide(&options.shell, options.workspace.exec, &arguments.command) {
      Decision::Allow { program } => program,
      Decision::Deny { reason } => return Err(fail!(Denied, "{reason}")),
    };
    policy::check_args(&arguments.args)?;
    policy::check_env(&arguments.env)?;
    let cwd = WorkspacePath::parse(arguments.cwd.as_deref().unwrap_or_default())?;
    let longest = options.limits.command_timeout;
    Ok(Command {
      program,
      args: arguments.args,
      cwd,
      env: arguments.env,
      stdin: arguments.stdin.unwrap_or(Stdin::Empty),
      timeout: Some(arguments.timeout.unwrap_or(longest).min(longest)),
      max_output_bytes: options.limits.max_output_bytes,
    })
  }
}

/// Permission bits for a file that is written.
pub(super) fn checked_mode(path: &WorkspacePath, mode: Option<u32>) -> Result<u32> {
  let mode = mode.unwrap_or(DEFAULT_FILE_MODE);
  if mode > 0o777 {
    return Err(fail!(
      PathInvalid,
      "Cannot write {path} with mode {mode:o}; it may be permission bits up to 777 (octal)."
    ));
  }
  Ok(mode)
}
