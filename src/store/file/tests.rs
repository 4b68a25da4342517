//! What a file store does on one machine in one process. Several processes: `tests/file_stores.rs`.

mod leases;
mod snapshots;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::error::Error;

/// Keys that would be trouble as file names.
fn hostile_keys() -> Vec<String> {
  let mut keys: Vec<String> = [
    ".",
    "..",
    "",
    "/",
    "../../etc/passwd",
    "a/b",
    "\0",
    "a\0b",
    "K",
    "k",
    "é",
    "e\u{301}",
    "CON",
    "~",
    "-rf",
  ]
  .map(str::to_owned)
  .to_vec();
  keys.push("x".repeat(255));
  keys.push("x".repeat(256));
  keys.push("x".repeat(10_000));
  keys
}

fn mode(path: &Path) -> u32 {
  fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Everything in a directory that is no lock.
fn files(directory: &Path) -> Vec<PathBuf> {
  let mut found: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
  found.retain(|path| !path.file_name().unwrap().to_str().unwrap().starts_with(".lock-"));
  found.sort();
  found
}

fn only_file(directory: &Path) -> PathBuf {
  let found = files(directory);
  assert_eq!(found.len(), 1, "{found:?}");
  found[0].clone()
}

/// The error has this code and names this path.
fn assert_names(error: &Error, code: &str, path: &Path) {
  assert_eq!(error.code().as_str(), code, "{error}");
  assert!(error.message().contains(path.to_str().unwrap()), "{error}");
}

#[test]
fn a_directory_is_made_for_its_owner_alone_and_one_that_is_there_is_left_as_it_is() {
  let root = tempfile::tempdir().unwrap();
  let deep = root.path().join("a/b");
  FileLeaseStore::open(deep.to_str().unwrap()).unwrap();
  assert_eq!((mode(&deep), mode(&root.path().join("a"))), (0o700, 0o700));
  fs::set_permissions(&deep, fs::Permissions::from_mode(0o755)).unwrap();
  FileSnapshotStore::open(deep.to_str().unwrap()).unwrap();
  assert_eq!(mode(&deep), 0o755);
}

#[test]
fn what_can_be_no_directory_is_refused_by_name() {
  let root = tempfile::tempdir().unwrap();
  let file = root.path().join("file");
  fs::write(&file, "x").unwrap();
  for path in [file.clone(), file.join("below")] {
    assert_names(&FileLeaseStore::open(path.to_str().unwrap()).unwrap_err(), "CONFIG_INVALID", &path);
  }
  for path in ["", "a\0b"] {
    let error = FileSnapshotStore::open(path).unwrap_err();
    assert_eq!(
      error.message(),
      "createFileSnapshotStore directory was no path; it must be that of a directory."
    );
  }
}

#[test]
fn only_names_of_a_whole_digest_are_ours() {
  let stem = stem("k");
  assert_eq!(stem, "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a");
  assert_eq!(stem_of(&format!("{stem}.lease"), ".lease"), Some(stem.as_str()));
  for name in [".lease".to_owned(), format!("{}.lease", stem.to_uppercase()), format!("{stem}0.lease"), stem]
  {
    assert_eq!(stem_of(&name, ".lease"), None);
  }
}
