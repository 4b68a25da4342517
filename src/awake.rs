//! Deadlines for others that do not run while this process is stopped: by a signal, a debugger, a freezer, or with its
//! whole virtual machine. Its clock goes on all the while, and whatever it waited for may have come long ago.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

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
