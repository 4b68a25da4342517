//! One exec as a stream: create, start, feed and read at once, know when it is over.
//!
//! Three things can end it: the end of the stream, the engine saying that the command ended (a background child may
//! hold the stream open for ever), and the caller. An exit code is never taken as the end of the data, and the end of
//! the data never as an exit code.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::client::Client;
use super::connection::WriteHalf;
use super::engine::Stdin;
use super::hijack::RawRead;
use super::request::segment;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::limits::{EXEC_DRAIN_IDLE, EXEC_DRAIN_TOTAL, EXEC_FIRST_ASK};
use crate::stream::frame::{Channel, Demux};

/// The longest pause between two questions whether a command still runs; the pauses double up to it.
const SLOWEST_ASK: Duration = Duration::from_secs(1);
/// The first pause of the wait for an exit code after the end of the stream; it doubles each time.
const FIRST_STATE_POLL: Duration = Duration::from_millis(1);
/// And the longest.
const SLOWEST_STATE_POLL: Duration = Duration::from_millis(250);
/// An engine that says that a command no longer runs and has no exit code for it is asked for this long, then believed.
const CODE_GRACE: Duration = Duration::from_secs(1);

/// What the engine knows of an exec.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExecState {
  /// True until the engine saw its end.
  pub running: bool,
  /// Absent or null until then.
  pub exit_code: Option<i64>,
  /// Process id on the engine's host, 0 before the start.
  pub pid: i64,
}

impl ExecState {
  /// What is assumed where the engine did not tell.
  pub const UNKNOWN: Self = Self { running: true, exit_code: None, pid: 0 };

  /// True where the command runs, or did.
  pub const fn has_started(&self) -> bool {
    self.pid > 0 || self.has_ended()
  }

  /// True where the command ended; one that did not start yet does not run either, but has no exit code.
  pub const fn has_ended(&self) -> bool {
    !self.running && self.exit_code.is_some()
  }
}

/// What to run.
pub struct ExecSpec<'a> {
  /// Program and arguments.
  pub cmd: &'a [String],
  /// `uid:gid` or empty.
  pub user: &'a str,
  /// On top of the container's.
  pub env: &'a [String],
  /// Absolute.
  pub working_dir: &'a str,
}

/// How the reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
  /// The engine closed the stream.
  Closed,
  /// The command ended, and something else holds the stream open.
  Held,
}

type Feeding = Pin<Box<dyn Future<Output = (Option<WriteHalf>, Result<()>)> + Send>>;
type Asking = Pin<Box<dyn Future<Output = Result<ExecState>> + Send>>;

/// A running exec.
pub struct ExecStream {
  client: Client,
  id: String,
  /// `None` once closed from our side.
  read: Option<RawRead>,
  demux: Demux,
  feeding: Option<Feeding>,
  /// Held open while nothing is written.
  _write: Option<WriteHalf>,
  asking: Option<Asking>,
  next_ask: Instant,
  ask_pause: Duration,
  /// How long was waited for data since the engine said that the command ended. The caller's own time does not count.
  drained: Option<Duration>,
  end: Option<ReadEnd>,
}

enum Step {
  Data(std::io::Result<Bytes>),
  Fed(Option<WriteHalf>, Result<()>),
  Told(Result<ExecState>),
  /// Time to ask the engine, or, after the command's end, no data for long enough.
  Due,
}

impl Client {
  /// Starts an exec that was created; `stdin` as when it was.
  pub(super) async fn start_exec(&self, id: String, stdin: Stdin) -> Result<ExecStream> {
    let path = format!("/exec/{}/start", segment(&id)?);
    let (read, write) = self.hijack(&path, &json!({ "Detach": false, "Tty": false })).await?.split();
    // Without input the half stays open: a half-closed connection is dropped by some forwarders.
    let (feeding, write) =
      if stdin.is_empty() { (None, Some(write)) } else { (Some(feed(write, stdin)), None) };
    Ok(ExecStream {
      client: self.clone(),
      id,
      read: Some(read),
      demux: Demux::default(),
      feeding,
      _write: write,
      asking: None,
      next_ask: Instant::now() + EXEC_FIRST_ASK,
      ask_pause: EXEC_FIRST_ASK,
      drained: None,
      end: None,
    })
  }

  /// Creates an exec in a running container; the id to start it with.
  pub(super) async fn create_exec(
    &self,
    container: &str,
    spec: &ExecSpec<'_>,
    with_stdin: bool,
  ) -> Result<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Created {
      id: String,
    }
    let mut body = json!({
      "AttachStdin": with_stdin, "AttachStdout": true, "AttachStderr": true, "Tty": false,
      "WorkingDir": spec.working_dir, "Env": spec.env, "Cmd": spec.cmd,
    });
    if let (false, Some(fields)) = (spec.user.is_empty(), body.as_object_mut()) {
      fields.insert("User".to_owned(), spec.user.into());
    }
    let path = format!("/containers/{}/exec", segment(container)?);
    Ok(self.json::<Created>(Method::POST, &path, Some(&body)).await?.id)
  }

  /// Waits until a command that the engine was asked to start runs or has ended: what does not run yet cannot be killed,
  /// and an engine answers before it starts anything. One that has not begun with it by `deadline` is taken not to have
  /// been reached by the call.
  pub(super) async fn wait_started(&self, exec: &str, deadline: Instant) {
    let mut pause = FIRST_STATE_POLL;
    while let Ok(Ok(state)) = timeout_at(deadline, self.exec_state(exec)).await {
      if state.has_started() || Instant::now() + pause >= deadline {
        return;
      }
      sleep(pause).await;
      pause = (pause * 2).min(SLOWEST_STATE_POLL);
    }
  }

  /// What the engine knows of an exec now.
  pub(super) async fn exec_state(&self, id: &str) -> Result<ExecState> {
    self.json(Method::GET, &format!("/exec/{}/json", segment(id)?), None).await
  }
}

impl ExecStream {
  /// Reads on and passes what came to `sink`. `Some` when there is nothing more to read. Does not end by itself while
  /// the command is silent: the caller sets the deadline by dropping the future, after which the stream can only be
  /// asked for its state.
  pub async fn read(&mut self, mut sink: impl FnMut(Channel, &[u8])) -> Result<Option<ReadEnd>> {
    if let Some(end) = self.end {
      return Ok(Some(end));
    }
    let begun = Instant::now();
    let step = self.step().await;
    if let Some(drained) = &mut self.drained {
      *drained += begun.elapsed();
    }
    match step {
      Step::Data(Ok(data)) if data.is_empty() => return self.closed().map(Some),
      Step::Data(Ok(data)) => {
        self.demux.push(&data, &mut sink).map_err(|error| self.broken(error))?;
      }
      Step::Data(Err(error)) => return Err(self.broken(error)),
      Step::Fed(write, result) => {
        self.feeding = None;
        self._write = write;
        result?;
      }
      Step::Told(state) => {
        self.asking = None;
        // An engine that cannot say goes on being read: the end of the stream will decide.
        if state.is_ok_and(|state| state.has_ended()) {
          self.drained.get_or_insert_default();
        }
      }
      Step::Due if self.drained.is_some() => self.end = Some(ReadEnd::Held),
      Step::Due => self.ask(),
    }
    if self.drained.is_some_and(|drained| drained >= EXEC_DRAIN_TOTAL) {
      self.end = Some(ReadEnd::Held);
    }
    Ok(self.end)
  }

  /// Closes the connection. To be called before a command is killed whose output is no longer read: the engine
  /// handles the end of any exec of a container only when the output of the one before was taken.
  pub fn close(&mut self) {
    self.read = None;
    self.feeding = None;
    self._write = None;
  }

  /// The engine's id of it.
  pub fn id(&self) -> &str {
    &self.id
  }

  /// Waits until the engine knows the end of the command, at most until `deadline`; the last state it told.
  pub async fn wait_ended(&mut self, deadline: Instant) -> Result<ExecState> {
    let (mut pause, begun) = (FIRST_STATE_POLL, Instant::now());
    loop {
      let state = match timeout_at(deadline, self.client.exec_state(&self.id)).await {
        Ok(state) => state.map_err(|error| self.untold(error))?,
        Err(_elapsed) => return Ok(ExecState::UNKNOWN),
      };
      let codeless = !state.running && begun.elapsed() >= CODE_GRACE;
      if state.has_ended() || codeless || Instant::now() >= deadline {
        return Ok(state);
      }
      sleep(pause).await;
      pause = (pause * 2).min(SLOWEST_STATE_POLL);
    }
  }

  async fn step(&mut self) -> Step {
    let now = Instant::now();
    if self.drained.is_none() && self.asking.is_none() && now >= self.next_ask {
      // However much comes: a background child may write for ever.
      return Step::Due;
    }
    let due = if self.drained.is_some() { now + EXEC_DRAIN_IDLE } else { self.next_ask };
    let asking = self.asking.is_some();
    // In this order, so that endless output starves neither the input nor the question, and no pause of ours is taken
    // for one of the engine's.
    tokio::select! {
      biased;
      (write, result) = pending_if_none(&mut self.feeding) => Step::Fed(write, result),
      state = pending_if_none(&mut self.asking) => Step::Told(state),
      data = next_data(&mut self.read) => Step::Data(data),
      () = sleep_until(due), if !asking => Step::Due,
    }
  }

  /// Asks beside the reading.
  fn ask(&mut self) {
    self.ask_pause = (self.ask_pause * 2).min(SLOWEST_ASK);
    self.next_ask = Instant::now() + self.ask_pause;
    let (client, id) = (self.client.clone(), self.id.clone());
    self.asking = Some(Box::pin(async move { client.exec_state(&id).await }));
  }

  fn closed(&mut self) -> Result<ReadEnd> {
    self.demux.finish().map_err(|error| self.broken(error))?;
    self.end = Some(ReadEnd::Closed);
    Ok(ReadEnd::Closed)
  }

  /// The stream ended and the engine does not say how the command did: it was restarted, or the container removed.
  fn untold(&self, error: Error) -> Error {
    match error.code() {
      ErrorCode::NotFound => fail!(
        DockerApi,
        "The end of a command was lost: the Docker engine knows it no more. The command may have run, in part or whole."
      )
      .with_source(error),
      _ => error,
    }
  }

  fn broken(&self, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    fail!(
      DockerApi,
      "The output stream of a command was lost: {error}. The command may have run, in part or whole."
    )
    .with_source(error)
  }
}

async fn next_data(read: &mut Option<RawRead>) -> std::io::Result<Bytes> {
  match read {
    Some(read) => read.next().await,
    None => Ok(Bytes::new()),
  }
}

/// Awaits what is there; for ever where nothing is.
async fn pending_if_none<F: Future + Unpin>(slot: &mut Option<F>) -> F::Output {
  match slot {
    Some(future) => future.await,
    None => std::future::pending().await,
  }
}

/// Writes a command's input and ends it by closing our half. A command that does not read its input is no error; a
/// source that fails is.
fn feed(mut write: WriteHalf, stdin: Stdin) -> Feeding {
  Box::pin(async move {
    let mut result = Ok(());
    match stdin {
      Stdin::Empty => {}
      Stdin::Bytes(bytes) => drop(write.write_all(&bytes).await),
      Stdin::Stream(mut pieces) => {
        while let Some(piece) = pieces.next().await {
          match piece {
            Ok(piece) if write.write_all(&piece).await.is_ok() => {}
            Ok(_unread) => break,
            Err(error) => {
              result = Err(error);
              break;
            }
          }
        }
      }
    }
    drop(write.shutdown().await);
    (Some(write), result)
  })
}
