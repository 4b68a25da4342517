//! Walking a tree in the order of its paths' bytes, a bounded piece at a time.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::{Workspace, force};
use crate::limits::{MAX_PATH_BYTES, MAX_PATH_DEPTH};
use crate::supervisor::wire::RelativePath;

/// Names that are held at once, in all directories on the way: more is [`Errno::FBIG`]. With them, 16 MiB at most.
const MAX_NAMES: usize = 100_000;
const MAX_NAME_BYTES: usize = 12 * 1024 * 1024;

/// A walk. Directories that may not be read are entries without contents; links are entries, never followed; other file
/// systems are not entered.
pub struct Walk {
  levels: Vec<Level>,
  depth: usize,
  /// Path of the directory on top, with a slash at its end unless it is the workspace.
  path: Vec<u8>,
  room: Box<[MaybeUninit<u8>]>,
  names: usize,
  bytes: usize,
  forced: bool,
}

struct Level {
  fd: OwnedFd,
  /// Still to come, the next one last. A key that ends with a slash is a directory to be entered; it sorts where the
  /// paths in it do, which is not always right behind the directory itself (`a`, `a.b`, `a/c`).
  keys: Vec<Box<[u8]>>,
  is_read: bool,
  prefix: usize,
  /// What its permission bits were before they were changed to read it.
  restore: Option<u32>,
}

impl Drop for Level {
  fn drop(&mut self) {
    if let Some(mode) = self.restore {
      let _ = rustix::fs::fchmod(&self.fd, Mode::from_raw_mode(mode));
    }
  }
}

/// What a piece of the walk came to.
pub enum Walked {
  /// Nothing yet; go on.
  Busy,
  /// An entry; ask [`Walk::entry`].
  Entry(Box<[u8]>),
  /// There is no more.
  End,
}

impl Walk {
  /// A walk through a directory, `depth` levels deep; 1: its own entries.
  pub fn new(workspace: &Workspace, path: RelativePath<'_>, depth: u32) -> Result<Self, Errno> {
    let fd = workspace.file(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut bytes = path.as_bytes().to_vec();
    if !bytes.is_empty() {
      bytes.push(b'/');
    }
    let top = Level { fd, keys: Vec::new(), is_read: false, prefix: 0, restore: None };
    Ok(Self {
      levels: vec![top],
      depth: depth as usize,
      path: bytes,
      room: vec![MaybeUninit::uninit(); 32 * 1024].into_boxed_slice(),
      names: 0,
      bytes: 0,
      forced: false,
    })
  }

  /// The same walk, which enters directories that their owner, who we are, closed to itself; while it is in one, the
  /// directory is open.
  #[must_use]
  pub fn forced(mut self) -> Self {
    self.forced = true;
    self
  }

  /// The directory of the entry that came last, and the path up to the entry's name.
  pub fn directory(&self) -> Option<(BorrowedFd<'_>, &[u8])> {
    self.levels.last().map(|level| (level.fd.as_fd(), self.path.as_slice()))
  }

  /// The entry that came last is no directory, or not any more, and is on record as what it is: it is not entered whatever
  /// becomes of it. Else there would be entries below something that is no directory.
  pub fn pass_over(&mut self, name: &[u8]) {
    let Some(level) = self.levels.last_mut() else { return };
    let key = [name, b"/"].concat();
    // They are in descending order.
    if let Ok(place) = level.keys.binary_search_by(|other| key.as_slice().cmp(other)) {
      level.keys.remove(place);
      self.names -= 1;
      self.bytes -= key.len();
    }
  }

  /// Goes on: at most one buffer of names, or one entry.
  pub fn step(&mut self, workspace: &Workspace) -> Result<Walked, Errno> {
    let Some(level) = self.levels.last() else { return Ok(Walked::End) };
    if !level.is_read {
      return self.read().map(|()| Walked::Busy);
    }
    let Some(key) = self.levels.last_mut().and_then(|level| level.keys.pop()) else {
      self.leave();
      return Ok(Walked::Busy);
    };
    self.names -= 1;
    self.bytes -= key.len();
    match key.strip_suffix(b"/") {
      Some(name) => self.enter(workspace, name).map(|()| Walked::Busy),
      None => Ok(Walked::Entry(key)),
    }
  }

  fn read(&mut self) -> Result<(), Errno> {
    let (deeper, is_top) = (self.levels.len() < self.depth, self.levels.len() == 1);
    let Some(level) = self.levels.last_mut() else { return Ok(()) };
    let mut entries = RawDir::new(&level.fd, &mut self.room);
    loop {
      let entry = match entries.next() {
        // It was removed since it was entered, so there is nothing in it.
        Some(Err(Errno::NOENT)) if !is_top => None,
        entry => entry.transpose()?,
      };
      let Some(entry) = entry else {
        level.keys.sort_unstable_by(|one, other| other.cmp(one));
        // A name that is taken away and given again while it is read comes twice on some file systems.
        level.keys.dedup_by(|again, first| {
          let same = again == first;
          self.names -= usize::from(same);
          self.bytes -= if same { again.len() } else { 0 };
          same
        });
        level.is_read = true;
        return Ok(());
      };
      let name = entry.file_name().to_bytes();
      if !matches!(name, b"." | b"..") {
        let is_directory = deeper && is_directory(&level.fd, &entry);
        level.keys.push(name.into());
        self.names += 1;
        self.bytes += name.len();
        if is_directory {
          level.keys.push([name, b"/"].concat().into());
          self.names += 1;
          self.bytes += name.len() + 1;
        }
      }
      if self.names > MAX_NAMES || self.bytes > MAX_NAME_BYTES {
        return Err(Errno::FBIG);
      }
      if entries.is_buffer_empty() {
        return Ok(());
      }
    }
  }

  fn enter(&mut self, workspace: &Workspace, name: &[u8]) -> Result<(), Errno> {
    let Some(level) = self.levels.last() else { return Ok(()) };
    if self.levels.len() >= MAX_PATH_DEPTH || self.path.len() + name.len() + 2 > MAX_PATH_BYTES {
      return Err(Errno::FBIG);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let opened = if self.forced {
      force(workspace, level.fd.as_fd(), name, flags)
    } else {
      workspace.entry(level.fd.as_fd(), name, flags).map(|fd| (fd, None))
    };
    let (fd, restore) = match opened {
      Ok(opened) => opened,
      // Gone or changed meanwhile, not ours to read, or another file system.
      Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM | Errno::XDEV) => {
        return Ok(());
      }
      Err(error) => return Err(error),
    };
    let prefix = self.path.len();
    self.path.extend_from_slice(name);
    self.path.push(b'/');
    self.levels.push(Level { fd, keys: Vec::new(), is_read: false, prefix, restore });
    Ok(())
  }

  fn leave(&mut self) {
    if let Some(level) = self.levels.pop() {
      self.path.truncate(level.prefix);
    }
  }
}

fn is_directory(directory: &OwnedFd, entry: &rustix::fs::RawDirEntry<'_>) -> bool {
  match entry.file_type() {
    FileType::Unknown => rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
      .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()),
    known => known.is_dir(),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  /// The paths of a walk through a directory; `meanwhile` is told each time that something was entered.
  fn walked(root: &std::path::Path, mut meanwhile: impl FnMut(&[u8])) -> Result<Vec<String>, Errno> {
    let workspace = Workspace::open(root.as_os_str())?;
    let mut walk = Walk::new(&workspace, RelativePath::WORKSPACE, 8)?;
    let mut found = Vec::new();
    loop {
      let before = walk.levels.len();
      match walk.step(&workspace)? {
        Walked::Busy if walk.levels.len() > before => meanwhile(&walk.path),
        Walked::Busy => {}
        Walked::Entry(name) => {
          let (_, parents) = walk.directory().unwrap();
          found.push(String::from_utf8([parents, &name].concat()).unwrap());
        }
        Walked::End => return Ok(found),
      }
    }
  }

  #[test]
  fn a_directory_that_is_removed_while_it_is_walked_ends_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    for path in ["a/x", "b/c/y", "d/z"] {
      let path = root.path().join(path);
      std::fs::create_dir_all(path.parent().unwrap()).unwrap();
      std::fs::write(path, "").unwrap();
    }
    assert_eq!(walked(root.path(), |_| ()).unwrap(), ["a", "a/x", "b", "b/c", "b/c/y", "d", "d/z"]);
    let remove = |path: &[u8]| {
      if path == b"b/c/" {
        std::fs::remove_dir_all(root.path().join("b")).unwrap();
      }
    };
    assert_eq!(walked(root.path(), remove).unwrap(), ["a", "a/x", "b", "b/c", "d", "d/z"]);
  }

  #[test]
  fn what_was_no_directory_is_not_entered_when_it_is_one_again() {
    let root = tempfile::tempdir().unwrap();
    for path in ["a/x", "a.b", "b/y"] {
      let path = root.path().join(path);
      std::fs::create_dir_all(path.parent().unwrap()).unwrap();
      std::fs::write(path, "").unwrap();
    }
    let workspace = Workspace::open(root.path().as_os_str()).unwrap();
    let mut walk = Walk::new(&workspace, RelativePath::WORKSPACE, 8).unwrap();
    let mut found = Vec::new();
    loop {
      match walk.step(&workspace).unwrap() {
        Walked::Busy => {}
        Walked::Entry(name) => {
          if *name == *b"a" || *name == *b"a.b" {
            walk.pass_over(&name);
          }
          let (_, parents) = walk.directory().unwrap();
          found.push(String::from_utf8([parents, &name].concat()).unwrap());
        }
        Walked::End => break,
      }
    }
    assert_eq!(found, ["a", "a.b", "b", "b/y"]);
    assert_eq!((walk.names, walk.bytes), (0, 0));
  }

  #[test]
  fn a_name_that_is_given_again_while_it_is_read_comes_once() {
    // In a tmpfs, what is renamed is read again behind what was there; elsewhere this shows nothing.
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let names: Vec<String> = (0..3000).map(|number| format!("{number:0>40}")).collect();
    for name in &names {
      std::fs::create_dir(root.path().join(name)).unwrap();
    }
    let workspace = Workspace::open(root.path().as_os_str()).unwrap();
    let mut walk = Walk::new(&workspace, RelativePath::WORKSPACE, 1).unwrap();
    assert!(matches!(walk.step(&workspace).unwrap(), Walked::Busy));
    assert!(!walk.levels[0].is_read, "one buffer holds them all");
    for name in &names {
      std::fs::rename(root.path().join(name), root.path().join("aside")).unwrap();
      std::fs::rename(root.path().join("aside"), root.path().join(name)).unwrap();
    }
    let mut found = std::collections::BTreeMap::new();
    loop {
      match walk.step(&workspace).unwrap() {
        Walked::Busy => {}
        Walked::Entry(name) => *found.entry(name).or_insert(0) += 1,
        Walked::End => break,
      }
    }
    assert_eq!(found.values().max(), Some(&1));
    assert_eq!((walk.names, walk.bytes), (0, 0));
  }

  #[test]
  fn the_directory_itself_that_is_gone_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("a")).unwrap();
    let workspace = Workspace::open(root.path().as_os_str()).unwrap();
    let mut walk = Walk::new(&workspace, RelativePath::new(b"a").unwrap(), 8).unwrap();
    std::fs::remove_dir(root.path().join("a")).unwrap();
    assert!(matches!(walk.step(&workspace), Err(Errno::NOENT)));
  }
}
