//! Time for a process that may be stopped: by a signal, a debugger, a freezer, or with its whole virtual machine. Its clock
//! goes on all the while, and whatever it waited for may have come long ago: deadlines for others do not run meanwhile.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::clock::since_1970;

/// Time is counted in steps of this length. One that took twice as long was slept through, and is not counted.
const STEP: Duration = Duration::from_secs(1);

/// Waits for `work`, `limit` at most of the time that this process is awake; `None` where that was not enough.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
  let mut work = pin!(work);
  let mut left = limit;
  loop {
    let step = left.min(STEP);
    let begun = Instant::now();
    if let Ok(done) = timeout(step, &mut work).await {
      return Some(done);
    }
    if begun.elapsed() < step + STEP {
      left -= step;
      if left.is_zero() {
        return None;
      }
    }
  }
}

/// A point in time from which sleeps are counted too: the monotonic clock of Linux goes on while a process is stopped, and
/// stands while the machine is suspended, in which the time of day goes on.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
  clock: Instant,
  time_of_day: Duration,
}

impl Moment {
  /// This one.
  pub fn now() -> Self {
    Self { clock: Instant::now(), time_of_day: since_1970() }
  }

  /// How long ago it is. More than that where the time of day was set forward meanwhile, never less.
  pub fn elapsed(&self) -> Duration {
    self.clock.elapsed().max(since_1970().saturating_sub(self.time_of_day))
  }
}

#[cfg(test)]
mod tests {
  use std::future::{pending, ready};

  use tokio::sync::oneshot;
  use tokio::time::advance;

  use super::*;

  const LIMIT: Duration = Duration::from_millis(30_500);

  #[tokio::test(start_paused = true)]
  async fn what_does_not_come_is_given_up_at_the_limit() {
    let begun = Instant::now();
    assert_eq!(within(LIMIT, pending::<()>()).await, None);
    assert_eq!(begun.elapsed(), LIMIT);
    assert_eq!(within(Duration::ZERO, ready(1)).await, Some(1));
    assert_eq!(within(Duration::ZERO, pending::<()>()).await, None);
  }

  #[tokio::test(start_paused = true)]
  async fn a_moment_counts_what_the_clock_slept_through_and_ignores_one_set_back() {
    let moment = Moment::now();
    advance(LIMIT).await;
    assert!(moment.elapsed() >= LIMIT);
    let suspended = Moment { time_of_day: since_1970() - 2 * LIMIT, ..moment };
    assert!(suspended.elapsed() >= 2 * LIMIT);
    let set_back = Moment { time_of_day: since_1970() + LIMIT, ..moment };
    assert!((LIMIT..2 * LIMIT).contains(&set_back.elapsed()));
  }

  #[tokio::test(start_paused = true)]
  async fn a_sleep_is_not_counted() {
    let (tell, told) = oneshot::channel();
    let waiting = tokio::spawn(within(LIMIT, told));
    tokio::task::yield_now().await;
    advance(Duration::from_secs(3600)).await;
    // The waiting task has seen how late it is; only then does it come.
    tokio::task::yield_now().await;
    tell.send(1).unwrap();
    assert_eq!(waiting.await.unwrap(), Some(Ok(1)));
  }

  #[tokio::test(start_paused = true)]
  async fn after_a_sleep_the_limit_goes_on() {
    let waiting = tokio::spawn(within(LIMIT, pending::<()>()));
    tokio::task::yield_now().await;
    advance(Duration::from_secs(3600)).await;
    let awake = Instant::now();
    assert_eq!(waiting.await.unwrap(), None);
    assert_eq!(awake.elapsed(), LIMIT);
  }
}
