//! Writing a snapshot file under a temporary name, until it is whole.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::directory::{Directory, failure};
use crate::error::{Result, fail};
use crate::random;

/// Names that are tried. Each is random, so one is enough unless a collector takes the file of the very moment.
const ATTEMPTS: usize = 8;
/// What the temporary name ends with, behind the final one, a dot and a random number.
pub(super) const TEMPORARY: &str = ".tmp";

/// A snapshot that is being written. Dropped before it is kept, it leaves nothing.
pub(super) struct Writer {
  directory: Arc<Directory>,
  name: String,
  temporary: String,
  /// Locked while this process works on it: what nobody has locked was left by a process that died.
  file: File,
  hash: Sha256,
  length: u64,
  kept: bool,
}

impl Writer {
  /// Begins a file that will be called `name`.
  pub(super) fn begin(directory: Arc<Directory>, name: String, head: &[u8]) -> Result<Self> {
    let (temporary, file) = create(&directory, &name)?;
    let mut writer = Self { directory, name, temporary, file, hash: Sha256::new(), length: 0, kept: false };
    writer.put(head)?;
    Ok(writer)
  }

  /// Appends to the tar.
  pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
    self.length += bytes.len() as u64;
    self.put(bytes)
  }

  /// Bytes of the tar so far.
  pub(super) const fn length(&self) -> u64 {
    self.length
  }

  /// What brings the bytes so far to the disk; others may be written meanwhile.
  pub(super) fn flusher(&self) -> Result<impl FnOnce() -> Result<()> + Send + 'static> {
    let path = self.directory.join(&self.temporary);
    let file = self.file.try_clone().map_err(|error| failure("Cannot write", &path, error))?;
    Ok(move || file.sync_data().map_err(|error| failure("Cannot write", &path, error)))
  }

  /// Ends the file and gives it its name; on the disk before this returns.
  pub(super) fn keep(mut self) -> Result<()> {
    self.put(&self.length.to_le_bytes())?;
    let digest = self.hash.clone().finalize();
    let path = self.directory.join(&self.temporary);
    let written = self.file.write_all(&digest).and_then(|()| self.file.sync_all());
    written.map_err(|error| failure("Cannot write", &path, error))?;
    self.directory.rename(&self.temporary, &self.name)?;
    self.kept = true;
    Ok(())
  }

  fn put(&mut self, bytes: &[u8]) -> Result<()> {
    self.hash.update(bytes);
    let written = self.file.write_all(bytes);
    written.map_err(|error| failure("Cannot write", &self.directory.join(&self.temporary), error))
  }
}

impl Drop for Writer {
  fn drop(&mut self) {
    if !self.kept {
      // What cannot be removed is collected by a later save.
      std::fs::remove_file(self.directory.join(&self.temporary)).ok();
    }
  }
}

/// A new file, locked. Between its creation and its lock a collector may take it for a dead one.
fn create(directory: &Directory, name: &str) -> Result<(String, File)> {
  for _ in 0..ATTEMPTS {
    let temporary = format!("{name}.{}{TEMPORARY}", random::hex::<8>()?);
    let path = directory.join(&temporary);
    let file = match directory.create(&temporary) {
      Ok(file) => file,
      Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
      Err(error) => return Err(failure("Cannot make", &path, error)),
    };
    match file.try_lock() {
      Ok(()) if directory.leads_to(&temporary, &file) => return Ok((temporary, file)),
      Ok(()) | Err(TryLockError::WouldBlock) => {}
      Err(TryLockError::Error(error)) => {
        std::fs::remove_file(&path).ok();
        return Err(failure("Cannot lock", &path, error));
      }
    }
  }
  Err(fail!(
    Internal,
    "No temporary file could be made for {} in {ATTEMPTS} attempts.",
    directory.join(name).display()
  ))
}

/// Removes a temporary file if nobody has it locked; whether it was removed.
pub(super) fn collect(directory: &Directory, temporary: &str) -> Result<bool> {
  // It may be given its name at this moment.
  let Some((file, _)) = directory.read(temporary)? else { return Ok(false) };
  let dead = file.try_lock().is_ok() && directory.leads_to(temporary, &file);
  if dead {
    directory.remove(temporary)?;
  }
  Ok(dead)
}
