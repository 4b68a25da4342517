//! Files by archive, for engines that have only the public `DockerClient`'s methods: `realpath`, `getArchive`,
//! `putArchive`, `exec`. The container's side is not trusted: an archive must hold what was asked for and nothing else.
//!
//! Symbolic links are refused by comparing the resolved path with the one asked for. Between that check and the use a
//! program in the container can swap a directory for a link, so this way is not free of races; what it then reaches is
//! still only the container's own.

mod list;
mod read;
mod reader;
#[cfg(test)]
mod tests;
mod write;

pub use list::list;
pub use read::read_file;
pub use write::write_file;

use self::reader::{Kind, head};
use crate::cancel::Cancel;
use crate::docker::Engine;
use crate::error::{Error, Result, fail};
use crate::workspace::path::WorkspacePath;

/// A path of a container, for one operation.
#[derive(Clone, Copy)]
struct Site<'a> {
  engine: &'a dyn Engine,
  container: &'a str,
  path: &'a WorkspacePath,
  /// `read`, `write` or `list`, for messages.
  verb: &'static str,
}

impl Site<'_> {
  /// What the operation is called where it is cancelled or fails.
  fn what(&self) -> String {
    let doing = match self.verb {
      "read" => "Reading",
      "write" => "Writing",
      _ => "Listing",
    };
    format!("{doing} {}", self.path)
  }

  async fn guard<T>(&self, cancel: &Cancel, work: impl Future<Output = Result<T>>) -> Result<T> {
    cancel.guard(&self.what(), work).await
  }

  /// Fails unless the path exists and resolves to itself.
  async fn check_plain(&self) -> Result<()> {
    let absolute = self.path.absolute();
    match self.engine.realpath(self.container, &absolute).await {
      Ok(resolved) if resolved == absolute => Ok(()),
      Ok(_) => Err(self.link()),
      // A link that leads nowhere resolves to nothing.
      Err(error) if error.is_not_found() => match head(self, self.path).await? {
        Some(Kind::Symlink) => Err(self.link()),
        _ => Err(self.missing()),
      },
      Err(error) => Err(self.engine_failed(error)),
    }
  }

  fn link(&self) -> Error {
    let Self { verb, path, .. } = self;
    fail!(PathInvalid, "Cannot {verb} {path}: a symbolic link is on the way, and links are never followed.")
  }

  fn missing(&self) -> Error {
    let Self { verb, path, .. } = self;
    fail!(
      NotFound,
      "Cannot {verb} {path}: it does not exist in the workspace. List the directory to see what does."
    )
  }

  fn directory(&self) -> Error {
    let Self { verb, path, .. } = self;
    fail!(PathInvalid, "Cannot {verb} {path}: it is a directory. Name a file, or list it instead.")
  }

  fn special(&self) -> Error {
    let Self { verb, path, .. } = self;
    fail!(PathInvalid, "Cannot {verb} {path}: it is no regular file.")
  }

  fn not_a_directory(&self) -> Error {
    let Self { verb, path, .. } = self;
    fail!(PathInvalid, "Cannot {verb} {path}: something on the way is no directory.")
  }

  /// An engine's error, with the operation before it; a full file system is a `LIMIT`.
  fn engine_failed(&self, error: Error) -> Error {
    if is_full(error.message()) { self.full().with_source(error) } else { error.context(self.what()) }
  }

  fn full(&self) -> Error {
    let Self { verb, path, .. } = self;
    fail!(
      Limit,
      "Cannot {verb} {path}: the workspace is full. Remove files, or raise limits.maxWorkspaceBytes."
    )
  }
}

/// True for the words of `ENOSPC` and `EDQUOT`, which programs pass on from `strerror(3)`.
fn is_full(said: &str) -> bool {
  said.contains("No space left") || said.contains("quota exceeded")
}
