//! The container around a supervisor, and why it ended.

use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::clock::since_1970;
use crate::docker::Engine;
use crate::docker::client::Client;
use crate::docker::ending::Ending;
use crate::error::{Error, fail};

/// A container that ended is removed and its end told well within this time; the stream to it is closed before.
const ENDED_GRACE: Duration = Duration::from_secs(2);

/// Asks whether the run is this holder's still: the container of a run that was taken over is another's.
pub type StillHeld = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// A container that is removed when it ends.
pub struct Container {
  client: Client,
  id: String,
  /// When it was begun to look after it, in seconds since 1970.
  since: u64,
  /// Taken by who asks first.
  ending: Mutex<Option<Ending>>,
  still_held: StillHeld,
  /// The error of all operations once it is lost.
  lost: OnceLock<Error>,
}

impl Container {
  /// A container whose end is waited for since `since` (seconds since 1970).
  pub const fn new(client: Client, id: String, ending: Ending, since: u64, still_held: StillHeld) -> Self {
    Self { client, id, since, ending: Mutex::const_new(Some(ending)), still_held, lost: OnceLock::new() }
  }

  /// The engine's id of it.
  pub fn id(&self) -> &str {
    &self.id
  }

  /// The error of every operation, once [`Self::lose`] was called.
  pub fn lost(&self) -> Option<Error> {
    self.lost.get().cloned()
  }

  /// The stream to the supervisor is gone, or what answers there is not to be trusted: the container goes too. The error
  /// of this operation and of all that follow, which says why it ended.
  pub async fn lose(&self, error: Error) -> Error {
    let mut ending = self.ending.lock().await;
    if let Some(lost) = self.lost() {
      return lost;
    }
    let reason = self.end(ending.take(), &error).await;
    let lost = fail!(
      ContainerLost,
      "The sandbox's container {} has ended: {reason}. Release this run; acquiring it again restores it where a snapshot allows.",
      self.id
    );
    self.lost.get_or_init(|| lost.with_source(error)).clone()
  }

  /// The error of a container that could not even be talked to.
  pub async fn unreachable(&self, error: Error) -> Error {
    let ending = self.ending.lock().await.take();
    let reason = self.end(ending, &error).await;
    fail!(ContainerLost, "The sandbox's container {} did not come up: {reason}.", self.id).with_source(error)
  }

  /// Removes the container after `error`, unless it has ended by itself or is another holder's; why it is gone, without a full stop.
  async fn end(&self, ending: Option<Ending>, error: &Error) -> String {
    let Some(asked) = ending else { return said(error) };
    let mut code = pin!(asked.code());
    if let Ok(Some(code)) = timeout(ENDED_GRACE, &mut code).await {
      return self.reason(code, error).await;
    }
    // It runs, or the engine does not tell any more.
    if (self.still_held)().await {
      self.client.remove_container(&self.id).await.ok();
    }
    said(error)
  }

  async fn reason(&self, code: i64, error: &Error) -> String {
    let oom = self.client.ran_out_of_memory(&self.id, self.since, since_1970().as_secs() + 1);
    match code {
      // The numbers are those of docs/protocol.md, "The end of process 1".
      0 => "its process 1 was told to end".to_owned(),
      80 => "its process 1 was not started as the first process (exit code 80)".to_owned(),
      81 => "its kernel refuses what the protection of process 1 rests on (exit code 81)".to_owned(),
      82 => "it has no workspace (exit code 82)".to_owned(),
      83 => "its process 1 could not be reached any more".to_owned(),
      84 => "its holder had been silent for longer than the lease".to_owned(),
      85 => "some of its processes could not be ended in any other way".to_owned(),
      137 if oom.await.unwrap_or(false) => {
        "the kernel killed it for memory; raise limits.memoryMb".to_owned()
      }
      137 => "it was killed or removed from outside".to_owned(),
      code => format!("its process 1 ended with exit code {code} ({})", said(error)),
    }
  }
}

fn said(error: &Error) -> String {
  error.message().trim_end_matches('.').to_owned()
}
