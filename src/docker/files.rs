//! Files that belong to Docker's command line: read by us, never written.

use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt;

use crate::error::{Error, Result, fail};

/// The largest that is read; real ones have some hundred bytes to some KiB.
const MAX_BYTES: u64 = 1024 * 1024;

/// What a file holds; `None` where there is none.
pub async fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
  let file = match tokio::fs::File::open(path).await {
    Ok(file) => file,
    Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
    Err(error) => return Err(error),
  };
  let mut bytes = Vec::new();
  file.take(MAX_BYTES).read_to_end(&mut bytes).await?;
  Ok(Some(bytes))
}

/// What a JSON file holds; `None` where there is none.
pub async fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
  match read(path).await {
    Ok(None) => Ok(None),
    Ok(Some(bytes)) => serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(path, &error)),
    Err(error) => Err(unreadable(path, &error)),
  }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Error {
  fail!(
    ConfigInvalid,
    "Docker's file {} cannot be read: {error}. Mend it, set DOCKER_HOST, or pass socketPath.",
    path.display()
  )
}
