//! Copies host files into a workspace: what is included is found, vetted, measured and read, below one root.
//!
//! An include that exists as a path is that path, whatever characters it has; otherwise it is a glob. A directory brings
//! everything below it. A symbolic link is copied as what it leads to, if that is inside the root; one that leaves it,
//! leads nowhere or to a directory around itself is refused by name, as is every pipe, socket and device. A search for
//! a glob does not go through links. This blocks; call it where that is allowed.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;

use self::beneath::Beneath;
use self::include::{Glob, Include};
use super::path::quote;
use crate::archive::{EntryPath, PackEntry};
use crate::error::{Error, Result, fail};
use crate::limits::MAX_SOURCE_VISITS;

mod beneath;
mod include;

/// Files of the host that are copied into a new workspace.
#[derive(Clone, Debug)]
pub struct HostSource {
  /// Absolute path on the host.
  pub root: PathBuf,
  /// Paths or globs relative to it.
  pub include: Vec<String>,
}

/// How much may be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceBudget {
  /// Bytes of one file.
  pub max_file_bytes: u64,
  /// Bytes of all files together.
  pub max_total_bytes: u64,
  /// Files and directories.
  pub max_entries: u64,
}

/// Reads what `source` includes, sorted by path, each once; paths are relative to its root. `CONFIG_INVALID` for an
/// include that is wrong or finds nothing and for what cannot be copied, `LIMIT` for what passes the budget; the
/// message names it.
pub fn collect(source: &HostSource, budget: &SourceBudget) -> Result<Vec<PackEntry>> {
  let root = quote(&source.root.to_string_lossy());
  if !source.root.is_absolute() {
    return Err(fail!(ConfigInvalid, "workspace.source.root is {root}; it must be an absolute path."));
  }
  let includes = source.include.iter().map(|text| Include::parse(text)).collect::<Result<Vec<_>>>()?;
  let beneath = Beneath::open(&source.root).map_err(|error| {
    fail!(ConfigInvalid, "workspace.source.root {root} cannot be opened: {error}.").with_source(error)
  })?;
  collect_from(&beneath, &includes, budget)
}

fn collect_from(beneath: &Beneath, includes: &[Include], budget: &SourceBudget) -> Result<Vec<PackEntry>> {
  let mut walk = Walk { beneath, budget, found: BTreeMap::new(), visits: 0 };
  for include in includes {
    walk.include(include)?;
  }
  let mut left = budget.max_total_bytes;
  let found = walk.found.into_iter();
  found.map(|(path, found)| found.into_entry(path, beneath, budget, &mut left)).collect()
}

/// Something to be copied.
enum Found {
  Directory { mode: u32 },
  File { host: PathBuf },
}

/// Device and inode: what tells directories apart.
type Identity = (u64, u64);

struct Walk<'a> {
  beneath: &'a Beneath,
  budget: &'a SourceBudget,
  found: BTreeMap<EntryPath, Found>,
  visits: u64,
}

impl Walk<'_> {
  fn include(&mut self, include: &Include) -> Result<()> {
    let nothing =
      || fail!(ConfigInvalid, "workspace.source.include has {}, which finds nothing.", include.shown);
    match (self.beneath.stat(&include.path, false), &include.glob) {
      (Ok(_), _) => self.take(&include.path),
      (Err(error), Some(glob)) if is_absent(&error) => match self.search(glob)? {
        matches if matches.is_empty() => Err(nothing()),
        matches => matches.iter().try_for_each(|path| self.take(path)),
      },
      (Err(error), _) if is_absent(&error) => Err(nothing()),
      (Err(error), _) => Err(refused(&include.path, error)),
    }
  }

  /// Everything that a glob matches, without what is below a match: a directory brings that along.
  fn search(&mut self, glob: &Glob) -> Result<Vec<PathBuf>> {
    let mut matches = Vec::new();
    let mut todo = vec![glob.base.clone()];
    while let Some(path) = todo.pop() {
      self.visit(&path)?;
      if glob.matches(&path) {
        matches.push(path);
        continue;
      }
      match self.beneath.stat(&path, path == glob.base) {
        Ok(meta) if meta.is_dir() => todo.extend(self.children(&path)?),
        Ok(_) => {}
        // Gone since its directory was read, or a base that never was.
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(refused(&path, error)),
      }
    }
    Ok(matches)
  }

  /// Plans to copy what is at `path` and below.
  fn take(&mut self, path: &Path) -> Result<()> {
    let mut todo = vec![(path.to_owned(), Rc::<[Identity]>::from([]))];
    while let Some((path, around)) = todo.pop() {
      self.visit(&path)?;
      let meta = self.look(&path)?;
      if meta.is_file() {
        self.plan(&path, Found::File { host: path.clone() })?;
        continue;
      }
      let own = (meta.dev(), meta.ino());
      if around.contains(&own) {
        return Err(wrong(&path, "is a symbolic link to a directory around itself"));
      }
      let around: Rc<[_]> = around.iter().copied().chain([own]).collect();
      if !path.as_os_str().is_empty() {
        self.plan(&path, Found::Directory { mode: meta.mode() })?;
      }
      todo.extend(self.children(&path)?.map(|child| (child, Rc::clone(&around))));
    }
    Ok(())
  }

  /// A file or directory, perhaps through links; everything else is refused.
  fn look(&self, path: &Path) -> Result<Metadata> {
    let meta = self.beneath.stat(path, false).map_err(|error| refused(path, error))?;
    let meta = if meta.is_symlink() {
      self.beneath.stat(path, true).map_err(|error| match error.kind() {
        ErrorKind::NotFound => wrong(path, "is a symbolic link that leads nowhere"),
        _ => refused(path, error),
      })?
    } else {
      meta
    };
    let kind = meta.file_type();
    let what = match () {
      () if kind.is_file() || kind.is_dir() => return Ok(meta),
      () if kind.is_fifo() => "is a pipe",
      () if kind.is_socket() => "is a socket",
      () => "is a device",
    };
    Err(wrong(path, what))
  }

  fn plan(&mut self, path: &Path, found: Found) -> Result<()> {
    let entry = EntryPath::parse(path.as_os_str().as_bytes())
      .map_err(|why| fail!(ConfigInvalid, "{} of workspace.source cannot be copied: {why}.", name(path)))?;
    self.found.insert(entry, found);
    if self.found.len() as u64 > self.budget.max_entries {
      return Err(fail!(
        Limit,
        "workspace.source has more than {} files and directories; {} is one too many. Include less.",
        self.budget.max_entries,
        name(path)
      ));
    }
    Ok(())
  }

  fn children<'p>(&self, path: &'p Path) -> Result<impl Iterator<Item = PathBuf> + use<'p>> {
    let max = usize::try_from(MAX_SOURCE_VISITS).unwrap_or(usize::MAX);
    let names = self.beneath.names(path, max).map_err(|error| refused(path, error))?;
    // The last is visited first, so that the order is that of the names.
    Ok(names.into_iter().rev().map(|name| path.join(name)))
  }

  fn visit(&mut self, path: &Path) -> Result<()> {
    self.visits += 1;
    if self.visits > MAX_SOURCE_VISITS {
      return Err(fail!(
        Limit,
        "Looking for workspace.source.include ended at {}, after {MAX_SOURCE_VISITS} files and directories. \
         Name what you need more closely.",
        name(path)
      ));
    }
    Ok(())
  }
}

impl Found {
  fn into_entry(
    self,
    path: EntryPath,
    beneath: &Beneath,
    budget: &SourceBudget,
    left: &mut u64,
  ) -> Result<PackEntry> {
    let host = match self {
      Self::Directory { mode } => return Ok(PackEntry::Directory { path, mode: mode & 0o777 }),
      Self::File { host } => host,
    };
    let file = beneath.read(&host).map_err(|error| refused(&host, error))?;
    let meta = file.metadata().map_err(|error| refused(&host, error))?;
    if !meta.is_file() {
      return Err(wrong(&host, "became something else than a file"));
    }
    let contents = read_measured(&host, file, meta.len(), budget, *left)?;
    *left = left.saturating_sub(contents.len() as u64);
    Ok(PackEntry::File { path, contents, mode: meta.mode() & 0o777 })
  }
}

/// Reads a file that had `size` bytes a moment ago. Not one byte more is taken: it may grow meanwhile.
fn read_measured(path: &Path, file: impl Read, size: u64, budget: &SourceBudget, left: u64) -> Result<Bytes> {
  if size > budget.max_file_bytes {
    return Err(fail!(
      Limit,
      "{} of workspace.source has {size} bytes; a file may have {}.",
      name(path),
      budget.max_file_bytes
    ));
  }
  if size > left {
    return Err(fail!(
      Limit,
      "{} of workspace.source has {size} bytes, but only {left} of {} are left. Include less.",
      name(path),
      budget.max_total_bytes
    ));
  }
  let mut contents = Vec::new();
  file.take(size + 1).read_to_end(&mut contents).map_err(|error| refused(path, error))?;
  if contents.len() as u64 > size {
    return Err(wrong(path, "grew while it was read"));
  }
  Ok(contents.into())
}

fn is_absent(error: &io::Error) -> bool {
  // A glob may be longer than a name can be.
  matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename)
}

fn refused(path: &Path, error: io::Error) -> Error {
  match error.kind() {
    ErrorKind::CrossesDevices => wrong(path, "leaves the root through a symbolic link"),
    _ => {
      fail!(ConfigInvalid, "{} of workspace.source cannot be read: {error}.", name(path)).with_source(error)
    }
  }
}

fn wrong(path: &Path, why: &str) -> Error {
  fail!(ConfigInvalid, "{} of workspace.source {why}; it is not copied. Leave it out of include.", name(path))
}

fn name(path: &Path) -> String {
  let text = path.to_string_lossy();
  quote(if text.is_empty() { "." } else { &text })
}

#[cfg(test)]
mod tests;
