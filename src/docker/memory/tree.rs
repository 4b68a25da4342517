//! The files of a container: directories, regular files, symbolic links and pipes, with tmpfs mounts that have a size.
//! Owners and permissions are kept nowhere: a double enforces nothing.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use bytes::Bytes;

use super::mount::{Mount, PAGE};

/// Name of an entry. Linux names are bytes.
pub type Name = Vec<u8>;

/// The kernel follows this many links in one path (`MAXSYMLINKS`, `linux/namei.h`).
const MAX_LINKS: u32 = 40;
/// Deepest entry. Trees are walked and dropped by recursion, and an archive may hold any depth.
const MAX_DEPTH: usize = 512;

/// One thing in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
  /// A regular file.
  File {
    /// Its contents.
    data: Bytes,
    /// Permission bits.
    mode: u32,
  },
  /// A directory.
  Directory {
    /// What is in it.
    entries: BTreeMap<Name, Node>,
    /// Permission bits.
    mode: u32,
  },
  /// A symbolic link.
  Symlink {
    /// Where it points.
    target: Vec<u8>,
  },
  /// A named pipe, which stands for everything else.
  Pipe {
    /// Permission bits.
    mode: u32,
  },
}

impl Node {
  /// An empty directory.
  pub const fn directory(mode: u32) -> Self {
    Self::Directory { entries: BTreeMap::new(), mode }
  }

  /// True for a directory.
  pub const fn is_directory(&self) -> bool {
    matches!(self, Self::Directory { .. })
  }

  /// Pages and inodes that it and everything in it take on a tmpfs.
  pub fn cost(&self) -> (u64, u64) {
    match self {
      Self::File { data, .. } => ((data.len() as u64).div_ceil(PAGE), 1),
      Self::Directory { entries, .. } => {
        entries.values().map(Self::cost).fold((0, 1), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1))
      }
      Self::Symlink { .. } | Self::Pipe { .. } => (0, 1),
    }
  }

  fn depth(&self) -> usize {
    match self {
      Self::Directory { entries, .. } => entries.values().map(Self::depth).max().map_or(1, |depth| depth + 1),
      _ => 1,
    }
  }
}

/// Why the tree refused, in the words of `strerror(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
  /// `ENOENT`.
  NoEntry,
  /// `ENOTDIR`.
  NotDirectory,
  /// `EISDIR`.
  IsDirectory,
  /// `EEXIST`.
  Exists,
  /// `ENOTEMPTY`.
  NotEmpty,
  /// `EROFS`.
  ReadOnly,
  /// `ENOSPC`.
  NoSpace,
  /// `ELOOP`.
  Loop,
  /// `ENAMETOOLONG`.
  TooLong,
  /// `EBUSY`: a mount point.
  Busy,
  /// `EINVAL`: a directory into itself.
  Invalid,
  /// `EXDEV`: a rename from one mount to another.
  CrossDevice,
}

impl fmt::Display for Refusal {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(match self {
      Self::NoEntry => "No such file or directory",
      Self::NotDirectory => "Not a directory",
      Self::IsDirectory => "Is a directory",
      Self::Exists => "File exists",
      Self::NotEmpty => "Directory not empty",
      Self::ReadOnly => "Read-only file system",
      Self::NoSpace => "No space left on device",
      Self::Loop => "Too many levels of symbolic links",
      Self::TooLong => "File name too long",
      Self::Busy => "Device or resource busy",
      Self::Invalid => "Invalid argument",
      Self::CrossDevice => "Invalid cross-device link",
    })
  }
}

/// What to do with a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
  /// Go where it points.
  Follow,
  /// Take the link itself.
  Keep,
}

/// All files of one container.
#[derive(Clone, Debug)]
pub struct Tree {
  root: Node,
  read_only: bool,
  mounts: Vec<Mount>,
}

impl Tree {
  /// A tree over an image's files.
  pub const fn new(root: Node, read_only: bool) -> Self {
    Self { root, read_only, mounts: Vec::new() }
  }

  /// Mounts an empty tmpfs; its mount point is made.
  pub fn mount(&mut self, mount: Mount) -> Result<(), Refusal> {
    let directory = self.force_directory(&mount.at)?;
    *directory = Node::directory(mount.mode);
    self.mounts.push(mount);
    Ok(())
  }

  /// Makes a directory and its parents whatever is read-only, as an engine does before a container starts.
  pub fn force_directory(&mut self, at: &[Name]) -> Result<&mut Node, Refusal> {
    let mut node = &mut self.root;
    for name in at {
      let Node::Directory { entries, .. } = node else { return Err(Refusal::NotDirectory) };
      node = entries.entry(name.clone()).or_insert_with(|| Node::directory(0o755));
    }
    if node.is_directory() { Ok(node) } else { Err(Refusal::NotDirectory) }
  }

  /// Empties every tmpfs: process 1 ended, and with it the mounts.
  pub fn lose_mounts(&mut self) {
    for at in self.mounts.iter().map(|mount| mount.at.clone()).collect::<Vec<_>>() {
      if let Some(Node::Directory { entries, .. }) = self.get_mut(&at) {
        entries.clear();
      }
    }
    self.mounts.iter_mut().for_each(Mount::reset);
  }

  /// The image that a commit makes: nothing of a tmpfs is in it.
  pub fn image(&self) -> Node {
    let mut copy = self.clone();
    copy.lose_mounts();
    copy.root
  }

  /// The entry at a resolved place.
  pub fn get(&self, at: &[Name]) -> Option<&Node> {
    at.iter().try_fold(&self.root, |node, name| match node {
      Node::Directory { entries, .. } => entries.get(name),
      _ => None,
    })
  }

  fn get_mut(&mut self, at: &[Name]) -> Option<&mut Node> {
    at.iter().try_fold(&mut self.root, |node, name| match node {
      Node::Directory { entries, .. } => entries.get_mut(name),
      _ => None,
    })
  }

  /// The place that a path leads to from directory `from`. The last component need not exist; the others must.
  pub fn place(&self, from: &[Name], path: &[u8], last: Last) -> Result<Vec<Name>, Refusal> {
    let mut place = if path.starts_with(b"/") { Vec::new() } else { from.to_vec() };
    let mut rest: VecDeque<Name> = parts(path).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
      match self.get(&place) {
        Some(Node::Directory { .. }) => {}
        Some(_) => return Err(Refusal::NotDirectory),
        None => return Err(Refusal::NoEntry),
      }
      match name.as_slice() {
        b"." => continue,
        b".." => {
          place.pop();
          continue;
        }
        _ => place.push(name),
      }
      let Some(Node::Symlink { target }) = self.get(&place) else { continue };
      if rest.is_empty() && last == Last::Keep {
        continue;
      }
      links += 1;
      if links > MAX_LINKS {
        return Err(Refusal::Loop);
      }
      place.pop();
      if target.starts_with(b"/") {
        place.clear();
      }
      for part in parts(target).collect::<Vec<_>>().into_iter().rev() {
        rest.push_front(part);
      }
    }
    Ok(place)
  }

  /// The place of something that exists.
  pub fn existing(&self, from: &[Name], path: &[u8], last: Last) -> Result<(Vec<Name>, &Node), Refusal> {
    let place = self.place(from, path, last)?;
    let node = self.get(&place).ok_or(Refusal::NoEntry)?;
    Ok((place, node))
  }

  /// Puts a new entry where none is. What does not fit is not put, but the fitting part of a file is, as a `write`
  /// that meets a full file system leaves it.
  pub fn put(&mut self, at: &[Name], node: Node) -> Result<(), Refusal> {
    self.check_writable(at)?;
    let room = self.mount_of(at).map_or((u64::MAX, u64::MAX), Mount::room);
    let (pages, inodes) = node.cost();
    let (node, result) = match node {
      _ if inodes > room.1 => return Err(Refusal::NoSpace),
      Node::File { data, mode } if pages > room.0 => {
        let fits = usize::try_from(room.0.saturating_mul(PAGE)).unwrap_or(usize::MAX).min(data.len());
        (Node::File { data: data.slice(..fits), mode }, Err(Refusal::NoSpace))
      }
      _ if pages > room.0 => return Err(Refusal::NoSpace),
      node => (node, Ok(())),
    };
    let cost = node.cost();
    let (name, entries) = self.slot(at)?;
    if entries.contains_key(name) {
      return Err(Refusal::Exists);
    }
    entries.insert(name.clone(), node);
    if let Some(mount) = self.mount_of_mut(at) {
      mount.add(cost);
    }
    result
  }

  /// Takes an entry out, with all that is in it.
  pub fn take(&mut self, at: &[Name]) -> Result<Node, Refusal> {
    self.check_writable(at)?;
    if self.mounts.iter().any(|mount| mount.at.starts_with(at)) {
      return Err(Refusal::Busy);
    }
    let (name, entries) = self.slot(at)?;
    let node = entries.remove(name).ok_or(Refusal::NoEntry)?;
    if let Some(mount) = self.mount_of_mut(at) {
      mount.subtract(node.cost());
    }
    Ok(node)
  }

  /// Renames as `rename(2)` does: what was at `to` is replaced.
  pub fn rename(&mut self, from: &[Name], to: &[Name]) -> Result<(), Refusal> {
    let moved = self.get(from).ok_or(Refusal::NoEntry)?;
    match self.get(to) {
      _ if from == to => return Ok(()),
      _ if to.starts_with(from) => return Err(Refusal::Invalid),
      Some(Node::Directory { entries, .. }) if moved.is_directory() && !entries.is_empty() => {
        return Err(Refusal::NotEmpty);
      }
      Some(Node::Directory { .. }) if !moved.is_directory() => return Err(Refusal::IsDirectory),
      Some(old) if moved.is_directory() && !old.is_directory() => return Err(Refusal::NotDirectory),
      _ => {}
    }
    let deepest = to.len() + moved.depth();
    let device = |place| self.mount_of(place).map(|mount| &mount.at);
    if device(from) != device(to) {
      return Err(Refusal::CrossDevice);
    }
    self.check_writable(to)?;
    if deepest > MAX_DEPTH {
      return Err(Refusal::TooLong);
    }
    self.slot(to)?;
    let moved = self.take(from)?;
    if self.get(to).is_some() {
      self.take(to)?;
    }
    self.put(to, moved)
  }

  /// Sets permission bits; links have none.
  pub fn set_mode(&mut self, at: &[Name], new: u32) -> Result<(), Refusal> {
    self.check_writable(at)?;
    match self.get_mut(at).ok_or(Refusal::NoEntry)? {
      Node::File { mode, .. } | Node::Directory { mode, .. } | Node::Pipe { mode } => *mode = new,
      Node::Symlink { .. } => {}
    }
    Ok(())
  }

  fn slot<'a>(&mut self, at: &'a [Name]) -> Result<(&'a Name, &mut BTreeMap<Name, Node>), Refusal> {
    let (name, parent) = at.split_last().ok_or(Refusal::Busy)?;
    match self.get_mut(parent) {
      Some(Node::Directory { entries, .. }) => Ok((name, entries)),
      Some(_) => Err(Refusal::NotDirectory),
      None => Err(Refusal::NoEntry),
    }
  }

  fn check_writable(&self, at: &[Name]) -> Result<(), Refusal> {
    if at.len() > MAX_DEPTH || at.last().is_some_and(|name| name.len() > crate::limits::MAX_NAME_BYTES) {
      return Err(Refusal::TooLong);
    }
    match self.mount_of(at).map_or(self.read_only, |mount| mount.read_only) {
      true => Err(Refusal::ReadOnly),
      false => Ok(()),
    }
  }

  /// The tmpfs that a place is on: the deepest one, since one may be mounted below another.
  fn mount_of(&self, at: &[Name]) -> Option<&Mount> {
    self.mounts.iter().filter(|mount| at.starts_with(&mount.at)).max_by_key(|mount| mount.at.len())
  }

  fn mount_of_mut(&mut self, at: &[Name]) -> Option<&mut Mount> {
    self.mounts.iter_mut().filter(|mount| at.starts_with(&mount.at)).max_by_key(|mount| mount.at.len())
  }
}

/// Components of a path; a slash at the end demands a directory, like a dot after it.
fn parts(path: &[u8]) -> impl Iterator<Item = Name> {
  let dot = path.ends_with(b"/").then(|| b".".to_vec());
  path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).chain(dot)
}

/// A resolved place as a path.
pub fn path_of(place: &[Name]) -> Vec<u8> {
  match place {
    [] => b"/".to_vec(),
    _ => place.iter().flat_map(|name| [b"/", name.as_slice()].concat()).collect(),
  }
}
