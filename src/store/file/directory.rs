//! The directory of a store: made if it is not there, and read and written without following links in it.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{Error, Result, fail};

/// Permission bits of the directory: leases hold secrets, snapshots the work of a run.
const DIRECTORY_MODE: u32 = 0o700;
/// Permission bits of a file.
const FILE_MODE: u32 = 0o600;
/// What the tools of a file system put into the root of a volume.
const LOST_AND_FOUND: &str = "lost+found";

/// The directory of a store.
#[derive(Debug)]
pub(super) struct Directory {
  path: PathBuf,
}

impl Directory {
  /// Opens the directory that the option `directory` of `maker` names. Made now, so that what is wrong with it is known
  /// before the first run; one that is gone later is an error, and never an empty store.
  pub(super) fn open(path: &str, maker: &str) -> Result<Self> {
    if path.is_empty() || path.contains('\0') {
      return Err(fail!(ConfigInvalid, "{maker} directory was no path; it must be that of a directory."));
    }
    // The process may change its working directory later.
    let path = std::path::absolute(path).map_err(|error| failure("Cannot find", Path::new(path), error))?;
    let is_new = !path.exists();
    let made = DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&path);
    made.map_err(|error| failure("Cannot make the directory", &path, error))?;
    let directory = Self { path };
    directory.check()?;
    if is_new {
      directory.sync_parents();
    }
    Ok(directory)
  }

  /// Makes the names last that were made on the way to this directory. A parent that may not be read was there before.
  fn sync_parents(&self) {
    for parent in self.path.ancestors().skip(1) {
      File::open(parent).and_then(|parent| parent.sync_all()).ok();
    }
  }

  /// An error where the directory is not there any more.
  fn check(&self) -> Result<()> {
    match self.path.metadata() {
      Ok(found) if found.is_dir() => Ok(()),
      Ok(_other) => Err(fail!(
        ConfigInvalid,
        "{} is no directory; a file store needs one of its own.",
        self.path.display()
      )),
      Err(error) => Err(failure("Cannot find the directory", &self.path, error)),
    }
  }

  /// Path of a file in it.
  pub(super) fn join(&self, name: &str) -> PathBuf {
    self.path.join(name)
  }

  /// Opens a regular file to read it. `None`: there is none, in a directory that is there.
  pub(super) fn read(&self, name: &str) -> Result<Option<(File, Metadata)>> {
    let path = self.join(name);
    match OpenOptions::new().read(true).custom_flags(flags()).open(&path) {
      Ok(file) => {
        let found = file.metadata().map_err(|error| failure("Cannot read", &path, error))?;
        if found.is_file() { Ok(Some((file, found))) } else { Err(foreign(&path, "it is no regular file")) }
      }
      Err(error) if error.kind() == ErrorKind::NotFound => self.check().map(|()| None),
      Err(error) => Err(failure("Cannot open", &path, error)),
    }
  }

  /// Makes a file that must not be there, to write it.
  pub(super) fn create(&self, name: &str) -> io::Result<File> {
    OpenOptions::new()
      .write(true)
      .create_new(true)
      .mode(FILE_MODE)
      .custom_flags(flags())
      .open(self.join(name))
  }

  /// Opens a file that is made if it is not there; what it holds does not matter.
  pub(super) fn open_or_create(&self, name: &str) -> Result<File> {
    let path = self.join(name);
    let file = OpenOptions::new()
      .write(true)
      .create(true)
      .truncate(false)
      .mode(FILE_MODE)
      .custom_flags(flags())
      .open(&path)
      .map_err(|error| failure("Cannot open", &path, error))?;
    Ok(file)
  }

  /// True where the name still leads to this very file.
  pub(super) fn leads_to(&self, name: &str, file: &File) -> bool {
    let same = |here: &Metadata, there: &Metadata| (here.dev(), here.ino()) == (there.dev(), there.ino());
    match (self.join(name).symlink_metadata(), file.metadata()) {
      (Ok(here), Ok(there)) => same(&here, &there),
      _ => false,
    }
  }

  /// Gives a file its name, in the place of another perhaps, and makes that last.
  pub(super) fn rename(&self, from: &str, to: &str) -> Result<()> {
    let path = self.join(to);
    self.check_replaceable(to)?;
    std::fs::rename(self.join(from), &path).map_err(|error| failure("Cannot write", &path, error))?;
    self.sync()
  }

  /// Removes a file and makes that last. Absent is fine.
  pub(super) fn remove(&self, name: &str) -> Result<()> {
    self.check_replaceable(name)?;
    let path = self.join(name);
    match std::fs::remove_file(&path) {
      Ok(()) => self.sync(),
      Err(error) if error.kind() == ErrorKind::NotFound => self.check(),
      Err(error) => Err(failure("Cannot remove", &path, error)),
    }
  }

  /// A link or a directory in a record's place is not ours to replace.
  fn check_replaceable(&self, name: &str) -> Result<()> {
    let path = self.join(name);
    match path.symlink_metadata() {
      Ok(found) if !found.is_file() => Err(foreign(&path, "it is no regular file")),
      // The act itself tells what else is wrong.
      _ => Ok(()),
    }
  }

  /// Names in it. What begins with a dot, and the file system's own `lost+found`, are left out; a name that is no
  /// Unicode is given as near as can be.
  pub(super) fn names(&self) -> Result<Vec<String>> {
    let read = || -> io::Result<Vec<OsString>> {
      std::fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    };
    let names = read().map_err(|error| failure("Cannot list the directory", &self.path, error))?;
    let names = names.into_iter().map(|name| name.to_string_lossy().into_owned());
    Ok(names.filter(|name| !name.starts_with('.') && name != LOST_AND_FOUND).collect())
  }

  /// Makes names that were given or taken away last.
  fn sync(&self) -> Result<()> {
    let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| failure("Cannot write the directory", &self.path, error))
  }
}

/// Links are not followed, and a pipe in a file's place is not waited for. Rust adds `O_CLOEXEC`.
fn flags() -> i32 {
  (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

/// The error for something in a file's place that is not ours.
pub(super) fn foreign(path: &Path, why: impl Display) -> Error {
  fail!(
    ConfigInvalid,
    "{} is no file of this store: {why}. Give the store a directory of its own, or move the file away.",
    path.display()
  )
}

/// The error for what the system refused.
pub(super) fn failure(attempt: &str, path: &Path, error: io::Error) -> Error {
  let shown = path.display();
  let named = match error.kind() {
    ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
      fail!(Limit, "{attempt} {shown}: there is no room. Make room on that file system.")
    }
    _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
      fail!(ConfigInvalid, "{attempt} {shown}: it is a symbolic link, which a file store does not follow.")
    }
    _ => fail!(
      ConfigInvalid,
      "{attempt} {shown}. Check that the directory of the file store is there and may be written by this process."
    ),
  };
  named.with_source(error)
}
