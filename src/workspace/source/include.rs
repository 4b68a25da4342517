//! What a host source includes: paths and globs, as text.

use globset::{GlobBuilder, GlobMatcher};
use std::path::{Path, PathBuf};

use crate::error::{Result, fail};
use crate::limits::MAX_PATH_BYTES;
use crate::workspace::path::quote;

/// One entry of `include`.
#[derive(Debug)]
pub struct Include {
  /// As the user wrote it, in quotes, for messages.
  pub shown: String,
  /// As a path; empty for the root itself.
  pub path: PathBuf,
  /// As a glob, if it is one.
  pub glob: Option<Glob>,
}

/// A compiled glob. `*` and `?` stay within one component, `**` does not; names that start with a dot match like others.
#[derive(Debug)]
pub struct Glob {
  /// The directory in which all that it matches is.
  pub base: PathBuf,
  matcher: GlobMatcher,
}

impl Include {
  /// Checks one entry: relative, no `..`, no NUL. `CONFIG_INVALID` otherwise.
  pub fn parse(text: &str) -> Result<Self> {
    let shown = quote(text);
    let wrong = |why: &str| fail!(ConfigInvalid, "workspace.source.include has {shown}, which {why}.");
    if text.is_empty() {
      return Err(wrong("is empty; use \".\" for everything below the root"));
    }
    if text.contains('\0') {
      return Err(wrong("contains a NUL byte"));
    }
    if text.len() > MAX_PATH_BYTES {
      return Err(wrong("is longer than any path"));
    }
    if text.starts_with('/') {
      return Err(wrong("is absolute; name it relative to the root"));
    }
    let parts: Vec<_> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
      return Err(wrong("contains \"..\"; only what is below the root can be copied"));
    }
    let path = parts.join("/");
    let glob =
      if path.contains(['*', '?', '[', '{']) { Some(Glob::parse(&path, &parts, &shown)?) } else { None };
    Ok(Self { shown, path: path.into(), glob })
  }
}

impl Glob {
  fn parse(pattern: &str, parts: &[&str], shown: &str) -> Result<Self> {
    let plain = parts.iter().take_while(|part| !part.contains(['*', '?', '[', '{', '\\']));
    let base = plain.collect();
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    match glob {
      Ok(glob) => Ok(Self { base, matcher: glob.compile_matcher() }),
      Err(error) => Err(
        fail!(ConfigInvalid, "workspace.source.include has {shown}, which is neither a path nor a glob.")
          .with_source(error),
      ),
    }
  }

  /// True if it matches the whole of `path`.
  pub fn matches(&self, path: &Path) -> bool {
    self.matcher.is_match(path)
  }
}
