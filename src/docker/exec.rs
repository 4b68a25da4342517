//! Running a command to its end: deadline, caps, cancellation, exit code, and nothing of it left running.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::client::Client;
use super::engine::{ExecEnd, ExecOutput, ExecRequest, Permit, Stdin};
use super::exec_stream::{ExecSpec, ExecState, ExecStream, ReadEnd};
use super::tap::Tap;
use super::terminate::Target;
use crate::cancel::{Cancel, cancelled};
use crate::error::{Error, Result, fail};
use crate::stream::frame::Channel;
use crate::stream::output::CappedOutput;

/// After a kill the engine needs a moment to see the end; then the exit code is unknown.
const KILLED_STATE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a command that is to be killed may take to start, on an engine under load.
const START_TIMEOUT: Duration = Duration::from_secs(3);
/// How long is asked why a command could not be started, where the engine is slow to say.
const EXPLAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// What a cancelled call is called in its error.
const WHAT: &str = "The sandbox command";
/// What an engine notes as the exit code of a command whose output it could not hand on to the end.
const HUNG_UP: i64 = 126;
/// The exit code of what a SIGKILL ended.
const KILLED: i64 = 137;

/// A time limit above this is none; the clock could not hold the largest ones.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(365 * 24);

/// Why a command did not come to be read, and whether it may run all the same.
pub struct Unopened {
  /// The reason.
  pub error: Error,
  /// The engine's id of it, where the engine was asked to start it.
  pub may_run: Option<String>,
}

/// Why the reading stopped.
enum Stop {
  Read(ReadEnd),
  Deadline,
  Cap,
  Cancelled,
  Failed(Error),
}

impl Stop {
  /// The state of a command that was killed because of this.
  fn of_killed(&self, mut state: ExecState) -> ExecState {
    // It was us who hung up, before the kill.
    if matches!(self, Self::Cap | Self::Deadline) && state.exit_code == Some(HUNG_UP) {
      state.exit_code = Some(KILLED);
    }
    state
  }
}

/// What may have to be killed.
struct Left<'a> {
  target: Option<&'a Target>,
  /// The command said that it left nothing, which holds once it has ended.
  clean: bool,
}

struct Collected {
  stdout: CappedOutput,
  stderr: CappedOutput,
  /// Where output goes instead, if it is not kept.
  tap: Option<Tap>,
}

impl Collected {
  fn has_mark(&self, mark: Option<&str>) -> bool {
    let Some(mark) = mark.map(str::as_bytes) else { return false };
    if mark.is_empty() {
      return true;
    }
    match &self.tap {
      Some(tap) => tap.marked,
      None => self.stderr.as_bytes().windows(mark.len()).any(|window| window == mark),
    }
  }

  fn push(&mut self, channel: Channel, data: &[u8]) {
    match (&mut self.tap, channel) {
      (Some(tap), _) => tap.push(channel, data),
      (None, Channel::Stdout) => self.stdout.push(data),
      (None, Channel::Stderr) => self.stderr.push(data),
    }
  }

  /// Hands on what was just read, as soon as there is room for it.
  async fn hand_on(&mut self) {
    if let Some(tap) = &mut self.tap {
      tap.hand_on().await;
    }
  }
}

impl Client {
  /// Runs a command in a container.
  pub(super) async fn run_exec(&self, container: &str, request: ExecRequest) -> Result<ExecOutput> {
    request.cancel.check(WHAT)?;
    let deadline = Instant::now() + request.timeout.min(LONGEST_TIMEOUT);
    let target = match request.skip_terminate {
      true => None,
      false => Some(Target::new(&request.user, request.marker, request.exclusive)?),
    };
    let mut env = request.env;
    env.extend(target.as_ref().map(Target::env));
    let spec =
      ExecSpec { cmd: &request.cmd, user: &request.user, env: &env, working_dir: &request.working_dir };
    let permit = request.permit.as_ref();
    let opened = self.open_exec(container, spec, request.stdin, permit, deadline, &request.cancel).await;
    let mut stream = match (opened, &target) {
      (Ok(stream), _) => stream,
      (Err(Unopened { error, may_run: Some(id) }), Some(target)) => {
        self.wait_started(&id, Instant::now() + START_TIMEOUT).await;
        self.terminate(container, target, None).await.ok();
        return Err(error);
      }
      (Err(unopened), _) => return Err(unopened.error),
    };
    let cap = request.max_output_bytes;
    let mut collected = Collected {
      stdout: CappedOutput::new(cap),
      stderr: CappedOutput::new(cap.saturating_add(request.extra_stderr_bytes)),
      tap: request.tap.map(|sender| Tap::new(sender, request.clean_mark.as_deref())),
    };
    let stop = collect(&mut stream, &mut collected, deadline, &request.cancel).await;
    stream.close();
    let left = Left { target: target.as_ref(), clean: collected.has_mark(request.clean_mark.as_deref()) };
    let ended = self.settle(container, &mut stream, &stop, deadline, left, &request.cancel).await;
    let (state, end) = match (stop, ended) {
      (Stop::Failed(error), _) => return Err(error),
      (Stop::Cancelled, killed) => return killed.and(Err(cancelled(WHAT))),
      (_, settled) => settled?,
    };
    let exit_code = if state.running { None } else { state.exit_code };
    let Collected { stdout, stderr, .. } = collected;
    Ok(ExecOutput { exit_code, stdout: stdout.into_bytes(), stderr: stderr.into_bytes(), end })
  }

  /// Creates and starts an exec, before `deadline`, with a permit where one is to be asked for.
  pub(super) async fn open_exec(
    &self,
    container: &str,
    spec: ExecSpec<'_>,
    stdin: Stdin,
    permit: Option<&Permit>,
    deadline: Instant,
    cancel: &Cancel,
  ) -> Result<ExecStream, Unopened> {
    let (mut may_run, mut refused) = (None, false);
    let opening = cancel.guard(WHAT, async {
      let id = self.create_exec(container, &spec, !stdin.is_empty()).await?;
      if let Some(permit) = permit {
        permit().await.inspect_err(|_| refused = true)?;
      }
      may_run = Some(id.clone());
      self.start_exec(id, stdin).await
    });
    let error = match timeout_at(deadline, opening).await {
      Ok(Ok(stream)) => return Ok(stream),
      Ok(Err(error)) if refused || error.is_cancelled() => error,
      Ok(Err(error)) => self.explain(container, error).await,
      Err(_elapsed) => fail!(
        Timeout,
        "The Docker engine had not started a command in container {container} when its time limit passed."
      ),
    };
    Err(Unopened { may_run: may_run.filter(|_| !error.is_not_found()), error })
  }

  /// Engines report a container that is gone, stopped or frozen with different codes; what is so is asked of the engine.
  async fn explain(&self, container: &str, error: Error) -> Error {
    let asked = timeout(EXPLAIN_TIMEOUT, self.inspection(container)).await;
    match asked.unwrap_or_else(|_elapsed| Err(error.clone())) {
      Err(gone) if gone.is_not_found() => gone,
      Ok(found) if found.state.paused => {
        fail!(DockerApi, "Container {container} is paused; unpause it to run commands.").with_source(error)
      }
      Ok(found) if !found.state.running => fail!(
        DockerApi,
        "Container {container} is not running (its state is {}); no command can run in it.",
        found.state.status
      )
      .with_source(error),
      _ => error,
    }
  }

  /// Finds the exit code and sees to it that nothing of the command goes on.
  async fn settle(
    &self,
    container: &str,
    stream: &mut ExecStream,
    stop: &Stop,
    deadline: Instant,
    left: Left<'_>,
    cancel: &Cancel,
  ) -> Result<(ExecState, ExecEnd)> {
    // A command may close its output and go on; its time limit holds all the same.
    let told = match stop {
      Stop::Read(_) => cancel.guard(WHAT, stream.wait_ended(deadline)).await,
      _ => Ok(ExecState::UNKNOWN),
    };
    let mut state = told.as_ref().copied().unwrap_or(ExecState::UNKNOWN);
    let said_clean = left.clean && told.is_ok() && !state.running;
    let target = left.target.filter(|_target| !said_clean);
    if let Some(target) = target {
      let leader = if state.running { None } else { Some(state.pid) };
      if leader.is_none() {
        self.wait_started(stream.id(), Instant::now() + START_TIMEOUT).await;
      }
      self.terminate(container, target, leader).await?;
    }
    told?;
    let end = match stop {
      _ if state.running && matches!(stop, Stop::Read(_)) => ExecEnd::TimedOut,
      Stop::Read(ReadEnd::Closed) => ExecEnd::Finished,
      Stop::Read(ReadEnd::Held) => ExecEnd::OutputHeld,
      Stop::Cap => ExecEnd::Truncated,
      // The end of the last two is not told to anyone.
      Stop::Deadline | Stop::Cancelled | Stop::Failed(_) => ExecEnd::TimedOut,
    };
    let killed = target.is_some() && state.running;
    if killed && !matches!(stop, Stop::Cancelled | Stop::Failed(_)) {
      // Whatever the engine then says of a command that we killed, the call itself did not fail.
      let told = stream.wait_ended(Instant::now() + KILLED_STATE_TIMEOUT).await;
      state = stop.of_killed(told.unwrap_or(ExecState::UNKNOWN));
    }
    Ok((state, end))
  }
}

/// Reads until the end, the deadline, a cap or the cancellation.
async fn collect(
  stream: &mut ExecStream,
  collected: &mut Collected,
  deadline: Instant,
  cancel: &Cancel,
) -> Stop {
  loop {
    let step = async {
      let read = stream.read(|channel, data| collected.push(channel, data)).await;
      collected.hand_on().await;
      read
    };
    let read = tokio::select! {
      biased;
      () = cancel.cancelled() => return Stop::Cancelled,
      read = timeout_at(deadline, step) => read,
    };
    match read {
      Err(_elapsed) => return Stop::Deadline,
      Ok(Err(error)) => return Stop::Failed(error),
      Ok(Ok(_)) if collected.stdout.exceeded() || collected.stderr.exceeded() => return Stop::Cap,
      Ok(Ok(Some(end))) => return Stop::Read(end),
      Ok(Ok(None)) => {}
    }
  }
}
