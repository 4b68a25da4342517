//! The places of commands that run at the same time, `limits.maxConcurrentProcesses`.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::cancel::Cancel;
use crate::error::{Result, fail};

/// All places of a session.
pub struct Places {
  free: Semaphore,
  all: u32,
  /// Those of processes that run until somebody ends them.
  background: AtomicU32,
  /// Another of them has a place.
  more: Notify,
}

/// One place, free again when this goes.
pub struct Place<'a> {
  _permit: SemaphorePermit<'a>,
  background: Option<&'a AtomicU32>,
}

impl Drop for Place<'_> {
  fn drop(&mut self) {
    if let Some(background) = self.background {
      background.fetch_sub(1, Ordering::AcqRel);
    }
  }
}

impl Places {
  /// So many.
  pub fn new(all: u32) -> Self {
    Self { free: Semaphore::new(all as usize), all, background: AtomicU32::new(0), more: Notify::new() }
  }

  /// Takes a place, for a process without a time limit where `background` is true. Waits until a command ends.
  ///
  /// # Errors
  ///
  /// `LIMIT` where all places are taken by processes without a time limit, since none may ever be free.
  pub async fn take(&self, background: bool, cancel: &Cancel) -> Result<Place<'_>> {
    let permit = match self.free.try_acquire() {
      Ok(permit) => permit,
      Err(_) => {
        let free = async {
          tokio::select! {
            biased;
            permit = self.free.acquire() => {
              permit.map_err(|error| fail!(Internal, "The session's places are gone.").with_source(error))
            }
            () = self.taken_for_good() => Err(fail!(
              Limit,
              "All {} places of limits.maxConcurrentProcesses are taken by spawned processes. Kill one, or raise the limit.",
              self.all
            )),
          }
        };
        cancel.guard("Waiting for a place among the running commands", free).await?
      }
    };
    let background = background.then_some(&self.background);
    if let Some(background) = background {
      background.fetch_add(1, Ordering::AcqRel);
      self.more.notify_waiters();
    }
    Ok(Place { _permit: permit, background })
  }

  /// Waits until no place may ever be free.
  async fn taken_for_good(&self) {
    loop {
      let more = self.more.notified();
      tokio::pin!(more);
      // From here on none is missed.
      more.as_mut().enable();
      if self.background.load(Ordering::Acquire) >= self.all {
        return;
      }
      more.await;
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::error::ErrorCode;

  #[tokio::test]
  async fn a_command_waits_for_commands_and_not_for_what_may_never_end() {
    let (places, never) = (Places::new(2), Cancel::new());
    let server = places.take(true, &never).await.unwrap();
    let command = places.take(false, &never).await.unwrap();
    let (next, ()) = tokio::join!(places.take(true, &never), async { drop(command) });
    let next = next.unwrap();
    let refused = places.take(false, &never).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::Limit);
    drop(next);
    assert!(places.take(false, &never).await.is_ok());
    drop(server);
  }

  #[tokio::test]
  async fn what_waits_behind_a_process_that_may_never_end_is_refused_once_that_has_the_last_place() {
    let (places, never) = (Places::new(1), Cancel::new());
    let command = places.take(false, &never).await.unwrap();
    let (server, refused, ()) =
      tokio::join!(places.take(true, &never), places.take(false, &never), async { drop(command) });
    assert_eq!(refused.err().unwrap().code(), ErrorCode::Limit);
    drop(server.unwrap());
    assert!(places.take(false, &never).await.is_ok());
  }
}
