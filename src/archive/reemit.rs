//! Turns an archive that somebody else wrote into one of ours, while it passes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::Stream;

use super::TarStream;
use super::error::ArchiveError;
use super::gate::ArchiveLimits;
use super::pack::Owner;
use super::unpack::{Event, Unpacker};
use super::write::Writer;
use crate::error::{Error, ErrorCode, Result};

/// So much is read before what came of it is passed on. A header block may become 64 implied directories with long
/// names, so what waits is bounded by some 100 times this.
const SLICE_BYTES: usize = 16 * 1024;

/// How an archive is written afresh.
#[derive(Clone, Copy, Debug)]
pub struct ReemitOptions {
  /// The name of the one directory that the archive holds; what is in it becomes the top of the new one. `None` where
  /// the archive's names are relative already.
  pub base: Option<&'static str>,
  /// Who owns every entry, whatever the archive says.
  pub owner: Owner,
  /// Its budgets and rules.
  pub limits: ArchiveLimits,
  /// The code of the error if the archive is refused; a budget is always `LIMIT`.
  pub code: ErrorCode,
}

/// Passes on what `input` holds as an archive of ours, with headers that nobody else wrote. The entry of the workspace
/// itself is left out, directories that are only implied are put in, times and permission bits are kept, but directories let their
/// owner in. It ends with an error at the first entry that is refused, and where `input` has one or is cut; memory does not grow with it.
pub fn reemit(input: TarStream, options: ReemitOptions) -> TarStream {
  Box::pin(Reemit {
    input,
    pending: Bytes::new(),
    reader: Some(match options.base {
      Some(base) => Unpacker::of_directory(base, options.limits),
      None => Unpacker::new(options.limits),
    }),
    writer: Writer::new(options.owner),
    root: false,
    code: options.code,
  })
}

struct Reemit {
  input: TarStream,
  /// Of the last chunk, what has not been read.
  pending: Bytes,
  /// `None` once the archive ended, well or not.
  reader: Option<Unpacker>,
  writer: Writer,
  /// The entry under way is the workspace itself.
  root: bool,
  code: ErrorCode,
}

impl Stream for Reemit {
  type Item = Result<Bytes>;

  fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
    let this = self.get_mut();
    loop {
      if let Some(chunk) = this.writer.pop() {
        return Poll::Ready(Some(Ok(chunk)));
      }
      if this.reader.is_none() {
        return Poll::Ready(None);
      }
      let advanced = if this.pending.has_remaining() {
        this.read()
      } else {
        match ready!(this.input.as_mut().poll_next(cx)) {
          Some(chunk) => chunk.map(|chunk| this.pending = chunk),
          None => this.end(),
        }
      };
      if let Err(error) = advanced {
        this.reader = None;
        this.writer.discard();
        return Poll::Ready(Some(Err(error)));
      }
    }
  }
}

impl Reemit {
  fn read(&mut self) -> Result<()> {
    let slice = self.pending.split_to(self.pending.len().min(SLICE_BYTES));
    let (writer, root) = (&mut self.writer, &mut self.root);
    let Some(reader) = &mut self.reader else { return Ok(()) };
    let read = reader.push(slice, &mut |event| {
      match event {
        Event::Entry(entry) => {
          *root = entry.path.is_root();
          if !*root {
            writer.entry(&entry);
          }
        }
        Event::Data(data) => writer.data(data),
        Event::End if *root => {}
        Event::End => writer.end_entry(),
      }
      Ok(())
    });
    read.map_err(|error| self.fault(error))
  }

  fn end(&mut self) -> Result<()> {
    if let Some(reader) = self.reader.take() {
      reader.finish().map_err(|error| self.fault(error))?;
      self.writer.end_archive();
    }
    Ok(())
  }

  fn fault(&self, error: ArchiveError) -> Error {
    error.into_error(self.code)
  }
}

#[cfg(test)]
mod tests;
