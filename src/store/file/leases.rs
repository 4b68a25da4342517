//! Leases in files: one small JSON file for each, replaced as a whole under a lock.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::directory::{Directory, failure, foreign};
use super::lock::{Locks, lock_name, try_lock};
use super::{blocking, snapshots, stem, stem_of};
use crate::error::{Error, Result, fail};
use crate::limits::MAX_LEASE_FILE_BYTES;
use crate::store::lease::{LeaseRecord, LeaseStore};
use crate::store::record::lease_record;

/// What the files say of themselves.
const FORMAT: &str = "zhivex-sandbox-lease";
/// Grows when a field's meaning changes. A file of a later version is refused: what this version does not understand
/// could be what keeps two holders apart. Fields that a later version only adds do not change it, and are kept.
const VERSION: u64 = 1;

const ENDING: &str = ".lease";
const TEMPORARY: &str = ".lease.tmp";

/// Leases in files that the processes of one machine share.
#[derive(Debug)]
pub struct FileLeaseStore {
  directory: Arc<Directory>,
  locks: Locks,
}

impl FileLeaseStore {
  /// Opens the store in a directory, which is made if it is not there.
  pub fn open(directory: &str) -> Result<Self> {
    let directory = Arc::new(Directory::open(directory, "createFileLeaseStore")?);
    Ok(Self { locks: Locks::new(Arc::clone(&directory)), directory })
  }

  #[cfg(test)]
  pub(super) const fn locks_for_tests(&self) -> &Locks {
    &self.locks
  }

  /// Runs `change` while no other call, in whatever process, changes this key.
  async fn alone<F>(&self, stem: &str, change: F) -> Result<bool>
  where
    F: FnOnce(&Directory) -> Result<bool> + Send + 'static,
  {
    let held = self.locks.lock(stem).await?;
    let directory = Arc::clone(&self.directory);
    // Moved along: a caller that gives up must not let the lock go while the change is under way.
    blocking(move || {
      let _held = held;
      change(&directory)
    })
    .await
  }
}

#[async_trait]
impl LeaseStore for FileLeaseStore {
  async fn load(&self, key: &str) -> Result<Option<LeaseRecord>> {
    let (directory, key) = (Arc::clone(&self.directory), key.to_owned());
    // Without the lock: a file is replaced in one step.
    blocking(move || read(&directory, &stem(&key), Some(&key))).await
  }

  async fn save(&self, record: &LeaseRecord, expected: Option<u64>) -> Result<bool> {
    let (text, key) = (encode(record)?, record.key.clone());
    let stem = stem(&key);
    let name = stem.clone();
    self
      .alone(&stem, move |directory| {
        let found = read(directory, &name, Some(&key))?;
        if found.map(|found| found.fence) != expected {
          return Ok(false);
        }
        write(directory, &name, text.as_bytes())?;
        Ok(true)
      })
      .await
  }

  async fn remove(&self, key: &str, expected: u64) -> Result<bool> {
    let (stem, key) = (stem(key), key.to_owned());
    let name = stem.clone();
    self
      .alone(&stem, move |directory| {
        let wins = read(directory, &name, Some(&key))?.is_some_and(|found| found.fence == expected);
        if wins {
          directory.remove(&format!("{name}{ENDING}"))?;
        }
        Ok(wins)
      })
      .await
  }

  async fn list(&self, owner_id: &str) -> Result<Vec<LeaseRecord>> {
    let (directory, owner_id) = (Arc::clone(&self.directory), owner_id.to_owned());
    blocking(move || list(&directory, &owner_id)).await
  }

  async fn collect(&self) -> Result<Vec<String>> {
    let directory = Arc::clone(&self.directory);
    blocking(move || collect_dead(&directory)).await
  }
}

fn list(directory: &Directory, owner_id: &str) -> Result<Vec<LeaseRecord>> {
  let mut found = Vec::new();
  for name in directory.names()? {
    if let Some(stem) = stem_of(&name, ENDING) {
      found.extend(read(directory, stem, None)?.filter(|record| record.owner_id == owner_id));
    } else if let Some(stem) = stem_of(&name, TEMPORARY) {
      collect(directory, stem, &name)?;
    } else if !snapshots::is_name(&name) {
      // Left where it is. A list without a word could leave a lease out whose file was renamed.
      return Err(foreign(&directory.join(&name), "its name is none that this store gives"));
    }
  }
  found.sort_by(|a, b| a.key.cmp(&b.key));
  Ok(found)
}

/// Removes what processes left that died while they wrote; the names of that.
fn collect_dead(directory: &Directory) -> Result<Vec<String>> {
  let mut collected = Vec::new();
  for name in directory.names()? {
    if let Some(stem) = stem_of(&name, TEMPORARY)
      && collect(directory, stem, &name)?
    {
      collected.push(name);
    }
  }
  Ok(collected)
}

/// Removes what a process left that died while it wrote. One that is alive holds the lock: false.
fn collect(directory: &Directory, stem: &str, name: &str) -> Result<bool> {
  match try_lock(directory, &lock_name(stem))? {
    Some(_held) => directory.remove(name).map(|()| true),
    None => Ok(false),
  }
}

fn read(directory: &Directory, stem: &str, key: Option<&str>) -> Result<Option<LeaseRecord>> {
  let name = format!("{stem}{ENDING}");
  let path = directory.join(&name);
  let Some((file, _)) = directory.read(&name)? else { return Ok(None) };
  let record = decode(&contents(file, &path)?, &path)?;
  let own = super::stem(&record.key) == stem && key.is_none_or(|key| key == record.key);
  if own { Ok(Some(record)) } else { Err(foreign(&path, "it holds the lease of another run")) }
}

fn contents(file: File, path: &Path) -> Result<Vec<u8>> {
  let mut bytes = Vec::new();
  // One more than allowed shows that it is too long.
  let read = file.take(MAX_LEASE_FILE_BYTES + 1).read_to_end(&mut bytes);
  read.map_err(|error| failure("Cannot read", path, error))?;
  if bytes.len() as u64 > MAX_LEASE_FILE_BYTES {
    return Err(foreign(path, format_args!("it is longer than {MAX_LEASE_FILE_BYTES} bytes")));
  }
  Ok(bytes)
}

fn decode(bytes: &[u8], path: &Path) -> Result<LeaseRecord> {
  let damaged = |why: &str| -> Error {
    fail!(
      ConfigInvalid,
      "The lease file {} is damaged or not ours: {why}. Whether its run is held cannot be told. Restore the file, or remove it together with the run's container.",
      path.display()
    )
  };
  // The parser's words quote what it found.
  let mut file: Value = serde_json::from_slice(bytes).map_err(|_| damaged("it is no whole JSON"))?;
  if file.get("format").and_then(Value::as_str) != Some(FORMAT) {
    return Err(damaged("it does not say that it is a lease"));
  }
  match file.get("version").and_then(Value::as_u64) {
    Some(VERSION) => {}
    Some(later) if later > VERSION => {
      return Err(fail!(
        Unsupported,
        "The lease file {} has version {later}, and this package reads version {VERSION}: a later one wrote it. Update the package.",
        path.display()
      ));
    }
    _ => return Err(damaged("its version is none")),
  }
  let record = file.get_mut("record").map(Value::take).unwrap_or_default();
  lease_record(record).map_err(|why| damaged(&why))
}

fn encode(record: &LeaseRecord) -> Result<String> {
  let mut text = json!({ "format": FORMAT, "version": VERSION, "record": record }).to_string();
  text.push('\n');
  if text.len() as u64 > MAX_LEASE_FILE_BYTES {
    return Err(fail!(
      Limit,
      "The lease of run {} takes {} bytes; a file store keeps at most {MAX_LEASE_FILE_BYTES}. Leave fields of your own out.",
      crate::error::shown(&record.run_id),
      text.len()
    ));
  }
  Ok(text)
}

/// Replaces the file in one step, on the disk before this returns. Only under the lock: so there is one temporary file,
/// and one that is there was left by a process that died.
fn write(directory: &Directory, stem: &str, text: &[u8]) -> Result<()> {
  let (name, temporary) = (format!("{stem}{ENDING}"), format!("{stem}{TEMPORARY}"));
  let path = directory.join(&temporary);
  let mut created = directory.create(&temporary);
  if created.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
    directory.remove(&temporary)?;
    created = directory.create(&temporary);
  }
  let mut file = created.map_err(|error| failure("Cannot make", &path, error))?;
  let written = file.write_all(text).and_then(|()| file.sync_all());
  let renamed = match written {
    Ok(()) => directory.rename(&temporary, &name),
    Err(error) => Err(failure("Cannot write", &path, error)),
  };
  if renamed.is_err() {
    // Nothing to be told beyond the error there is; the next write removes it too.
    std::fs::remove_file(&path).ok();
  }
  renamed
}
