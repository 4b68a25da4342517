//! Host files below one directory, opened without ever leaving it.
//!
//! Symbolic links are followed while they stay inside; an absolute one leaves, wherever it leads. On Linux the kernel
//! sees to that (`openat2` with `RESOLVE_BENEATH`, since 5.6). Elsewhere links are resolved here first, which leaves a
//! gap in which somebody could swap a directory for a link: the files are the application's own, not the container's.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// Most links on one path, as in the kernel (`MAXSYMLINKS` in `linux/namei.h`).
const MAX_LINKS: usize = 40;

/// A directory and what is below it. Errors are the system's; a path that leaves is `CrossesDevices` (`EXDEV`).
#[derive(Debug)]
pub enum Beneath {
  /// The kernel resolves.
  #[cfg(target_os = "linux")]
  Kernel(File),
  /// We do; the directory's path without links.
  Portable(PathBuf),
}

impl Beneath {
  /// Opens the directory; links on the way to it are followed.
  pub fn open(root: &Path) -> io::Result<Self> {
    #[cfg(target_os = "linux")]
    {
      let kernel = Self::Kernel(File::open(root)?);
      // Old kernels do not know the call, and some system call filters do not either.
      if !kernel.stat(Path::new(""), true).is_err_and(|error| is_unknown_call(&error)) {
        return Ok(kernel);
      }
    }
    Self::portable(root)
  }

  /// The way that works everywhere.
  pub fn portable(root: &Path) -> io::Result<Self> {
    Ok(Self::Portable(root.canonicalize()?))
  }

  /// What is at `path`; the link itself if it is one, unless `follow`.
  pub fn stat(&self, path: &Path, follow: bool) -> io::Result<Metadata> {
    match self {
      #[cfg(target_os = "linux")]
      Self::Kernel(root) => kernel::stat(root, path, follow),
      Self::Portable(root) => root.join(resolve(root, path, follow)?).symlink_metadata(),
    }
  }

  /// Opens what is at `path` for reading, links followed. A pipe does not make it wait.
  pub fn read(&self, path: &Path) -> io::Result<File> {
    match self {
      #[cfg(target_os = "linux")]
      Self::Kernel(root) => kernel::read(root, path),
      Self::Portable(root) => {
        let path = root.join(resolve(root, path, true)?);
        // There is no flag for it in the standard library, so a pipe must not be opened at all.
        if path.symlink_metadata()?.is_file() {
          return File::open(path);
        }
        Err(io::Error::new(ErrorKind::InvalidInput, "no regular file any more"))
      }
    }
  }

  /// At most `max` names in the directory at `path`, links to it followed, sorted.
  pub fn names(&self, path: &Path, max: usize) -> io::Result<Vec<OsString>> {
    let mut names = match self {
      #[cfg(target_os = "linux")]
      Self::Kernel(root) => kernel::names(root, path, max)?,
      Self::Portable(root) => {
        let entries = fs::read_dir(root.join(resolve(root, path, true)?))?;
        entries.take(max).map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?
      }
    };
    names.sort_unstable();
    Ok(names)
  }
}

/// The path without its links, relative to the root.
fn resolve(root: &Path, path: &Path, follow: bool) -> io::Result<PathBuf> {
  let mut todo = VecDeque::new();
  push_front(&mut todo, path)?;
  let mut done = PathBuf::new();
  let mut links = 0;
  while let Some(part) = todo.pop_front() {
    if part == ".." {
      if !done.pop() {
        return Err(leaves());
      }
      continue;
    }
    done.push(part);
    let full = root.join(&done);
    let last = todo.is_empty();
    if (last && !follow) || !full.symlink_metadata()?.is_symlink() {
      continue;
    }
    links += 1;
    if links > MAX_LINKS {
      return Err(io::Error::other("too many symbolic links"));
    }
    done.pop();
    push_front(&mut todo, &full.read_link()?)?;
  }
  Ok(done)
}

fn push_front(todo: &mut VecDeque<OsString>, path: &Path) -> io::Result<()> {
  for part in path.components().rev() {
    match part {
      Component::Normal(name) => todo.push_front(name.to_owned()),
      Component::ParentDir => todo.push_front(OsString::from("..")),
      Component::CurDir => {}
      Component::RootDir | Component::Prefix(_) => return Err(leaves()),
    }
  }
  Ok(())
}

fn leaves() -> io::Error {
  io::Error::new(ErrorKind::CrossesDevices, "the path leaves its directory")
}

#[cfg(target_os = "linux")]
fn is_unknown_call(error: &io::Error) -> bool {
  [rustix::io::Errno::NOSYS, rustix::io::Errno::PERM]
    .iter()
    .any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}

#[cfg(target_os = "linux")]
mod kernel {
  use std::ffi::{OsStr, OsString};
  use std::fs::{File, Metadata};
  use std::io;
  use std::os::unix::ffi::OsStrExt;
  use std::path::Path;

  use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, openat2};

  pub fn stat(root: &File, path: &Path, follow: bool) -> io::Result<Metadata> {
    let own = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    open(root, path, OFlags::PATH | own)?.metadata()
  }

  pub fn read(root: &File, path: &Path) -> io::Result<File> {
    open(root, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
  }

  pub fn names(root: &File, path: &Path, max: usize) -> io::Result<Vec<OsString>> {
    let directory = open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let entries = Dir::read_from(&directory)?
      .map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned()));
    let is_other = |name: &io::Result<OsString>| !name.as_ref().is_ok_and(|name| name == "." || name == "..");
    entries.filter(is_other).take(max).collect()
  }

  fn open(root: &File, path: &Path, flags: OFlags) -> io::Result<File> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // A rename elsewhere at the same moment makes the kernel unsure, and it says so; then it is asked again.
    for _ in 0..TRIES {
      match openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
        result => return Ok(File::from(result?)),
      }
    }
    Err(rustix::io::Errno::AGAIN.into())
  }

  const TRIES: u32 = 100;
}

#[cfg(test)]
mod tests;
