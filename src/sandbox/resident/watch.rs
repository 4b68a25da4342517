//! The host's own deadlines: process 1 keeps its own, and may be late, frozen, or not ours any more.

use std::time::Duration;

use tokio::time::Instant;

use crate::awake::within;
use crate::error::{Result, fail};
use crate::limits::{ARCHIVE_TIMEOUT, FILE_OPERATION_TIMEOUT};
use crate::supervisor::link::Link;

/// How often somebody looks whether the container is frozen, once a result is due.
const LOOK: Duration = Duration::from_secs(2);
/// Process 1 may be late by so much: 60 spinning processes at half a CPU held it up for 0.8 s at worst, and ending a
/// command that resists takes it up to 10 s.
const GRACE: Duration = Duration::from_secs(15);
/// A pause that is over by then is waited out; engines pause a container while they commit it.
const SHORT_PAUSE: Duration = Duration::from_secs(10);

/// How long process 1 may take.
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

  /// For a file operation, which takes milliseconds, and for a piece of a file.
  pub(super) const FILE: Self = Self { look: LOOK, give_up: FILE_OPERATION_TIMEOUT };
  /// For a whole workspace on its way in or out.
  pub(super) const ARCHIVE: Self = Self { look: SHORT_PAUSE, give_up: ARCHIVE_TIMEOUT };
}

/// How long process 1 has been waited for.
pub(super) struct Watch {
  patience: Patience,
  waited: Duration,
}

impl Watch {
  pub(super) const fn new(patience: Patience) -> Self {
    Self { patience, waited: Duration::ZERO }
  }

  /// Waits for `work`. What takes too long, with all that was waited for before, cannot be in the hands of a supervisor of
  /// ours; but while the container is frozen, only the work is given up, and nothing else.
  pub(super) async fn over<T>(
    &mut self,
    link: &Link,
    what: &str,
    work: impl Future<Output = Result<T>>,
  ) -> Result<T> {
    tokio::pin!(work);
    let mut wait = self.patience.look;
    loop {
      wait = wait.min(self.patience.give_up.saturating_sub(self.waited));
      let begun = Instant::now();
      let ended = within(wait, &mut work).await;
      self.waited += begun.elapsed().min(wait);
      if let Some(result) = ended {
        return result;
      }
      if link.is_frozen().await {
        return Err(fail!(
          DockerApi,
          "{what} did not end: container {} is paused. Unpause it (docker unpause) and try again.",
          link.container()
        ));
      }
      if self.waited >= self.patience.give_up {
        return Err(fail!(
          ContainerLost,
          "{what} was not over after {} s, beyond every deadline inside",
          self.waited.as_secs()
        ));
      }
      wait = LOOK;
    }
  }
}
