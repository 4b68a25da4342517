//! A file under a temporary name, which becomes another one whole or leaves nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timestamps};
use rustix::io::Errno;

/// Beginning of a temporary name. Snapshots leave such files out.
const PREFIX: &str = ".zhivex-";
/// Attempts to find a name that is not taken; somebody may make such names on purpose.
const ATTEMPTS: u32 = 64;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The file, removed when this is dropped.
pub struct Temporary {
  directory: OwnedFd,
  name: String,
  fd: OwnedFd,
  placed: bool,
}

impl Temporary {
  /// An empty file in this directory that only its owner may open.
  pub fn new(directory: OwnedFd) -> Result<Self, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS {
      let name = format!("{PREFIX}{:016x}", NEXT.fetch_add(1, Ordering::Relaxed));
      match rustix::fs::openat(&directory, name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => return Ok(Self { directory, name, fd, placed: false }),
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
      }
    }
    Err(Errno::EXIST)
  }

  /// Whether a name is one of ours.
  pub fn is_name(name: &[u8]) -> bool {
    name
      .strip_prefix(PREFIX.as_bytes())
      .is_some_and(|rest| rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit))
  }

  /// Appends.
  pub fn write(&self, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
      match rustix::io::write(&self.fd, bytes) {
        Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
        Err(Errno::INTR) => {}
        Err(error) => return Err(error),
      }
    }
    Ok(())
  }

  /// Writes at an offset, beyond the end too: what is between is a hole.
  pub fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
      match rustix::io::pwrite(&self.fd, bytes, offset) {
        Ok(count) => {
          bytes = bytes.get(count..).unwrap_or_default();
          offset += count as u64;
        }
        Err(Errno::INTR) => {}
        Err(error) => return Err(error),
      }
    }
    Ok(())
  }

  /// Sets how long it is; what was not written is a hole.
  pub fn set_length(&self, length: u64) -> Result<(), Errno> {
    rustix::fs::ftruncate(&self.fd, length)
  }

  /// Sets when it was changed last.
  pub fn set_time(&self, times: &Timestamps) -> Result<(), Errno> {
    rustix::fs::futimens(&self.fd, times)
  }

  /// Gives it its permissions and its name: in place of what has the name, or only if nothing has.
  pub fn place(mut self, name: &[u8], mode: u32, replace: bool) -> Result<(), Errno> {
    rustix::fs::fchmod(&self.fd, Mode::from_raw_mode(mode))?;
    let directory = self.directory.as_fd();
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    rustix::fs::renameat_with(directory, self.name.as_str(), directory, name, flags)?;
    self.placed = true;
    Ok(())
  }
}

impl Drop for Temporary {
  fn drop(&mut self) {
    if !self.placed {
      let _ = rustix::fs::unlinkat(&self.directory, self.name.as_str(), AtFlags::empty());
    }
  }
}
