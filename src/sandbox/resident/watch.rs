//! The host's own deadlines: process 1 keeps its own, and may be late, frozen, or not ours any more.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::ResidentSandbox;
use crate::error::{Result, fail};
use crate::limits::FILE_OPERATION_TIMEOUT;

/// How often somebody looks whether the container is frozen, once a result is due.
const LOOK: Duration = Duration::from_secs(2);
/// Process 1 may be late by so much: 60 spinning processes at half a CPU held it up for 0.8 s at worst, and ending a
/// command that resists takes it up to 10 s.
const GRACE: Duration = Duration::from_secs(15);

/// How long a result may take.
#[derive(Clone, Copy)]
pub(super) struct Patience {
  look: Duration,
  give_up: Duration,
}

impl Patience {
  /// For a command with that time limit.
  pub(super) const fn command(limit: Duration) -> Self {
    Self { look: limit.saturating_add(LOOK), give_up: limit.saturating_add(GRACE) }
  }

  /// For a file operation, which takes milliseconds.
  pub(super) const FILE: Self = Self { look: LOOK, give_up: FILE_OPERATION_TIMEOUT.saturating_add(GRACE) };
}

impl ResidentSandbox {
  /// Waits for `work`. When it takes too long the supervisor is given up, and its container with it; while the container
  /// is frozen, the work is, and nothing else.
  pub(super) async fn watched<T>(
    &self,
    what: &str,
    patience: Patience,
    work: impl Future<Output = Result<T>>,
  ) -> Result<T> {
    let begun = Instant::now();
    tokio::pin!(work);
    let mut wait = patience.look;
    loop {
      if let Ok(result) = timeout(wait, &mut work).await {
        return result;
      }
      if self.link.is_frozen().await {
        return Err(fail!(
          DockerApi,
          "{what} did not end: container {} is paused. Unpause it (docker unpause) and try again.",
          self.container.id()
        ));
      }
      let waited = begun.elapsed();
      if waited > patience.give_up {
        self.link.give_up(fail!(
          ContainerLost,
          "its process 1 did not do in {} s what it should have",
          waited.as_secs()
        ));
        return work.await;
      }
      wait = LOOK;
    }
  }
}
