//! Operations on a container whose process 1 answers as a test says, and what they come to.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::Stdin;
use sandbox_docker::error::Result;
use sandbox_docker::sandbox::resident::ResidentSandbox;
use sandbox_docker::sandbox::{Command, Sandbox};
use sandbox_docker::supervisor::wire::{CommandEnd, Data, How, Stream, ToHost};
use sandbox_docker::workspace::path::WorkspacePath;

use super::hostile::{Peer, engine, process, sandbox, welcome};
use super::must_end;
use super::scripted_engine::Gate;

/// What a process 1 does with a request, by the operation's number.
pub type Answer = for<'a> fn(&'a mut Peer, u64) -> BoxFuture<'a, ()>;

/// A command with a second to run, and 8 bytes of output.
pub fn command() -> Command {
  Command {
    program: "p".to_owned(),
    args: Vec::new(),
    cwd: WorkspacePath::root(),
    env: BTreeMap::new(),
    stdin: Stdin::Empty,
    timeout: Some(Duration::from_secs(1)),
    max_output_bytes: 8,
  }
}

pub const fn command_end() -> CommandEnd {
  CommandEnd { how: How::Exited(3), killed: 0, micros: 1 }
}

pub fn data(stream: Stream, offset: u64, bytes: &[u8]) -> ToHost<'_> {
  ToHost::Data(Data { stream, offset, bytes })
}

/// What an operation came to, in short.
pub async fn outcome<T>(operation: impl Future<Output = Result<T>>, show: impl Fn(T) -> String) -> String {
  match operation.await {
    Ok(value) => show(value),
    Err(error) => error.code().as_str().to_owned(),
  }
}

pub async fn exec(sandbox: &ResidentSandbox) -> String {
  let show =
    |result: sandbox_docker::sandbox::CommandResult| format!("{:?} {:?}", result.exit_code, result.stdout);
  outcome(sandbox.exec(command(), &Cancel::new()), show).await
}

pub async fn read(sandbox: &ResidentSandbox) -> String {
  let path = WorkspacePath::parse("f").unwrap();
  outcome(sandbox.read_file(&path, 0, 8, &Cancel::new()), |range| format!("{:?}", range.data)).await
}

pub async fn list(sandbox: &ResidentSandbox) -> String {
  let path = WorkspacePath::parse("d").unwrap();
  let show = |listing: sandbox_docker::sandbox::Listing| {
    listing.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>().join(" ")
  };
  outcome(sandbox.list(&path, 2, 3, &Cancel::new()), show).await
}

pub const LOST: &str = "CONTAINER_LOST";

/// A sandbox whose process 1 welcomes its host and does `act` with every request.
pub async fn with<T>(act: Answer, body: impl AsyncFnOnce(&ResidentSandbox) -> T) -> (T, Vec<String>) {
  let gate = Gate::new();
  let talk = process(&gate, move |mut peer| async move {
    peer.say(0, &ToHost::Welcome(welcome())).await;
    while let Some((op, _)) = peer.request().await {
      act(&mut peer, op).await;
    }
    std::future::pending().await
  });
  let engine = engine(&gate, talk);
  let sandbox = sandbox(&engine).await.unwrap();
  let result = must_end(body(&sandbox)).await;
  (result, engine.calls())
}

/// The operation is lost, so is every one after it, and the container was removed or had ended.
pub async fn loses(what: &str, act: Answer, operation: impl AsyncFn(&ResidentSandbox) -> String) {
  let ((first, later), calls) = with(act, async |sandbox| {
    let first = operation(sandbox).await;
    (first, [exec(sandbox).await, read(sandbox).await, list(sandbox).await])
  })
  .await;
  assert_eq!(first, LOST, "{what}");
  assert_eq!(later, [LOST; 3], "{what}, afterwards");
  assert!(calls.iter().any(|call| call == "DELETE /containers/c1"), "{what}: it was not removed: {calls:?}");
}

/// An [`Answer`] from a block.
#[macro_export]
macro_rules! act {
  (|$peer:ident, $op:ident| $body:block) => {
    |$peer, $op| Box::pin(async move { $body })
  };
}
