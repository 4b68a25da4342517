//! File operations by one script each.

use bytes::Bytes;

use super::scripts::{DISCARD, LIST, READ, WRITE, code};
use super::{ExecSandbox, Nonce};
use crate::cancel::Cancel;
use crate::docker::{ExecEnd, ExecOutput, ExecRequest, Stdin};
use crate::error::{Error, Result, fail};
use crate::limits::{FILE_OPERATION_TIMEOUT, MAX_LIST_BYTES};
use crate::sandbox::{EntryType, FileRange, ListEntry, Listing};
use crate::workspace::path::WorkspacePath;

/// A shell's exit code for a program that a signal ended is this and the signal's number.
pub(super) const FIRST_SIGNAL: i64 = 128;
/// Kept of what a script says.
const MESSAGE_BYTES: u64 = 8192;

impl ExecSandbox {
  pub(super) async fn read(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
  ) -> Result<FileRange> {
    let (parent, name) = parent_and_name(path, "read")?;
    let args = [parent.absolute(), name, offset.to_string(), limit.to_string()];
    let output = self.script(READ, args, Stdin::Empty, limit.max(MESSAGE_BYTES), cancel).await?;
    check(&output, path, "read")?;
    let (size, mode) = size_and_mode(&output.stderr).ok_or_else(|| {
      fail!(DockerApi, "The sandbox could not tell the size of {path}; is the image's stat usual?")
    })?;
    let data = Bytes::from(output.stdout);
    let expected = size.saturating_sub(offset).min(limit);
    if data.len() as u64 != expected {
      return Err(fail!(
        DockerApi,
        "Reading {path} gave {} of {expected} bytes: it changed while it was read. Read it again.",
        data.len()
      ));
    }
    Ok(FileRange { data, size, mode })
  }

  pub(super) async fn write(
    &self,
    path: &WorkspacePath,
    contents: Bytes,
    mode: u32,
    cancel: &Cancel,
  ) -> Result<()> {
    let (parent, name) = parent_and_name(path, "write")?;
    let temporary = format!(".zhivex-{}", Nonce::new()?.as_str());
    let folders = || parent.components().map(str::to_owned);
    let args = [format!("{mode:o}"), name, temporary.clone(), contents.len().to_string()];
    let args = args.into_iter().chain(folders());
    let written = self.script(WRITE, args, Stdin::Bytes(contents), MESSAGE_BYTES, cancel).await;
    let result = written.and_then(|output| check(&output, path, "write"));
    if let Err(error) = &result
      && (error.is_cancelled() || error.code() == crate::error::ErrorCode::Timeout)
    {
      let args = std::iter::once(temporary).chain(folders());
      // What matters is the error above; a leftover of a killed container is gone with it.
      self.script(DISCARD, args, Stdin::Empty, MESSAGE_BYTES, &Cancel::new()).await.ok();
    }
    result
  }

  pub(super) async fn entries(
    &self,
    path: &WorkspacePath,
    depth: u32,
    limit: usize,
    cancel: &Cancel,
  ) -> Result<Listing> {
    let mark = Nonce::new()?;
    let args = [path.absolute(), depth.to_string(), mark.as_str().to_owned()];
    let output = self.script(LIST, args, Stdin::Empty, MAX_LIST_BYTES, cancel).await?;
    // find ends with 1 where a directory may not be read or an entry vanished; what it saw counts.
    if !matches!((output.end, output.exit_code), (ExecEnd::Truncated, _) | (ExecEnd::Finished, Some(1))) {
      check(&output, path, "list")?;
    }
    let mut entries = parse_list(&output.stdout, mark.as_str(), path);
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let truncated = entries.len() > limit || output.end == ExecEnd::Truncated;
    entries.truncate(limit);
    Ok(Listing { entries, truncated })
  }

  pub(super) async fn script(
    &self,
    script: &str,
    args: impl IntoIterator<Item = String>,
    stdin: Stdin,
    max_output_bytes: u64,
    cancel: &Cancel,
  ) -> Result<ExecOutput> {
    let words = ["/bin/sh", "-c", script, "sh"].map(str::to_owned);
    let request = ExecRequest {
      cmd: words.into_iter().chain(args).collect(),
      user: self.user.clone(),
      // What a program says is looked at (`refusal`), so it has to be said in English.
      env: vec!["LC_ALL=C".to_owned()],
      working_dir: "/".to_owned(),
      timeout: FILE_OPERATION_TIMEOUT,
      max_output_bytes,
      stdin,
      cancel: cancel.clone(),
      skip_terminate: false,
      marker: None,
      // A script that ended by itself left nothing behind.
      extra_stderr_bytes: 0,
      clean_mark: Some(String::new()),
      exclusive: false,
      tap: None,
      permit: self.permit.clone(),
    };
    let output = self.explained(self.engine.exec(&self.container, request).await).await?;
    if output.end != ExecEnd::TimedOut && output.exit_code.is_none_or(|code| code > FIRST_SIGNAL) {
      // No script of ours ends like this by itself.
      self.alive().await?;
    }
    Ok(output)
  }
}

fn parent_and_name(path: &WorkspacePath, verb: &str) -> Result<(WorkspacePath, String)> {
  match (path.parent(), path.name()) {
    (Some(parent), Some(name)) => Ok((parent, name.to_owned())),
    _ => Err(fail!(PathInvalid, "The workspace itself is a directory; name a file in it to {verb}.")),
  }
}

/// What a script's exit code says of a path.
fn check(output: &ExecOutput, path: &WorkspacePath, verb: &str) -> Result<()> {
  let said = String::from_utf8_lossy(&output.stderr);
  let said = said.trim();
  match (output.end, output.exit_code) {
    (ExecEnd::TimedOut, _) => Err(fail!(
      Timeout,
      "The attempt to {verb} {path} took longer than {} s and was given up.",
      FILE_OPERATION_TIMEOUT.as_secs()
    )),
    (ExecEnd::Truncated, _) => {
      Err(fail!(Limit, "The attempt to {verb} {path} gave more output than expected."))
    }
    (_, Some(0)) => Ok(()),
    (_, Some(exit)) => Err(refusal(exit, path, verb, said)),
    (_, None) => {
      Err(fail!(DockerApi, "The attempt to {verb} {path} ended and the engine knows no exit code."))
    }
  }
}

fn refusal(exit: i64, path: &WorkspacePath, verb: &str, said: &str) -> Error {
  let said: String = said.chars().take(300).collect();
  match exit {
    code::LINK => {
      fail!(PathInvalid, "Cannot {verb} {path}: a symbolic link is on the way, and links are never followed.")
    }
    code::NO_PARENT | code::MISSING => {
      fail!(
        NotFound,
        "Cannot {verb} {path}: it does not exist in the workspace. List the directory to see what does."
      )
    }
    code::DIRECTORY => {
      fail!(PathInvalid, "Cannot {verb} {path}: it is a directory. Name a file, or list it instead.")
    }
    code::SPECIAL => fail!(PathInvalid, "Cannot {verb} {path}: it is no regular file."),
    code::NOT_A_DIRECTORY => {
      fail!(PathInvalid, "Cannot {verb} {path}: something on the way is no directory, or may not be entered.")
    }
    code::CUT => fail!(
      DockerApi,
      "Cannot {verb} {path}: not all bytes reached the sandbox. Nothing was changed; try again."
    ),
    _ if said.contains("No space left") || said.contains("quota exceeded") => {
      fail!(
        Limit,
        "Cannot {verb} {path}: the workspace is full. Remove files, or raise limits.maxWorkspaceBytes."
      )
    }
    killed if killed > FIRST_SIGNAL => fail!(
      DockerApi,
      "The attempt to {verb} {path} was killed in the sandbox (exit code {killed}); it may be short of memory. Try again."
    ),
    // Whatever refuses something says so.
    _ if said.is_empty() => fail!(
      DockerApi,
      "The attempt to {verb} {path} ended in the sandbox without a word (exit code {exit}); it may be short of memory. Try again."
    ),
    _ => fail!(Denied, "Cannot {verb} {path}: the sandbox refused it ({said})."),
  }
}

fn size_and_mode(stderr: &[u8]) -> Option<(u64, u32)> {
  let text = std::str::from_utf8(stderr).ok()?;
  let (size, mode) = text.lines().next()?.trim().split_once(' ')?;
  Some((size.parse().ok()?, u32::from_str_radix(mode, 8).ok()? & 0o7777))
}

/// Entries are parted by a random mark, since a name may hold any byte but NUL and `/`.
fn parse_list(stdout: &[u8], mark: &str, dir: &WorkspacePath) -> Vec<ListEntry> {
  let mut entries = Vec::new();
  let mut rest = stdout;
  while let Some(at) = find(rest, mark.as_bytes()) {
    let after = rest.get(at + mark.len()..).unwrap_or_default();
    let end = find(after, mark.as_bytes()).unwrap_or(after.len());
    let (record, next) = after.split_at(end);
    rest = next;
    // A record that was cut has lost its line end.
    if let Some(entry) = record.strip_suffix(b"\n").and_then(|record| parse_entry(record, dir)) {
      entries.push(entry);
    }
  }
  entries
}

fn parse_entry(record: &[u8], dir: &WorkspacePath) -> Option<ListEntry> {
  let mut fields = record.splitn(3, |byte| *byte == b' ');
  let raw_mode = u32::from_str_radix(std::str::from_utf8(fields.next()?).ok()?, 16).ok()?;
  let size = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
  let name = String::from_utf8_lossy(fields.next()?.strip_prefix(b"./")?).into_owned();
  let path = if dir.is_root() { name } else { format!("{}/{name}", dir.as_str()) };
  // The type bits of st_mode (inode(7)).
  let kind = match raw_mode & 0o170_000 {
    0o100_000 => EntryType::File,
    0o040_000 => EntryType::Directory,
    0o120_000 => EntryType::Symlink,
    _ => EntryType::Other,
  };
  let size = if kind == EntryType::File { size } else { 0 };
  Some(ListEntry { path, kind, size, mode: raw_mode & 0o7777 })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
  haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::error::ErrorCode;

  #[test]
  fn only_what_was_said_to_be_refused_is_denied() {
    let path = WorkspacePath::parse("f").unwrap();
    let refused = refusal(1, &path, "read", "Permission denied");
    assert_eq!(refused.code(), ErrorCode::Denied);
    assert!(refused.message().contains("refused it (Permission denied)"), "{refused}");
    for exit in [1, 2, 126] {
      let silent = refusal(exit, &path, "read", "");
      assert_eq!(silent.code(), ErrorCode::DockerApi);
      assert!(silent.message().contains("short of memory"), "{silent}");
    }
  }

  #[test]
  fn names_may_hold_anything() {
    let dir = WorkspacePath::parse("d").unwrap();
    let entries = parse_list(
      b"##81a4 5 ./a\nb\n##41ed 4096 ./ x\n##a1ff 3 ./l\n##11a4 0 ./p\n##81a4 9 ./cut",
      "##",
      &dir,
    );
    let seen: Vec<_> = entries.iter().map(|e| (e.path.as_str(), e.kind, e.size, e.mode)).collect();
    assert_eq!(
      seen,
      [
        ("d/a\nb", EntryType::File, 5, 0o644),
        ("d/ x", EntryType::Directory, 0, 0o755),
        ("d/l", EntryType::Symlink, 0, 0o777),
        ("d/p", EntryType::Other, 0, 0o644),
      ]
    );
  }
}
