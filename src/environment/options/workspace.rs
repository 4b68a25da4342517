//! `workspace`: what is put into it, and that it can be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use serde_json::Value;

use super::defaults::FILE_MODE;
use super::names::{ID_MAY, is_id};
use super::read::narrow;
use super::reader::Field;
use super::{HostSource, Limits, PAGE_BYTES, SeedFile, WorkspaceOptions};
use crate::error::{Result, fail};
use crate::limits::{MAX_ARCHIVE_ENTRIES, MAX_PATH_BYTES};
use crate::workspace::path::WorkspacePath;

const KEYS: &[&str] = &["id", "directories", "exec", "files", "source"];

/// Reads and checks `workspace`.
pub fn read_workspace(field: &Field<'_>, limits: &Limits, blobs: &[Bytes]) -> Result<WorkspaceOptions> {
  let fields = field.fields(KEYS)?;
  let directories = fields.get("directories").items("an array of paths")?;
  let files = fields.get("files").items("an array of { path, contents, mode? }")?;
  let workspace = WorkspaceOptions {
    id: fields.get("id").required_text(ID_MAY, is_id)?,
    directories: directories.iter().map(read_path).collect::<Result<_>>()?,
    exec: fields.get("exec").flag()?,
    files: files.iter().map(|file| read_file(file, limits, blobs)).collect::<Result<_>>()?,
    source: read_source(&fields.get("source"))?,
  };
  check_tree(&workspace, limits)?;
  check_size(&workspace.files, limits)?;
  Ok(workspace)
}

fn read_path(field: &Field<'_>) -> Result<WorkspacePath> {
  let text = field.required_text("a path relative to the workspace", |path| !path.starts_with('/'))?;
  WorkspacePath::parse(&text)
    .map_err(|error| fail!(ConfigInvalid, "Option {} was refused: {}", field.path(), error.message()))
}

fn read_file(field: &Field<'_>, limits: &Limits, blobs: &[Bytes]) -> Result<SeedFile> {
  let fields = field.fields(&["path", "contents", "mode"])?;
  let place = fields.get("path");
  let path = read_path(&place)?;
  if path.is_root() || place.value().and_then(Value::as_str).is_some_and(|text| text.ends_with('/')) {
    return Err(place.wrong("the path of a file, relative to the workspace"));
  }
  let contents = read_contents(&fields.get("contents").hidden(), blobs)?;
  if contents.len() as u64 > limits.max_file_bytes {
    return Err(fail!(
      ConfigInvalid,
      "Option {} ({path}) was {} bytes; it must be at most limits.maxFileBytes, which is {}.",
      fields.get("contents").path(),
      contents.len(),
      limits.max_file_bytes
    ));
  }
  let mode = narrow(fields.get("mode").whole_or_default(&FILE_MODE)?)?;
  Ok(SeedFile { path, contents, mode })
}

fn read_contents(field: &Field<'_>, blobs: &[Bytes]) -> Result<Bytes> {
  let blob = match field.value() {
    Some(Value::String(text)) => return Ok(Bytes::from(text.clone())),
    Some(Value::Object(map)) if map.len() == 1 => map.get("$blob").and_then(Value::as_u64),
    _ => None,
  };
  let index = blob.and_then(|index| usize::try_from(index).ok());
  index.and_then(|index| blobs.get(index)).cloned().ok_or_else(|| field.wrong("a string or a Uint8Array"))
}

fn read_source(field: &Field<'_>) -> Result<Option<HostSource>> {
  let Some(fields) = field.optional_fields(&["root", "include"])? else { return Ok(None) };
  let root = fields.get("root");
  let text = root.required_text("the path of a directory of this host", |path| {
    !path.is_empty() && path.len() <= MAX_PATH_BYTES && !path.contains('\0')
  })?;
  // Now, so that a later change of the working directory changes nothing.
  let root = std::path::absolute(Path::new(&text)).map_err(|error| {
    fail!(ConfigInvalid, "Option {} cannot be made absolute.", root.path()).with_source(error)
  })?;
  let include = fields.get("include");
  if include.value().is_none() {
    return Err(include.wrong("an array of paths or globs below workspace.source.root"));
  }
  let may = "a path or glob relative to workspace.source.root, without \"..\"";
  let items = include.items("an array of paths or globs")?;
  let include = items.iter().map(|item| item.required_text(may, is_pattern)).collect::<Result<_>>()?;
  Ok(Some(HostSource { root, include }))
}

fn is_pattern(text: &str) -> bool {
  (1..=MAX_PATH_BYTES).contains(&text.len())
    && !text.starts_with('/')
    && !text.contains('\0')
    && text.split('/').all(|part| part != "..")
}

/// Every path is a file once, or a directory, and there are inodes for all.
fn check_tree(workspace: &WorkspaceOptions, limits: &Limits) -> Result<()> {
  let mut files = BTreeMap::new();
  for (index, file) in workspace.files.iter().enumerate() {
    if let Some(first) = files.insert(file.path.clone(), index) {
      return Err(fail!(
        ConfigInvalid,
        "Option workspace.files[{index}].path was {}, which workspace.files[{first}] is already; each file must be named once.",
        file.path
      ));
    }
  }
  let mut directories = BTreeSet::new();
  for (index, directory) in workspace.directories.iter().enumerate() {
    collect(Some(directory.clone()), &format!("workspace.directories[{index}]"), &files, &mut directories)?;
  }
  for (index, file) in workspace.files.iter().enumerate() {
    collect(file.path.parent(), &format!("workspace.files[{index}].path"), &files, &mut directories)?;
  }
  directories.insert(WorkspacePath::root());
  let (entries, most) =
    ((directories.len() + files.len()) as u64, limits.workspace_inodes().min(MAX_ARCHIVE_ENTRIES));
  if entries > most {
    return Err(fail!(
      ConfigInvalid,
      "Option workspace names {entries} files and directories; a workspace of {} bytes (limits.maxWorkspaceBytes) holds at most {most}.",
      limits.max_workspace_bytes
    ));
  }
  Ok(())
}

/// Notes a directory and its parents; none of them may be a file.
fn collect(
  start: Option<WorkspacePath>,
  option: &str,
  files: &BTreeMap<WorkspacePath, usize>,
  directories: &mut BTreeSet<WorkspacePath>,
) -> Result<()> {
  let mut next = start;
  while let Some(directory) = next {
    if let Some(file) = files.get(&directory) {
      return Err(fail!(
        ConfigInvalid,
        "Option {option} needs a directory {directory}, which workspace.files[{file}] makes a file; a path must be one or the other."
      ));
    }
    next = directory.parent();
    if !directories.insert(directory) {
      return Ok(());
    }
  }
  Ok(())
}

/// The files fit. A tmpfs gives whole pages to each.
fn check_size(files: &[SeedFile], limits: &Limits) -> Result<()> {
  let bytes: u64 = files.iter().map(|file| file.contents.len() as u64).sum();
  let pages: u64 = files.iter().map(|file| (file.contents.len() as u64).div_ceil(PAGE_BYTES)).sum();
  let cap = limits.max_workspace_bytes;
  if bytes <= cap && pages <= cap.div_ceil(PAGE_BYTES) {
    return Ok(());
  }
  Err(fail!(
    ConfigInvalid,
    "Option workspace.files was {bytes} bytes, {pages} pages of {PAGE_BYTES}; it must fit into limits.maxWorkspaceBytes, which is {cap}."
  ))
}
