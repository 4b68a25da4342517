//! The container around a supervisor, and why it ended.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::docker::Engine;
use crate::docker::client::Client;
use crate::docker::ending::Ending;
use crate::error::{Error, ErrorCode, fail};

/// An engine needs so long at most to remove a container that was killed, and to say so.
const ENDING_TIMEOUT: Duration = Duration::from_secs(5);

/// A container that is removed when it ends.
pub struct Container {
  client: Client,
  id: String,
  /// When it was begun to look after it, in seconds since 1970.
  since: u64,
  /// Asked once.
  ending: Mutex<Ended>,
}

enum Ended {
  Unknown(Ending),
  Known(String),
}

impl Container {
  /// A container whose end is waited for since `since` (seconds since 1970).
  pub fn new(client: Client, id: String, ending: Ending, since: u64) -> Self {
    Self { client, id, since, ending: Mutex::new(Ended::Unknown(ending)) }
  }

  /// The engine's id of it.
  pub fn id(&self) -> &str {
    &self.id
  }

  /// What an operation's error means: where the stream to the supervisor is gone, the container goes too, since what
  /// answers there is not trusted any more, and the error says why it ended.
  pub async fn explain(&self, error: Error) -> Error {
    if error.code() != ErrorCode::ContainerLost {
      return error;
    }
    let mut ending = self.ending.lock().await;
    if let Ended::Unknown(_) = *ending {
      self.client.kill_container(&self.id, "SIGKILL").await.ok();
      let Ended::Unknown(asked) = std::mem::replace(&mut *ending, Ended::Known(String::new())) else {
        return error;
      };
      let code = timeout(ENDING_TIMEOUT, asked.code()).await.ok().flatten();
      *ending = Ended::Known(self.reason(code, &error).await);
    }
    let Ended::Known(reason) = &*ending else { return error };
    fail!(
      ContainerLost,
      "The sandbox's container {} has ended: {reason}. Release this run; acquiring it again restores it where a snapshot allows.",
      self.id
    )
    .with_source(error)
  }

  async fn reason(&self, code: Option<i64>, error: &Error) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let oom = self.client.ran_out_of_memory(&self.id, self.since, now + 1).await.unwrap_or(false);
    match code {
      // The numbers are those of docs/protocol.md, "The end of process 1".
      Some(0) => "its process 1 was told to end".to_owned(),
      Some(80..=82) => format!("its process 1 could not start here (exit code {})", code.unwrap_or_default()),
      Some(83) => "its process 1 could not be reached any more".to_owned(),
      Some(84) => "its holder had been silent for longer than the lease".to_owned(),
      Some(85) => "some of its processes could not be ended in any other way".to_owned(),
      Some(137) if oom => "the kernel killed it for memory. Raise limits.memoryMb".to_owned(),
      Some(137) => format!("it was killed ({})", error.message().trim_end_matches('.')),
      Some(code) => format!("its process 1 ended with exit code {code}"),
      None => error.message().trim_end_matches('.').to_owned(),
    }
  }
}
