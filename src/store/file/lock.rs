//! Locks between processes, by `flock` on files that stay: the kernel lets go of them when a process ends, however it
//! ends.

use std::fs::{File, TryLockError};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout_at};

use super::blocking;
use super::directory::{Directory, failure};
use crate::error::{Error, Result, fail};
use crate::limits::STORE_LOCK_TIMEOUT;

/// Keys are spread over this many locks, so that a few slow writes do not hold all runs up.
const LOCKS: usize = 16;
/// Pause between two tries. A holder needs about a millisecond on a fast disk.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The locks of one directory.
#[derive(Debug)]
pub(super) struct Locks {
  directory: Arc<Directory>,
  /// Calls of this process queue here, in order; only the first of them asks for the file.
  turns: [Arc<Mutex<()>>; LOCKS],
}

/// A lock that is held until this is dropped.
pub(super) struct Held {
  _file: File,
  _turn: OwnedMutexGuard<()>,
}

impl Locks {
  pub(super) fn new(directory: Arc<Directory>) -> Self {
    Self { directory, turns: std::array::from_fn(|_| Arc::default()) }
  }

  /// Waits for the lock of a file name's stem.
  pub(super) async fn lock(&self, stem: &str) -> Result<Held> {
    let name = lock_name(stem);
    let deadline = Instant::now() + STORE_LOCK_TIMEOUT;
    let turn = self.turns.get(index(stem)).map(Arc::clone).unwrap_or_default();
    let turn = timeout_at(deadline, turn.lock_owned()).await.map_err(|_| self.timed_out(&name))?;
    let mut pause = FIRST_PAUSE;
    loop {
      let (directory, attempted) = (Arc::clone(&self.directory), name.clone());
      if let Some(file) = blocking(move || try_lock(&directory, &attempted)).await? {
        return Ok(Held { _file: file, _turn: turn });
      }
      if Instant::now() + pause > deadline {
        return Err(self.timed_out(&name));
      }
      sleep(pause).await;
      pause = (pause * 2).min(LONGEST_PAUSE);
    }
  }

  fn timed_out(&self, name: &str) -> Error {
    fail!(
      Timeout,
      "The lock {} was held by others for {} s. A process that was stopped while it wrote holds it until it goes on or ends.",
      self.directory.join(name).display(),
      STORE_LOCK_TIMEOUT.as_secs()
    )
  }
}

/// The first digit of a stem.
fn index(stem: &str) -> usize {
  stem.chars().next().and_then(|digit| digit.to_digit(16)).unwrap_or_default() as usize
}

/// The lock file of a stem. The dot keeps it out of listings.
pub(super) fn lock_name(stem: &str) -> String {
  format!(".lock-{:x}", index(stem))
}

/// The lock if nobody has it now.
pub(super) fn try_lock(directory: &Directory, name: &str) -> Result<Option<File>> {
  let file = directory.open_or_create(name)?;
  match file.try_lock() {
    // A lock file that somebody removed is one that others do not see.
    Ok(()) => Ok(directory.leads_to(name, &file).then_some(file)),
    Err(TryLockError::WouldBlock) => Ok(None),
    Err(TryLockError::Error(error)) => Err(failure("Cannot lock", &directory.join(name), error)),
  }
}
