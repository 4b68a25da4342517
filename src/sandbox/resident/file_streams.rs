//! Files of any size over the supervisor, piece by piece.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;

use super::command::relative;
use super::files::{failure, output, silent};
use super::{ResidentSandbox, unexpected};
use crate::cancel::Cancel;
use crate::docker::{ByteStream, Stdin};
use crate::error::{Result, fail};
use crate::limits::FILE_OPERATION_TIMEOUT;
use crate::sandbox::FileStream;
use crate::supervisor::link::{Event, Link, Operation, WINDOW};
use crate::supervisor::wire::{ReadFile, Reply, Started, ToInside, UNTIL_END, WriteFile};
use crate::workspace::path::WorkspacePath;

impl ResidentSandbox {
  /// Opens a file for reading.
  pub(super) async fn open_stream(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    cancel: &Cancel,
  ) -> Result<FileStream> {
    let request = ReadFile { window: WINDOW, offset, limit, path: relative(path.as_str())? };
    let mut operation = self.link.request(ToInside::ReadFile(request)).await?;
    let what = format!("Reading {path}");
    let (size, mode) = match cancel.guard(&what, operation.next()).await? {
      Event::Started(Started::File { size, mode }) => (size, mode & 0o7777),
      Event::Done(Reply::Failed(failed)) => return Err(failure(failed, "read", path)),
      _ => return Err(unexpected("a read")),
    };
    let left = size.saturating_sub(offset).min(limit);
    let (link, path, cancel) = (self.link.clone(), path.clone(), cancel.clone());
    let reading = Reading { operation, link, path, what, cancel, read: 0, left };
    let pieces = stream::try_unfold(reading, |mut reading| async move {
      Ok(reading.next().await?.map(|bytes| (bytes, reading)))
    });
    Ok(FileStream { size, mode, bytes: pieces.boxed() })
  }

  /// Writes a file until its contents end.
  pub(super) async fn write_until_end(
    &self,
    path: &WorkspacePath,
    contents: ByteStream,
    mode: u32,
    cancel: &Cancel,
  ) -> Result<u64> {
    let request = WriteFile { mode, size: UNTIL_END, overwrite: true, path: relative(path.as_str())? };
    let operation = self.link.request(ToInside::WriteFile(request)).await?;
    let sent = Arc::new(AtomicU64::new(0));
    let counted = contents.inspect_ok({
      let sent = Arc::clone(&sent);
      move |bytes| {
        sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
      }
    });
    let (what, quiet) = (format!("Writing {path}"), |event| silent(event, "a write"));
    match operation.run(Stdin::Stream(counted.boxed()), &what, cancel, quiet).await? {
      Reply::Written(written) if written.size == sent.load(Ordering::Relaxed) => Ok(written.size),
      Reply::Failed(failed) => Err(failure(failed, "write", path)),
      _ => Err(unexpected("a write")),
    }
  }
}

/// A file on its way out.
struct Reading {
  operation: Operation,
  link: Link,
  path: WorkspacePath,
  what: String,
  cancel: Cancel,
  read: u64,
  /// What was asked for and is there to be read.
  left: u64,
}

impl Reading {
  /// The next piece, `None` behind the last. How long the reader takes in between is no matter.
  async fn next(&mut self) -> Result<Option<Bytes>> {
    loop {
      match self.event().await? {
        Event::Done(Reply::Read(done)) if done.sent == self.read => return Ok(None),
        Event::Done(Reply::Failed(failed)) => return Err(failure(failed, "read", &self.path)),
        Event::Done(_) => return Err(unexpected("a read")),
        event => {
          let Some(bytes) = output(event, "a read")? else { continue };
          self.read = self.read.saturating_add(bytes.len() as u64);
          return if self.read > self.left { Err(unexpected("a read")) } else { Ok(Some(bytes)) };
        }
      }
    }
  }

  async fn event(&mut self) -> Result<Event> {
    let event = self.cancel.guard(&self.what, self.operation.next());
    match timeout(FILE_OPERATION_TIMEOUT, event).await {
      Ok(event) => event,
      Err(_elapsed) if self.link.is_frozen().await => Err(fail!(
        DockerApi,
        "{} did not go on: the container is paused. Unpause it and try again.",
        self.what
      )),
      Err(_elapsed) => Err(fail!(
        ContainerLost,
        "{} brought nothing for {} s, beyond every deadline inside",
        self.what,
        FILE_OPERATION_TIMEOUT.as_secs()
      )),
    }
  }
}
