//! Files over the supervisor.

use bytes::Bytes;

use super::command::relative;
use super::pieces::{self, Pieces};
use super::watch::Patience;
use super::{FILLING, PACKING, ResidentSandbox, listing, unexpected};
use crate::cancel::Cancel;
use crate::docker::{ByteStream, Stdin};
use crate::error::{Error, Result, fail};
use crate::limits::{MAX_ARCHIVE_ENTRIES, MAX_LIST_BYTES};
use crate::sandbox::{FileRange, Listing};
use crate::supervisor::link::{Event, WINDOW};
use crate::supervisor::wire::{
  Failed, Failure, List, ReadFile, Reply, Started, Stream, TarIn, TarOut, ToInside, WriteFile,
};
use crate::workspace::path::WorkspacePath;

impl ResidentSandbox {
  pub(super) async fn read(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    what: &str,
    cancel: &Cancel,
  ) -> Result<FileRange> {
    let request = ReadFile { window: WINDOW, offset, limit, path: relative(path.as_str())? };
    let operation = self.ask(ToInside::ReadFile(request), what, cancel).await?;
    let mut data = Vec::new();
    let reply = operation.run(Stdin::Empty, what, cancel, |event| {
      let Some(bytes) = output(event, "a read")? else { return Ok(()) };
      if (data.len() + bytes.len()) as u64 > limit {
        return Err(unexpected("a read"));
      }
      data.extend_from_slice(&bytes);
      Ok(())
    });
    match reply.await? {
      Reply::Read(read) if read.sent == data.len() as u64 => {
        Ok(FileRange { data: data.into(), size: read.size, mode: read.mode & 0o7777 })
      }
      Reply::Failed(failed) => Err(failure(failed, "read", path)),
      _ => Err(unexpected("a read")),
    }
  }

  pub(super) async fn write(
    &self,
    path: &WorkspacePath,
    contents: Bytes,
    mode: u32,
    what: &str,
    cancel: &Cancel,
  ) -> Result<()> {
    let size = contents.len() as u64;
    let request = WriteFile { mode, size, overwrite: true, path: relative(path.as_str())? };
    let operation = self.ask(ToInside::WriteFile(request), what, cancel).await?;
    match operation.run(Stdin::Bytes(contents), what, cancel, |event| silent(event, "a write")).await? {
      Reply::Written(written) if written.size == size => Ok(()),
      Reply::Failed(failed) => Err(failure(failed, "write", path)),
      _ => Err(unexpected("a write")),
    }
  }

  pub(super) async fn entries(
    &self,
    path: &WorkspacePath,
    depth: u32,
    limit: usize,
    what: &str,
    cancel: &Cancel,
  ) -> Result<Listing> {
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let request = List { window: WINDOW, depth, limit: most, path: relative(path.as_str())? };
    let operation = self.ask(ToInside::List(request), what, cancel).await?;
    let mut bytes = Vec::new();
    let reply = operation.run(Stdin::Empty, what, cancel, |event| {
      let Some(piece) = output(event, "a listing")? else { return Ok(()) };
      if (bytes.len() + piece.len()) as u64 > MAX_LIST_BYTES {
        return Err(fail!(
          Limit,
          "The listing of {path} is longer than {MAX_LIST_BYTES} bytes; list less of it."
        ));
      }
      bytes.extend_from_slice(&piece);
      Ok(())
    });
    match reply.await? {
      Reply::Listed(listed) => {
        let mut entries = listing::parse(&bytes, path, depth, limit)?;
        if entries.len() != listed.entries as usize {
          return Err(unexpected("a listing"));
        }
        // What was no UTF-8 may have another place now.
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Listing { entries, truncated: listed.truncated })
      }
      Reply::Failed(failed) => Err(failure(failed, "list", path)),
      _ => Err(unexpected("a listing")),
    }
  }

  pub(super) async fn unpack(&self, tar: ByteStream, cancel: &Cancel) -> Result<()> {
    let request = TarIn { max_bytes: u64::MAX, max_entries: entries_cap() };
    let operation = self.ask(ToInside::TarIn(request), FILLING, cancel).await?;
    let quiet = |event| silent(event, "an archive");
    match operation.run(Stdin::Stream(tar), FILLING, cancel, quiet).await? {
      Reply::Tar(done) if done.skipped == 0 => Ok(()),
      Reply::Tar(done) => Err(fail!(DockerApi, "{} files of the workspace were not unpacked.", done.skipped)),
      Reply::Failed(failed) => Err(failure(failed, "fill", &"the workspace")),
      _ => Err(unexpected("an archive")),
    }
  }

  pub(super) async fn pack(&self, max_bytes: u64, cancel: &Cancel) -> Result<ByteStream> {
    let request = TarOut { window: WINDOW, max_bytes, max_entries: entries_cap() };
    let operation = self.ask(ToInside::TarOut(request), PACKING, cancel).await?;
    let (link, cancel, what) = (self.link.clone(), cancel.clone(), PACKING.to_owned());
    Ok(Pieces { operation, link, cancel, what, kind: Tar, most: max_bytes }.stream())
  }
}

/// The workspace on its way out.
struct Tar;

impl pieces::Kind for Tar {
  const NAME: &'static str = "an archive";
  const PATIENCE: Patience = Patience::ARCHIVE;
  const EACH: bool = false;

  fn sent(reply: &Reply) -> Option<u64> {
    match reply {
      Reply::Tar(done) => Some(done.bytes),
      _ => None,
    }
  }

  fn failure(&self, failed: Failed) -> Error {
    failure(failed, "read", &"the workspace")
  }
}

/// The bytes of an operation that has one output; a file or an archive has no errors to write, and nothing to read to us.
pub(super) fn output(event: Event, what: &str) -> Result<Option<Bytes>> {
  match event {
    Event::Data(Stream::Output, bytes) => Ok(Some(bytes)),
    Event::Data(..) | Event::Exited(_) | Event::Started(Started::Command { .. }) => Err(unexpected(what)),
    _ => Ok(None),
  }
}

/// An operation that has no output.
pub(super) fn silent(event: Event, what: &str) -> Result<()> {
  output(event, what)?.map_or(Ok(()), |_bytes| Err(unexpected(what)))
}

fn entries_cap() -> u32 {
  u32::try_from(MAX_ARCHIVE_ENTRIES).unwrap_or(u32::MAX)
}

/// Why an operation on a path came to nothing, as the other transport says it.
pub(super) fn failure(failed: Failed, verb: &str, path: &dyn std::fmt::Display) -> Error {
  let Failed { failure, errno } = failed;
  match failure {
    Failure::NotFound => fail!(
      NotFound,
      "Cannot {verb} {path}: it does not exist in the workspace. List the directory to see what does."
    ),
    Failure::Link => {
      fail!(PathInvalid, "Cannot {verb} {path}: a symbolic link is on the way, and links are never followed.")
    }
    Failure::Directory => {
      fail!(PathInvalid, "Cannot {verb} {path}: it is a directory. Name a file, or list it instead.")
    }
    Failure::NotDirectory => {
      fail!(PathInvalid, "Cannot {verb} {path}: something on the way is no directory, or may not be entered.")
    }
    Failure::Special => fail!(PathInvalid, "Cannot {verb} {path}: it is no regular file."),
    Failure::Denied => fail!(Denied, "Cannot {verb} {path}: permission denied."),
    Failure::Busy => {
      fail!(Denied, "Cannot {verb} {path}: a program in the sandbox holds a lease on it. Try again.")
    }
    Failure::Exists => fail!(Denied, "Cannot {verb} {path}: it exists already."),
    Failure::NoSpace => fail!(
      Limit,
      "Cannot {verb} {path}: the workspace is full. Remove files, or raise limits.maxWorkspaceBytes."
    ),
    Failure::TooLarge => fail!(Limit, "Cannot {verb} {path}: it is larger than allowed."),
    Failure::Cut => fail!(
      DockerApi,
      "Cannot {verb} {path}: not all bytes reached the sandbox. Nothing was changed; try again."
    ),
    // Who asked for it does not wait for what it came to.
    Failure::Cancelled => unexpected(&format!("the attempt to {verb} {path}")),
    Failure::TooMany => {
      fail!(Limit, "Cannot {verb} {path}: too many operations at once; wait for some to end.")
    }
    Failure::BadRequest | Failure::Flow | Failure::InUse => {
      fail!(
        Internal,
        "The sandbox's supervisor did not accept the request to {verb} {path} ({failure:?}). Please report this."
      )
    }
    Failure::Unsupported => fail!(Unsupported, "The sandbox's supervisor cannot {verb} {path}."),
    Failure::BadArchive => {
      fail!(SnapshotInvalid, "Cannot {verb} {path}: the archive is malformed or holds what is not accepted.")
    }
    Failure::System => {
      fail!(Denied, "Cannot {verb} {path}: the container's kernel refused it (error {errno} of Linux).")
    }
  }
}
