//! The public `getArchive`: the archive in one piece.

use futures_util::StreamExt;

use super::engine::{Archive, Engine};
use super::model::PathStat;
use crate::error::Result;

/// Collects the archive of a path, at most `max_bytes`, and reads what it says of the path itself.
pub async fn get_whole_archive(engine: &dyn Engine, id: &str, path: &str, max_bytes: u64) -> Result<Archive> {
  let mut pieces = engine.get_archive(id, path, max_bytes).await?;
  let mut tar = Vec::new();
  while let Some(piece) = pieces.next().await {
    tar.extend_from_slice(&piece?);
  }
  let name = path.rsplit('/').next().unwrap_or_default().to_owned();
  Ok(Archive { tar, stat: PathStat { name, ..PathStat::default() } })
}
