//! A tar on its way to a store of the application's own: whether it was read to its end, and who keeps whom waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, Result};
use crate::stream::ByteStream;

/// How often a store is looked at. A look that comes so much later than it should was slept through.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What is known of a tar that is being read.
#[derive(Clone)]
pub struct Watched(Arc<Mutex<State>>);

struct State {
  /// Since when the store has what it asked for; `None` while it waits for us.
  served: Option<Instant>,
  is_read: bool,
  failure: Option<Error>,
}

impl Watched {
  /// The watcher, and the same tar.
  pub fn new(tar: ByteStream) -> (Self, ByteStream) {
    let state = State { served: Some(Instant::now()), is_read: false, failure: None };
    let watched = Self(Arc::new(Mutex::new(state)));
    let pieces = futures_util::stream::unfold((tar, watched.clone()), |(mut tar, watched)| async {
      watched.state().served = None;
      let piece = tar.next().await;
      watched.note(piece.as_ref());
      piece.map(|piece| (piece, (tar, watched)))
    });
    (watched, pieces.boxed())
  }

  fn state(&self) -> MutexGuard<'_, State> {
    // No code panics while it holds the lock.
    self.0.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn note<T>(&self, piece: Option<&Result<T>>) {
    let mut state = self.state();
    state.served = Some(Instant::now());
    match piece {
      None => state.is_read = true,
      Some(Err(error)) => state.failure = Some(error.clone()),
      Some(Ok(_)) => {}
    }
  }

  /// True once the end was reached.
  pub fn is_read(&self) -> bool {
    self.state().is_read
  }

  /// The error that the tar itself ended with. What a store makes of it is not asked: half a tar is no snapshot.
  pub fn failure(&self) -> Result<()> {
    self.state().failure.clone().map_or(Ok(()), Err)
  }

  /// Ends when the store has had what it asked for, and done nothing, for so long. While this process was stopped it could
  /// do nothing.
  pub(super) async fn stalled(&self, limit: Duration) -> Duration {
    loop {
      let (served, now) = (self.state().served, Instant::now());
      let look = match served {
        Some(served) if served.elapsed() >= limit => return limit,
        Some(served) => (served + limit).min(now + LOOK_AGAIN),
        None => now + LOOK_AGAIN,
      };
      sleep_until(look).await;
      self.slept(look.elapsed());
    }
  }

  /// Leaves out a sleep, which is known by a look that came late.
  fn slept(&self, late: Duration) {
    if late >= LOOK_AGAIN
      && let Some(served) = &mut self.state().served
    {
      *served = (*served + late).min(Instant::now());
    }
  }
}

#[cfg(test)]
mod tests {
  use bytes::Bytes;

  use super::*;
  use crate::error::fail;

  const LIMIT: Duration = Duration::from_secs(30);

  #[tokio::test]
  async fn only_an_end_that_was_reached_is_a_whole_tar() {
    let pieces = vec![Ok(Bytes::from("a"))];
    let (watched, mut tar) = Watched::new(futures_util::stream::iter(pieces).boxed());
    assert_eq!(tar.next().await.unwrap().unwrap(), "a");
    assert!(!watched.is_read());
    assert!(tar.next().await.is_none());
    assert!(watched.is_read());
    assert!(watched.failure().is_ok());
  }

  #[tokio::test]
  async fn an_error_of_the_tar_is_remembered() {
    let pieces: Vec<Result<Bytes>> = vec![Err(fail!(DockerApi, "cut"))];
    let (watched, mut tar) = Watched::new(futures_util::stream::iter(pieces).boxed());
    assert!(tar.next().await.unwrap().is_err());
    assert_eq!(watched.failure().unwrap_err().message(), "cut");
    assert!(!watched.is_read());
  }

  #[tokio::test(start_paused = true)]
  async fn a_store_is_stalled_only_while_we_wait_for_it() {
    let slow = futures_util::stream::once(async {
      tokio::time::sleep(10 * LIMIT).await;
      Ok(Bytes::from("a"))
    });
    let (watched, mut tar) = Watched::new(slow.boxed());
    let began = Instant::now();
    let reading = async {
      tokio::time::sleep(LIMIT / 2).await;
      tar.next().await.unwrap().unwrap();
      std::future::pending::<()>().await;
    };
    tokio::select! {
      () = reading => {}
      limit = watched.stalled(LIMIT) => assert_eq!(limit, LIMIT),
    }
    let passed = began.elapsed();
    assert!(passed >= LIMIT / 2 + 11 * LIMIT, "{passed:?}");
    assert!(passed <= LIMIT / 2 + 11 * LIMIT + 2 * LOOK_AGAIN, "{passed:?}");
  }

  #[tokio::test(start_paused = true)]
  async fn a_sleep_is_not_the_stores() {
    let (watched, mut tar) = Watched::new(futures_util::stream::iter([Ok(Bytes::from("a"))]).boxed());
    tar.next().await.unwrap().unwrap();
    let waiting = tokio::spawn(async move { watched.stalled(LIMIT).await });
    tokio::task::yield_now().await;
    tokio::time::advance(100 * LIMIT).await;
    let awake = Instant::now();
    assert_eq!(waiting.await.unwrap(), LIMIT);
    assert!(awake.elapsed() > LIMIT - 2 * LOOK_AGAIN, "{:?}", awake.elapsed());
  }
}
