//! Paths of the workspace, normalised and checked as text. That no symbolic link is followed is the sandbox's part.

use crate::error::{Result, fail};
use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH};

/// Where the workspace is in every container.
pub const WORKSPACE_ROOT: &str = "/workspace";
/// Its name in the root directory, under which an archive of it holds everything.
pub const WORKSPACE_NAME: &str = "workspace";

/// A path inside the workspace: relative to it, `/` between components, no `.` or `..`, empty for the root itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(String);

impl WorkspacePath {
  /// The workspace itself.
  pub const fn root() -> Self {
    Self(String::new())
  }

  /// Checks a path as a caller wrote it: relative to `/workspace`, or absolute and inside it. `.` and repeated slashes
  /// are folded. `..`, NUL, an absolute path elsewhere and one that is too long or too deep are `PATH_INVALID`.
  pub fn parse(input: &str) -> Result<Self> {
    if input.contains('\0') {
      return Err(fail!(
        PathInvalid,
        "Path {input:?} contains a NUL byte; use a plain path below {WORKSPACE_ROOT}."
      ));
    }
    if input.len() > MAX_PATH_BYTES {
      return Err(fail!(
        PathInvalid,
        "A path of {} bytes was given; at most {MAX_PATH_BYTES} are possible.",
        input.len()
      ));
    }
    let relative = relative_part(input)?;
    let mut parts = Vec::new();
    for part in relative.split('/').filter(|part| !part.is_empty() && *part != ".") {
      check_component(part, input)?;
      parts.push(part);
    }
    if parts.len() > MAX_PATH_DEPTH {
      return Err(fail!(
        PathInvalid,
        "Path {} is {} components deep; at most {MAX_PATH_DEPTH} are possible.",
        quote(input),
        parts.len()
      ));
    }
    Ok(Self(parts.join("/")))
  }

  /// Relative to the workspace; empty for the workspace itself.
  pub fn as_str(&self) -> &str {
    &self.0
  }

  /// As it is in the container.
  pub fn absolute(&self) -> String {
    if self.is_root() { WORKSPACE_ROOT.to_owned() } else { format!("{WORKSPACE_ROOT}/{}", self.0) }
  }

  /// True for the workspace itself.
  pub fn is_root(&self) -> bool {
    self.0.is_empty()
  }

  /// The components in order.
  pub fn components(&self) -> impl Iterator<Item = &str> {
    self.0.split('/').filter(|part| !part.is_empty())
  }

  /// The directory that holds it; `None` for the workspace itself.
  pub fn parent(&self) -> Option<Self> {
    if self.is_root() {
      return None;
    }
    Some(Self(self.0.rsplit_once('/').map_or_else(String::new, |(parent, _)| parent.to_owned())))
  }

  /// The last component; `None` for the workspace itself.
  pub fn name(&self) -> Option<&str> {
    if self.is_root() { None } else { self.0.rsplit('/').next() }
  }
}

impl std::fmt::Display for WorkspacePath {
  /// For messages: `.` for the workspace itself.
  fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    f.write_str(if self.is_root() { "." } else { &self.0 })
  }
}

fn relative_part(input: &str) -> Result<&str> {
  if !input.starts_with('/') {
    return Ok(input);
  }
  match input.strip_prefix(WORKSPACE_ROOT) {
    Some(rest) if rest.is_empty() || rest.starts_with('/') => Ok(rest),
    _ => Err(fail!(
      PathInvalid,
      "Path {} is outside the workspace; use a path relative to {WORKSPACE_ROOT}.",
      quote(input)
    )),
  }
}

fn check_component(part: &str, input: &str) -> Result<()> {
  if part == ".." {
    return Err(fail!(PathInvalid, "Path {} contains \"..\"; name the place directly.", quote(input)));
  }
  if part.len() > MAX_NAME_BYTES {
    return Err(fail!(
      PathInvalid,
      "Path {} has a component of {} bytes; at most {MAX_NAME_BYTES} are possible.",
      quote(input),
      part.len()
    ));
  }
  Ok(())
}

/// A path in quotes, control characters escaped, shortened in the middle of nothing: for messages.
pub fn quote(path: &str) -> String {
  const SHOWN: usize = 120;
  match path.char_indices().nth(SHOWN) {
    None => format!("{path:?}"),
    Some((cut, _)) => format!("{:?}…", path.get(..cut).unwrap_or_default()),
  }
}

#[cfg(test)]
mod tests;
