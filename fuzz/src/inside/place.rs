//! A workspace that an adversary has been at, beside what must stay as it is.

use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{fs, os};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

/// Paths of what is there, and some that are not.
pub const PATHS: [&[u8]; 18] = [
  b"",
  b"file",
  b"dir",
  b"dir/inner",
  b"out",
  b"out/secret",
  b"secret",
  b"up",
  b"up/outside/secret",
  b"root",
  b"fifo",
  b"closed",
  b"closed/file",
  b"loop",
  b"new",
  b"new/deep/file",
  b"dir/twice",
  b"socket",
];

pub struct Place {
  home: TempDir,
  /// What only the file outside holds.
  secret: [u8; 16],
  outside: Vec<(PathBuf, u32, i64, i64, Vec<u8>)>,
}

impl Place {
  pub fn new() -> Self {
    let home = tempfile::tempdir().unwrap();
    // Nobody can guess it, the fuzzer neither.
    let half = || RandomState::new().hash_one(0).to_ne_bytes();
    let secret: [u8; 16] = [half(), half()].concat().try_into().unwrap();
    let (workspace, outside) = (home.path().join("workspace"), home.path().join("outside"));
    for folder in
      [&workspace, &workspace.join("dir"), &workspace.join("closed"), &outside, &outside.join("dir")]
    {
      fs::create_dir(folder).unwrap();
    }
    fs::write(outside.join("secret"), secret).unwrap();
    fs::write(outside.join("dir/inner"), secret).unwrap();
    fs::write(workspace.join("file"), b"contents").unwrap();
    fs::write(workspace.join("dir/inner"), vec![b'x'; 100_000]).unwrap();
    fs::hard_link(workspace.join("file"), workspace.join("dir/twice")).unwrap();
    fs::write(workspace.join("closed/file"), b"closed").unwrap();
    symlink(&outside, workspace.join("out")).unwrap();
    symlink(outside.join("secret"), workspace.join("secret")).unwrap();
    symlink("..", workspace.join("up")).unwrap();
    symlink("/", workspace.join("root")).unwrap();
    symlink("loop", workspace.join("loop")).unwrap();
    mknodat(CWD, workspace.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    drop(os::unix::net::UnixListener::bind(workspace.join("socket")));
    fs::set_permissions(workspace.join("closed/file"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(workspace.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let outside = seen(home.path());
    Self { home, secret, outside }
  }

  pub fn workspace(&self) -> PathBuf {
    self.home.path().join("workspace")
  }

  /// Nothing outside was made, changed or removed.
  pub fn is_as_it_was(&self) {
    assert_eq!(seen(self.home.path()), self.outside);
  }

  /// Nothing from outside is in what was said.
  pub fn is_not_in(&self, said: &[u8]) {
    assert!(!said.windows(self.secret.len()).any(|window| window == self.secret), "a byte from outside");
  }
}

impl Drop for Place {
  fn drop(&mut self) {
    // What may not be entered cannot be removed by everybody.
    open_up(&self.workspace());
  }
}

fn open_up(folder: &Path) {
  if fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).is_err() {
    return;
  }
  for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
    if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
      open_up(&entry.path());
    }
  }
}

/// All that is beside the workspace: what it is, when it was changed, what it holds.
fn seen(folder: &Path) -> Vec<(PathBuf, u32, i64, i64, Vec<u8>)> {
  let mut all = Vec::new();
  let mut folders = vec![folder.to_owned()];
  while let Some(folder) = folders.pop() {
    for entry in fs::read_dir(folder).unwrap() {
      let path = entry.unwrap().path();
      if path.file_name().is_some_and(|name| name == "workspace") {
        continue;
      }
      let state = fs::symlink_metadata(&path).unwrap();
      let contents = if state.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
      if state.is_dir() {
        folders.push(path.clone());
      }
      all.push((path, state.mode(), state.mtime(), state.mtime_nsec(), contents));
    }
  }
  all.sort();
  all
}
