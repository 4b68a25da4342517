//! What a host can ask for. Each opens an operation under the frame's id, which must not be in use.
//!
//! `window` is how many bytes the supervisor may send of each stream of the operation before the host grants more.

use super::codec::{Put, Reader};
use super::{RelativePath, Strings, WireError};
use crate::limits::{MAX_ARGS, MAX_ARGS_BYTES, MAX_ENV_BYTES, MAX_ENV_VARS};

/// Reads a part of a regular file: [`Started::File`](super::Started), its bytes on the output stream,
/// [`Reply::Read`](super::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFile<'a> {
  /// Bytes that may be sent before more is granted.
  pub window: u32,
  /// First byte.
  pub offset: u64,
  /// Most bytes.
  pub limit: u64,
  /// The file.
  pub path: RelativePath<'a>,
}

/// [`WriteFile::size`] of a file whose size nobody knows before its end.
pub const UNTIL_END: u64 = u64::MAX;

/// Writes a file whole or not at all. Its bytes come on the input stream, then the stream's end;
/// [`Reply::Written`](super::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFile<'a> {
  /// Permission bits.
  pub mode: u32,
  /// How many bytes come; fewer or more leave the old file as it was. [`UNTIL_END`]: all that come before the end.
  pub size: u64,
  /// An existing file is replaced; otherwise it is `Exists`.
  pub overwrite: bool,
  /// The file; directories on the way are made, with mode 0755.
  pub path: RelativePath<'a>,
}

/// Lists a directory: [`Entry`](super::Entry) after entry on the output stream, sorted by their paths' bytes;
/// [`Reply::Listed`](super::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<'a> {
  /// Bytes that may be sent before more is granted.
  pub window: u32,
  /// Levels; 1: the directory's own entries.
  pub depth: u32,
  /// Most entries.
  pub limit: u32,
  /// The directory.
  pub path: RelativePath<'a>,
}

/// Runs a command. [`Started::Command`](super::Started); its output; `Exited` when it and all it started are gone;
/// [`Reply::Command`](super::Reply) after the end of both output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exec<'a> {
  /// Bytes of each output stream that may be sent before more is granted.
  pub window: u32,
  /// It is killed after so many milliseconds; 0: no limit.
  pub timeout_ms: u64,
  /// Most bytes of standard output; one more is `OutputLimit`.
  pub max_stdout: u64,
  /// Most bytes of standard error.
  pub max_stderr: u64,
  /// Input comes on the input stream; otherwise it reads from `/dev/null`.
  pub stdin: bool,
  /// Where it starts.
  pub cwd: RelativePath<'a>,
  /// Program and arguments; a program without a slash is looked up in the `PATH` among `env`.
  pub argv: Strings<'a>,
  /// All of its variables, each `NAME=value`.
  pub env: Strings<'a>,
}

/// Packs the workspace: a tar on the output stream; [`Reply::Tar`](super::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TarOut {
  /// Bytes that may be sent before more is granted.
  pub window: u32,
  /// Most bytes of the tar; more is `TooLarge`.
  pub max_bytes: u64,
  /// Most entries.
  pub max_entries: u32,
}

/// Unpacks a tar into the workspace. The tar comes on the input stream; [`Reply::Tar`](super::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TarIn {
  /// Most bytes of the tar; more is `TooLarge`.
  pub max_bytes: u64,
  /// Most entries.
  pub max_entries: u32,
}

impl<'a> ReadFile<'a> {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u32(self.window);
    out.put_u64(self.offset);
    out.put_u64(self.limit);
    self.path.write(out);
  }

  pub(super) fn read(from: &mut Reader<'a>) -> Result<Self, WireError> {
    Ok(Self { window: from.u32()?, offset: from.u64()?, limit: from.u64()?, path: RelativePath::read(from)? })
  }
}

impl<'a> WriteFile<'a> {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u32(self.mode);
    out.put_u64(self.size);
    out.put_flag(self.overwrite);
    self.path.write(out);
  }

  pub(super) fn read(from: &mut Reader<'a>) -> Result<Self, WireError> {
    let mode = from.u32()?;
    if mode > 0o777 {
      return Err(WireError::Invalid);
    }
    Ok(Self { mode, size: from.u64()?, overwrite: from.flag()?, path: RelativePath::read(from)? })
  }
}

impl<'a> List<'a> {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u32(self.window);
    out.put_u32(self.depth);
    out.put_u32(self.limit);
    self.path.write(out);
  }

  pub(super) fn read(from: &mut Reader<'a>) -> Result<Self, WireError> {
    Ok(Self { window: from.u32()?, depth: from.u32()?, limit: from.u32()?, path: RelativePath::read(from)? })
  }
}

impl<'a> Exec<'a> {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u32(self.window);
    out.put_u64(self.timeout_ms);
    out.put_u64(self.max_stdout);
    out.put_u64(self.max_stderr);
    out.put_flag(self.stdin);
    self.cwd.write(out);
    self.argv.write(out);
    self.env.write(out);
  }

  pub(super) fn read(from: &mut Reader<'a>) -> Result<Self, WireError> {
    let exec = Self {
      window: from.u32()?,
      timeout_ms: from.u64()?,
      max_stdout: from.u64()?,
      max_stderr: from.u64()?,
      stdin: from.flag()?,
      cwd: RelativePath::read(from)?,
      argv: Strings::read(from, MAX_ARGS, MAX_ARGS_BYTES)?,
      env: Strings::read(from, MAX_ENV_VARS, MAX_ENV_BYTES)?,
    };
    let named = exec.argv.iter().next().is_some_and(|program| !program.is_empty());
    if named { Ok(exec) } else { Err(WireError::Invalid) }
  }
}

impl TarOut {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u32(self.window);
    out.put_u64(self.max_bytes);
    out.put_u32(self.max_entries);
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    Ok(Self { window: from.u32()?, max_bytes: from.u64()?, max_entries: from.u32()? })
  }
}

impl TarIn {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u64(self.max_bytes);
    out.put_u32(self.max_entries);
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    Ok(Self { max_bytes: from.u64()?, max_entries: from.u32()? })
  }
}
