//! Paths beneath the workspace.

use super::WireError;
use super::codec::{Put, Reader};
use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH};

/// A path relative to the workspace; empty: the workspace itself. Its components are names: no `.`, `..`, empty ones
/// or NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelativePath<'a> {
  bytes: &'a [u8],
}

impl<'a> RelativePath<'a> {
  /// The workspace itself.
  pub const WORKSPACE: RelativePath<'static> = RelativePath { bytes: &[] };

  /// Checks a path. [`WireError::Invalid`]: see the type.
  pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
    let path = Self { bytes };
    let fits = bytes.len() <= MAX_PATH_BYTES && path.components().count() <= MAX_PATH_DEPTH;
    if fits && path.components().all(is_name) { Ok(path) } else { Err(WireError::Invalid) }
  }

  /// Its bytes, without a slash at either end.
  pub const fn as_bytes(&self) -> &'a [u8] {
    self.bytes
  }

  /// Its components; none for the workspace.
  pub fn components(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let some = !self.bytes.is_empty();
    self.bytes.split(|byte| *byte == b'/').filter(move |_| some)
  }

  /// The directory it is in, and its name; `None` for the workspace.
  pub fn split(&self) -> Option<(Self, &'a [u8])> {
    let name = self.components().last()?;
    let directory = self.bytes.len().saturating_sub(name.len() + 1);
    Some((Self { bytes: self.bytes.get(..directory)? }, name))
  }

  pub(super) fn read(from: &mut Reader<'a>) -> Result<Self, WireError> {
    Self::new(from.blob(MAX_PATH_BYTES)?)
  }

  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_blob(self.bytes);
  }
}

/// Whether it can be the name of a directory entry.
fn is_name(name: &[u8]) -> bool {
  !matches!(name, b"" | b"." | b"..") && name.len() <= MAX_NAME_BYTES && !name.contains(&0)
}
