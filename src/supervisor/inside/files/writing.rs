//! Writing a file whole or not at all.

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::super::operations::{Context, Step, failed};
use super::temporary::Temporary;
use super::{failure, refused, regular, wide_window};
use crate::supervisor::wire::{
  Data, Failure, INITIAL_WINDOW, ReceiveWindow, Reply, UNTIL_END, WriteFile, Written,
};

/// A file that is being written.
pub struct Writing {
  op: u64,
  file: Option<Temporary>,
  name: Vec<u8>,
  mode: u32,
  size: u64,
  overwrite: bool,
  window: ReceiveWindow,
  ended: bool,
}

impl Writing {
  /// Makes the directories and a temporary file.
  pub fn open(op: u64, request: &WriteFile<'_>, context: &mut Context<'_>) -> Result<Self, Reply> {
    let Some((parents, name)) = request.path.split() else { return Err(failed(Failure::Directory, 0)) };
    let directory = context.workspace.make_directory(parents).map_err(refused)?;
    match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
      Ok(there) => {
        regular(&there).map_err(|failure| failed(failure, 0))?;
        if !request.overwrite {
          return Err(failed(Failure::Exists, 0));
        }
      }
      Err(Errno::NOENT) => {}
      Err(error) => return Err(refused(error)),
    }
    let file = Temporary::new(directory).map_err(refused)?;
    Ok(Self {
      op,
      file: Some(file),
      name: name.to_vec(),
      mode: request.mode,
      size: request.size,
      overwrite: request.overwrite,
      window: wide_window(op, request.size > INITIAL_WINDOW, context.link),
      ended: false,
    })
  }

  /// Bytes that came.
  pub const fn received(&self) -> u64 {
    self.window.received()
  }

  /// A piece arrived. Where it does not fit, the old file stays.
  pub fn take(&mut self, data: &Data<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
    let count = data.bytes.len() as u64;
    self.window.receive(data.offset, count).map_err(|_| Failure::Flow)?;
    if self.received() > self.size || self.ended {
      return Err(Failure::Cut);
    }
    if let Some(file) = &self.file {
      file.write(data.bytes).map_err(failure)?;
    }
    context.link.used(self.op, &mut self.window, count);
    Ok(())
  }

  /// The host said that there is no more.
  pub const fn end(&mut self) {
    self.ended = true;
  }

  /// Puts the file in its place once all of it is there.
  pub fn step(&mut self, _context: &mut Context<'_>) -> Step {
    if !self.ended {
      return Step::Wait;
    }
    if self.size != UNTIL_END && self.received() != self.size {
      return Step::Done(failed(Failure::Cut, 0));
    }
    match self.file.take().map(|file| file.place(&self.name, self.mode, self.overwrite)) {
      Some(Err(error)) => Step::Done(refused(error)),
      _ => Step::Done(Reply::Written(Written { size: self.received() })),
    }
  }
}
