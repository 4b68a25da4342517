//! What an entry of an archive may be. Pure rules; [`super::gate`] applies them to a whole archive.

use std::fmt;

use super::error::{Refusal, quote_bytes};
use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH};
use crate::workspace::path::{WORKSPACE_ROOT, WorkspacePath};

/// Permission bits that an entry keeps: no set-id, no sticky bit.
pub const MODE_MASK: u32 = 0o777;

/// The path of an entry: relative, `/` between components, no `.`, `..` or NUL, empty for the workspace itself.
/// Bytes, not text: two names that are no UTF-8 must not become one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPath(Vec<u8>);

impl EntryPath {
  /// The workspace itself.
  pub const fn root() -> Self {
    Self(Vec::new())
  }

  /// Checks a name as an archive has it. `.` and repeated slashes are folded; a backslash is an ordinary byte.
  pub fn parse(name: &[u8]) -> Result<Self, Refusal> {
    if name.is_empty() {
      return Err(Refusal::EmptyName);
    }
    if name.contains(&0) {
      return Err(Refusal::Nul);
    }
    if name.starts_with(b"/") {
      return Err(Refusal::Absolute);
    }
    let mut path = Vec::new();
    let mut depth = 0;
    for part in parts(name) {
      if part == b".." {
        return Err(Refusal::Parent);
      }
      depth += 1;
      push_part(&mut path, part)?;
    }
    if depth > MAX_PATH_DEPTH {
      return Err(Refusal::Deep);
    }
    Ok(Self(path))
  }

  /// Relative to the workspace; empty for the workspace itself.
  pub fn as_bytes(&self) -> &[u8] {
    &self.0
  }

  /// True for the workspace itself.
  pub fn is_root(&self) -> bool {
    self.0.is_empty()
  }

  /// The components in order.
  pub fn components(&self) -> impl Iterator<Item = &[u8]> {
    parts(&self.0)
  }

  /// The directories above it below the workspace, the outermost first.
  pub fn parents(&self) -> impl Iterator<Item = Self> {
    let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| Self(self.0.get(..at).unwrap_or_default().to_vec()))
  }
}

impl From<&WorkspacePath> for EntryPath {
  fn from(path: &WorkspacePath) -> Self {
    // The rules of a workspace path are the same ones, on text.
    Self(path.as_str().as_bytes().to_vec())
  }
}

impl fmt::Display for EntryPath {
  /// In quotes, escaped and shortened, for messages; `"."` for the workspace itself.
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&quote_bytes(if self.is_root() { b"." } else { &self.0 }))
  }
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
  /// A regular file.
  File,
  /// A directory.
  Directory,
  /// A symbolic link with its target, byte for byte.
  Symlink {
    /// Where it leads.
    target: Vec<u8>,
  },
  /// Another name of a file that is in the same archive before it.
  HardLink {
    /// That file.
    target: EntryPath,
  },
}

/// An entry, vetted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
  /// Where it is in the workspace.
  pub path: EntryPath,
  /// What it is.
  pub kind: EntryKind,
  /// Permission bits, at most 0o777.
  pub mode: u32,
  /// Whole seconds since 1970, negative before.
  pub mtime: i64,
  /// Bytes of contents, 0 for all but files.
  pub size: u64,
  /// The archive does not hold it: it is the directory of an entry that follows.
  pub implied: bool,
}

/// Where symbolic links may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SymlinkRule {
  /// Inside the workspace only.
  #[default]
  Inside,
  /// Anywhere. Links are never followed by us; a program in the container sees only the container's files.
  Anywhere,
}

impl SymlinkRule {
  /// Checks the target of a symbolic link at `link`.
  ///
  /// A link stays inside when every `..` comes before the first name, and there are no more of them than directories
  /// above the link. After a name, `..` leaves what that name leads to, which need not be where the text says; so it
  /// is refused, and then no chain of accepted links can leave. An absolute target must be below `/workspace`.
  pub fn check(self, link: &EntryPath, target: &[u8]) -> Result<(), Refusal> {
    check_target_text(target)?;
    if self == Self::Anywhere {
      return Ok(());
    }
    let (rest, mut ups_left) = match target.strip_prefix(WORKSPACE_ROOT.as_bytes()) {
      Some(rest) if rest.is_empty() || rest.starts_with(b"/") => (rest, 0),
      _ if target.starts_with(b"/") => return Err(Refusal::LinkOutside),
      _ => (target, link.components().count().saturating_sub(1)),
    };
    for part in parts(rest) {
      ups_left = match (part, ups_left) {
        (b"..", 0) => return Err(Refusal::LinkOutside),
        (b"..", left) => left - 1,
        _ => 0,
      };
    }
    Ok(())
  }
}

fn check_target_text(target: &[u8]) -> Result<(), Refusal> {
  if target.is_empty() {
    return Err(Refusal::EmptyTarget);
  }
  if target.contains(&0) {
    return Err(Refusal::Nul);
  }
  if target.len() > MAX_PATH_BYTES {
    return Err(Refusal::LongPath);
  }
  if parts(target).any(|part| part.len() > MAX_NAME_BYTES) {
    return Err(Refusal::LongComponent);
  }
  Ok(())
}

fn push_part(path: &mut Vec<u8>, part: &[u8]) -> Result<(), Refusal> {
  if part.len() > MAX_NAME_BYTES {
    return Err(Refusal::LongComponent);
  }
  if !path.is_empty() {
    path.push(b'/');
  }
  path.extend_from_slice(part);
  if path.len() > MAX_PATH_BYTES { Err(Refusal::LongPath) } else { Ok(()) }
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
  path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

#[cfg(test)]
mod tests;
