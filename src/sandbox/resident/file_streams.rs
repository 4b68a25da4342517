//! Files of any size over the supervisor, piece by piece.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt, TryStreamExt};

use super::command::relative;
use super::files::{failure, silent};
use super::pieces::{self, Pieces};
use super::turn::Turn;
use super::watch::Patience;
use super::{ResidentSandbox, unexpected};
use crate::cancel::Cancel;
use crate::docker::{ByteStream, Stdin};
use crate::error::{Error, Result};
use crate::sandbox::FileStream;
use crate::supervisor::link::{Event, WINDOW};
use crate::supervisor::wire::{Failed, ReadFile, Reply, Started, ToInside, UNTIL_END, WriteFile};
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
    let what = format!("Reading {path}");
    let mut operation = self.ask(ToInside::ReadFile(request), &what, cancel).await?;
    let (size, mode) = match cancel.guard(&what, operation.next()).await? {
      Event::Started(Started::File { size, mode }) => (size, mode & 0o7777),
      Event::Done(Reply::Failed(failed)) => return Err(failure(failed, "read", path)),
      _ => return Err(unexpected("a read")),
    };
    // What was asked for and is there to be read.
    let most = size.saturating_sub(offset).min(limit);
    let (link, cancel, kind) = (self.link.clone(), cancel.clone(), File(path.clone()));
    let bytes = Pieces { operation, link, cancel, what, kind, most }.stream();
    Ok(FileStream { size, mode, bytes })
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
    let what = format!("Writing {path}");
    let operation = self.ask(ToInside::WriteFile(request), &what, cancel).await?;
    let sent = Arc::new(AtomicU64::new(0));
    let counted = contents.inspect_ok({
      let sent = Arc::clone(&sent);
      move |bytes| {
        sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
      }
    });
    let turn = Turn::new();
    let stdin = Stdin::Stream(turn.of(counted.boxed()));
    let reply = operation.run(stdin, &what, cancel, |event| {
      turn.moved();
      silent(event, "a write")
    });
    let reply = tokio::select! {
      biased;
      reply = reply => reply?,
      late = turn.overdue(&self.link, &what) => return Err(late),
    };
    match reply {
      Reply::Written(written) if written.size == sent.load(Ordering::Relaxed) => Ok(written.size),
      Reply::Failed(failed) => Err(failure(failed, "write", path)),
      _ => Err(unexpected("a write")),
    }
  }
}

/// A file on its way out.
struct File(WorkspacePath);

impl pieces::Kind for File {
  const NAME: &'static str = "a read";
  const PATIENCE: Patience = Patience::FILE;
  const EACH: bool = true;

  fn sent(reply: &Reply) -> Option<u64> {
    match reply {
      Reply::Read(done) => Some(done.sent),
      _ => None,
    }
  }

  fn failure(&self, failed: Failed) -> Error {
    failure(failed, "read", &self.0)
  }
}
