//! The workspace's directory and opening beneath it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::supervisor::wire::{Capability, RelativePath};

/// Flags of every open: no waiting for a pipe's other end or a lease's holder, no terminal.
const ALWAYS: OFlags = OFlags::NONBLOCK.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
/// A handle on a directory: needs no permission to read it.
pub const HANDLE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Mode of directories that a write makes.
const DIRECTORY_MODE: u32 = 0o755;

/// The workspace.
pub struct Workspace {
  root: OwnedFd,
  openat2: bool,
}

impl Workspace {
  /// Opens it, and finds out how to open beneath it.
  pub fn open(root: &OsStr) -> Result<Self, Errno> {
    let root = rustix::fs::open(root, HANDLE | OFlags::NOFOLLOW, Mode::empty())?;
    let openat2 = beneath(root.as_fd(), b".", HANDLE, Mode::empty()).is_ok();
    Ok(Self { root, openat2 })
  }

  /// Whether the kernel does it in one call.
  pub const fn capability(&self) -> u64 {
    if self.openat2 { Capability::Openat2 as u64 } else { 0 }
  }

  /// A handle on a directory.
  pub fn directory(&self, path: RelativePath<'_>) -> Result<OwnedFd, Errno> {
    self.open_in(self.root.as_fd(), path, HANDLE)
  }

  /// Opens a file or directory. What it is must be asked afterwards.
  pub fn file(&self, path: RelativePath<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    self.open_in(self.root.as_fd(), path, flags)
  }

  /// A handle on a directory that is made, with those above it, where it is missing.
  pub fn make_directory(&self, path: RelativePath<'_>) -> Result<OwnedFd, Errno> {
    match self.directory(path) {
      Err(Errno::NOENT) => {}
      opened => return opened,
    }
    let mut directory = self.directory(RelativePath::WORKSPACE)?;
    for name in path.components() {
      match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(DIRECTORY_MODE)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
      }
      directory = self.entry(directory.as_fd(), name, HANDLE)?;
    }
    Ok(directory)
  }

  /// Opens an entry of a directory that was opened beneath the workspace.
  pub fn entry(&self, directory: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if self.openat2 {
      return beneath(directory, name, flags, Mode::empty());
    }
    let opened = step(directory, name, flags)?;
    let (here, there) = (rustix::fs::fstat(directory)?, rustix::fs::fstat(&opened)?);
    if here.st_dev == there.st_dev { Ok(opened) } else { Err(Errno::XDEV) }
  }

  fn open_in(&self, from: BorrowedFd<'_>, path: RelativePath<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    match self.open_anyhow(from, path, flags) {
      Err(Errno::ACCESS) => Err(self.closed(from, path)),
      opened => opened,
    }
  }

  /// What stands in the way: the thing itself, or a directory above it that may not be entered.
  fn closed(&self, from: BorrowedFd<'_>, path: RelativePath<'_>) -> Errno {
    let above = path.split().map_or(path, |(parents, _)| parents);
    match self.open_anyhow(from, above, HANDLE) {
      Err(Errno::ACCESS) => Errno::NOTDIR,
      _ => Errno::ACCESS,
    }
  }

  fn open_anyhow(
    &self,
    from: BorrowedFd<'_>,
    path: RelativePath<'_>,
    flags: OFlags,
  ) -> Result<OwnedFd, Errno> {
    let Some((parents, name)) = path.split() else { return beneath_or_plain(self.openat2, from, flags) };
    if self.openat2 {
      return beneath(from, path.as_bytes(), flags, Mode::empty());
    }
    let mut directory = step(from, b".", HANDLE)?;
    for parent in parents.components() {
      directory = self.entry(directory.as_fd(), parent, HANDLE)?;
    }
    self.entry(directory.as_fd(), name, flags)
  }
}

fn beneath_or_plain(openat2: bool, from: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
  if openat2 { beneath(from, b".", flags, Mode::empty()) } else { step(from, b".", flags) }
}

fn beneath(from: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
  let rules =
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
  rustix::fs::openat2(from, path, usual(flags), mode, rules)
}

/// One component, where the kernel has no `openat2`.
fn step(from: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
  match rustix::fs::openat(from, name, usual(flags) | OFlags::NOFOLLOW, Mode::empty()) {
    // A link where a directory should be is "no directory" to this call.
    Err(Errno::NOTDIR) if is_link(from, name) => Err(Errno::LOOP),
    opened => opened,
  }
}

fn is_link(from: BorrowedFd<'_>, name: &[u8]) -> bool {
  rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)
    .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
}

/// `openat2` refuses flags that mean nothing for a handle.
const fn usual(flags: OFlags) -> OFlags {
  if flags.contains(OFlags::PATH) { flags } else { flags.union(ALWAYS) }
}
