//! Running a command to its end: deadline, caps, cancellation, exit code, and nothing of it left running.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::client::Client;
use super::engine::{ExecEnd, ExecOutput, ExecRequest, Stdin};
use super::exec_stream::{ExecSpec, ExecState, ExecStream, ReadEnd};
use super::terminate::Target;
use crate::cancel::{Cancel, cancelled};
use crate::error::{Error, Result, fail};
use crate::stream::frame::Channel;
use crate::stream::output::CappedOutput;

/// After a kill the engine needs a moment to see the end; then the exit code is unknown.
const KILLED_STATE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the reading stopped.
enum Stop {
  Read(ReadEnd),
  Deadline,
  Cap,
  Cancelled,
  Failed(Error),
}

struct Collected {
  stdout: CappedOutput,
  stderr: CappedOutput,
}

impl Collected {
  fn has_mark(&self, mark: Option<&str>) -> bool {
    let Some(mark) = mark.map(str::as_bytes) else { return false };
    if mark.is_empty() {
      return true;
    }
    self.stderr.as_bytes().windows(mark.len()).any(|window| window == mark)
  }
}

impl Client {
  /// Runs a command in a container.
  pub(super) async fn run_exec(&self, container: &str, request: ExecRequest) -> Result<ExecOutput> {
    let what = "The sandbox command";
    request.cancel.check(what)?;
    let deadline = Instant::now() + request.timeout;
    let target =
      if request.skip_terminate { None } else { Some(Target::new(&request.user, request.marker)?) };
    let mut env = request.env;
    env.extend(target.as_ref().map(Target::env));
    let spec =
      ExecSpec { cmd: &request.cmd, user: &request.user, env: &env, working_dir: &request.working_dir };
    let opened = self.open_in_time(container, spec, request.stdin, deadline, &request.cancel).await;
    let mut stream = match opened {
      Ok(stream) => stream,
      Err(error) => {
        // It may have started all the same.
        if let (Some(target), false) = (&target, error.is_not_found()) {
          self.terminate(container, target, None).await.ok();
        }
        return Err(error);
      }
    };
    let cap = request.max_output_bytes;
    let mut collected = Collected { stdout: CappedOutput::new(cap), stderr: CappedOutput::new(cap) };
    let stop = collect(&mut stream, &mut collected, deadline, &request.cancel).await;
    stream.close();
    let clean = matches!(stop, Stop::Read(_)) && collected.has_mark(request.clean_mark.as_deref());
    let target = target.filter(|_target| !clean);
    let ended = self.settle(container, &mut stream, &stop, deadline, target.as_ref(), &request.cancel).await;
    let (state, end) = match (stop, ended) {
      (Stop::Failed(error), _) => return Err(error),
      (Stop::Cancelled, killed) => return killed.and(Err(cancelled(what))),
      (_, settled) => settled?,
    };
    let exit_code = if state.running { None } else { state.exit_code };
    let Collected { stdout, stderr } = collected;
    Ok(ExecOutput { exit_code, stdout: stdout.into_bytes(), stderr: stderr.into_bytes(), end })
  }

  async fn open_in_time(
    &self,
    container: &str,
    spec: ExecSpec<'_>,
    stdin: Stdin,
    deadline: Instant,
    cancel: &Cancel,
  ) -> Result<ExecStream> {
    let opening = cancel.guard("The sandbox command", self.open_exec(container, spec, stdin));
    match timeout_at(deadline, opening).await {
      Ok(Ok(stream)) => Ok(stream),
      Ok(Err(error)) if error.is_cancelled() => Err(error),
      Ok(Err(error)) => Err(self.explain(container, error).await),
      Err(_elapsed) => Err(fail!(
        Timeout,
        "The Docker engine had not started a command in container {container} when its time limit passed."
      )),
    }
  }

  /// Engines report a container that is gone, stopped or frozen with different codes; what is so is asked of the engine.
  async fn explain(&self, container: &str, error: Error) -> Error {
    match self.inspection(container).await {
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
    target: Option<&Target>,
    cancel: &Cancel,
  ) -> Result<(ExecState, ExecEnd)> {
    let mut end = match stop {
      Stop::Read(ReadEnd::Closed) => ExecEnd::Finished,
      Stop::Read(ReadEnd::Held) => ExecEnd::OutputHeld,
      Stop::Cap => ExecEnd::Truncated,
      Stop::Deadline | Stop::Cancelled | Stop::Failed(_) => ExecEnd::TimedOut,
    };
    let mut state = ExecState { running: true, ..ExecState::default() };
    if matches!(stop, Stop::Read(_)) {
      // A command may close its output and go on; its time limit holds all the same.
      state = cancel
        .guard("The sandbox command", stream.wait_ended(deadline))
        .await
        .or_else(|error| if error.is_cancelled() { Ok(state) } else { Err(error) })?;
      if state.running {
        end = ExecEnd::TimedOut;
      }
    }
    if let Some(target) = target {
      let leader = if state.running { None } else { Some(state.pid) };
      self.terminate(container, target, leader).await?;
    }
    if state.running {
      state = stream.wait_ended(Instant::now() + KILLED_STATE_TIMEOUT).await?;
    }
    if cancel.is_cancelled() && matches!(stop, Stop::Read(_)) && end == ExecEnd::TimedOut {
      return Err(cancelled("The sandbox command"));
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
    let read = stream.read(|channel, data| match channel {
      Channel::Stdout => collected.stdout.push(data),
      Channel::Stderr => collected.stderr.push(data),
    });
    let read = tokio::select! {
      biased;
      () = cancel.cancelled() => return Stop::Cancelled,
      read = timeout_at(deadline, read) => read,
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
