//! What the integration tests share. Each test program uses a part of it.
#![expect(
  dead_code,
  clippy::unwrap_used,
  clippy::expect_used,
  clippy::panic,
  clippy::indexing_slicing,
  reason = "test support; each program uses a part"
)]

pub mod answers;
pub mod hostile;
pub mod live;
pub mod replies;
pub mod scripted_engine;

use std::future::Future;
use std::time::Duration;

use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::client::Client;
use sandbox_docker::docker::{ExecRequest, Stdin};

use scripted_engine::ScriptedEngine;

/// A hang of the client must be a failed test, not a stuck run. Far above what any test needs on a busy machine.
const HANG: Duration = Duration::from_secs(60);

/// Runs a test's body; fails it where it does not end.
pub async fn must_end<T>(body: impl Future<Output = T>) -> T {
  tokio::time::timeout(HANG, body).await.unwrap_or_else(|_| panic!("the client hung"))
}

/// A client of a scripted engine that needs no negotiation.
pub fn client(engine: &ScriptedEngine) -> Client {
  Client::new(Some(engine.socket().to_owned()), Some("1.41")).unwrap()
}

/// A command with roomy limits that needs no cleaning up: what is tested is the stream.
pub fn command(words: &[&str]) -> ExecRequest {
  ExecRequest {
    cmd: words.iter().map(|word| (*word).to_owned()).collect(),
    user: "65534:65534".to_owned(),
    env: Vec::new(),
    working_dir: "/workspace".to_owned(),
    timeout: Duration::from_secs(20),
    max_output_bytes: 16 << 20,
    stdin: Stdin::Empty,
    cancel: Cancel::new(),
    skip_terminate: true,
    marker: None,
    extra_stderr_bytes: 0,
    clean_mark: None,
    exclusive: false,
    tap: None,
    permit: None,
  }
}
