//! What a new workspace is filled with: declared directories and files, and copies of host files.

use bytes::Bytes;

use super::core::Core;
use crate::archive::{ArchiveError, ArchiveLimits, PackEntry, PackOptions, SymlinkRule, pack};
use crate::cancel::Cancel;
use crate::clock::since_1970;
use crate::error::{ErrorCode, Result, fail};
use crate::limits::MAX_ARCHIVE_ENTRIES;
use crate::workspace::source::{SourceBudget, collect};

/// Permission bits of a declared directory.
const DIRECTORY_MODE: u32 = 0o755;

/// The tar that fills a new workspace; `None` where nothing is declared.
pub async fn seed_archive(core: &Core, cancel: &Cancel) -> Result<Option<Bytes>> {
  let workspace = &core.options.workspace;
  let mut entries: Vec<_> =
    workspace.directories.iter().map(|path| PackEntry::directory(path, DIRECTORY_MODE)).collect();
  entries.extend(host_files(core, cancel).await?);
  // Declared files come last: they replace a host file of the same path.
  let declared =
    workspace.files.iter().map(|file| PackEntry::file(&file.path, file.contents.clone(), file.mode));
  for entry in declared {
    entries.retain(|other| other.path() != entry.path());
    entries.push(entry);
  }
  if entries.is_empty() {
    return Ok(None);
  }
  let options = pack_options(core);
  pack(entries, &options).map(Some).map_err(|error: ArchiveError| {
    error.into_error(ErrorCode::ConfigInvalid).context("The workspace's files do not fit together")
  })
}

async fn host_files(core: &Core, cancel: &Cancel) -> Result<Vec<PackEntry>> {
  let Some(source) = core.options.workspace.source.clone() else { return Ok(Vec::new()) };
  let limits = &core.options.limits;
  let declared: u64 = core.options.workspace.files.iter().map(|file| file.contents.len() as u64).sum();
  let budget = SourceBudget {
    max_file_bytes: limits.max_file_bytes,
    max_total_bytes: limits.max_workspace_bytes.saturating_sub(declared),
    max_entries: MAX_ARCHIVE_ENTRIES,
  };
  let copying = tokio::task::spawn_blocking(move || collect(&source, &budget));
  let copied = cancel.guard("Copying host files", async move {
    copying.await.map_err(|error| fail!(Internal, "Copying host files failed.").with_source(error))?
  });
  copied.await
}

fn pack_options(core: &Core) -> PackOptions {
  let limits = &core.options.limits;
  PackOptions {
    owner: core.options.user.into(),
    mtime: i64::try_from(since_1970().as_secs()).unwrap_or(0),
    limits: ArchiveLimits {
      max_entries: MAX_ARCHIVE_ENTRIES,
      max_file_bytes: limits.max_file_bytes,
      max_total_bytes: limits.max_workspace_bytes,
      symlinks: SymlinkRule::Inside,
    },
  }
}
