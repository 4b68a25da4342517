//! Files: every path is opened beneath the workspace, with no gap between the check and the use.
//!
//! Commands change the tree while we work on it. A symbolic link anywhere on the way is refused by the kernel in the
//! same call that opens; nothing is opened by a text that was looked at before.

mod holes;
pub mod listing;
pub mod packing;
pub mod reading;
mod temporary;
pub mod unpacking;
mod walk;
mod workspace;
pub mod writing;

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

pub use workspace::Workspace;

use super::link::Link;
use super::operations::failed;
use crate::supervisor::wire::{Credit, Failure, INITIAL_WINDOW, ReceiveWindow, Reply, Stream, ToHost};

/// Permission bits that we pass on: no set-id, no sticky bit.
const MODE_MASK: u32 = 0o777;

/// How far ahead of what was written a file's contents or a tar may be sent. They go to the file system as they come and
/// wait nowhere, so this is only about how often the host has to be told.
const FILE_WINDOW: u64 = 2 * 1024 * 1024;

/// The window of input that is written at once, which the host is told where there is much to come.
fn wide_window(op: u64, much: bool, link: &mut Link) -> ReceiveWindow {
  if !much {
    return ReceiveWindow::new(INITIAL_WINDOW);
  }
  link.say(op, &ToHost::Credit(Credit { stream: Stream::Input, limit: FILE_WINDOW }));
  ReceiveWindow::new(FILE_WINDOW)
}

/// Flags that open a directory itself and not only a handle on it.
const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// What an error of the kernel means to the host.
fn failure(error: Errno) -> Failure {
  match error {
    Errno::NOENT => Failure::NotFound,
    Errno::LOOP => Failure::Link,
    Errno::ISDIR => Failure::Directory,
    Errno::NOTDIR => Failure::NotDirectory,
    Errno::NXIO => Failure::Special,
    // Another file system below the workspace is none of ours.
    Errno::ACCESS | Errno::PERM | Errno::XDEV => Failure::Denied,
    Errno::AGAIN => Failure::Busy,
    Errno::EXIST => Failure::Exists,
    Errno::NOSPC | Errno::DQUOT => Failure::NoSpace,
    Errno::FBIG | Errno::NAMETOOLONG | Errno::MFILE => Failure::TooLarge,
    _ => Failure::System,
  }
}

/// The reply to an operation that the kernel stopped.
fn refused(error: Errno) -> Reply {
  failed(failure(error), error.raw_os_error())
}

/// A regular file or not; a pipe or a device must never be read from or written to.
fn regular(stat: &Stat) -> Result<(), Failure> {
  match FileType::from_raw_mode(stat.st_mode) {
    FileType::RegularFile => Ok(()),
    FileType::Directory => Err(Failure::Directory),
    FileType::Symlink => Err(Failure::Link),
    _ => Err(Failure::Special),
  }
}

/// Opens an entry that its owner, who we are, may have closed to itself. Where its permission bits had to be changed for
/// that, says what they were.
fn force(
  workspace: &Workspace,
  directory: BorrowedFd<'_>,
  name: &[u8],
  flags: OFlags,
) -> Result<(OwnedFd, Option<u32>), Errno> {
  // The handle, not the name, is what is changed and opened.
  let handle = workspace.entry(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
  let stat = rustix::fs::fstat(&handle)?;
  let kind = FileType::from_raw_mode(stat.st_mode);
  let needed = if kind.is_dir() { 0o500 } else { 0o400 };
  let mode = stat.st_mode & 0o7777;
  let own = format!("/proc/self/fd/{}", handle.as_raw_fd());
  let closed = mode & needed != needed && (kind.is_dir() || kind.is_file());
  if closed {
    rustix::fs::chmod(own.as_str(), Mode::from_raw_mode(mode | needed))?;
  }
  let opened = workspace.entry(directory, name, flags);
  if closed && (opened.is_err() || kind.is_file()) {
    rustix::fs::chmod(own.as_str(), Mode::from_raw_mode(mode))?;
  }
  opened.map(|fd| (fd, (closed && kind.is_dir()).then_some(mode)))
}

/// Size of a file; the kernel's is signed but never negative.
fn size(stat: &Stat) -> u64 {
  u64::try_from(stat.st_size).unwrap_or_default()
}
