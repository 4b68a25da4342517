//! Running a command of the double: standard input, time limit, caps and cancellation as [`ExecRequest`] promises.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use super::commands::{self, Call, Done};
use super::container::KILLED;
use super::state::State;
use super::tree::{Last, Name, Node};
use crate::cancel::cancelled;
use crate::docker::engine::{ExecEnd, ExecOutput, ExecRequest, Stdin};
use crate::error::{Result, fail};

const WHAT: &str = "The sandbox command";

/// The state. A panic of another holder leaves nothing half done that matters to a double.
pub fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
  state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command to its end.
pub async fn exec(state: &Mutex<State>, id: &str, request: ExecRequest) -> Result<ExecOutput> {
  let ExecRequest { cmd, env, working_dir, timeout, max_output_bytes, stdin, cancel, .. } = request;
  cancel.check(WHAT)?;
  let ended = lock(state).running(id)?.ended.clone();
  let command = Prepared { id, cmd: &cmd, env: &env, working_dir: &working_dir, cap: max_output_bytes };
  tokio::select! {
    biased;
    () = cancel.cancelled() => Err(cancelled(WHAT)),
    () = ended.cancelled() => lock(state).container(id).map(|_container| killed(ExecEnd::Finished)),
    done = tokio::time::timeout(timeout, command.run(state, stdin)) => match done {
      Ok(done) => done.map(|done| capped(done, max_output_bytes)),
      Err(_elapsed) => Ok(killed(ExecEnd::TimedOut)),
    },
  }
}

struct Prepared<'a> {
  id: &'a str,
  cmd: &'a [String],
  env: &'a [String],
  working_dir: &'a str,
  cap: u64,
}

impl Prepared<'_> {
  async fn run(&self, state: &Mutex<State>, stdin: Stdin) -> Result<Done> {
    let Some((word, arguments)) = self.cmd.split_first() else {
      return Err(fail!(DockerApi, "No exec command specified for container {}.", self.id));
    };
    let program = match self.find(state, word)? {
      Ok(program) => program,
      Err(done) => return Ok(done),
    };
    if program == "sleep" {
      return match commands::sleep_time(arguments) {
        Err(done) => Ok(done),
        Ok(time) => {
          tokio::time::sleep(time).await;
          Ok(Done::default())
        }
      };
    }
    let input =
      if commands::reads_stdin(program, arguments) { read(stdin, self.cap).await? } else { Bytes::new() };
    let mut state = lock(state);
    let container = state.running(self.id)?;
    let env = container.env(self.env);
    let Ok(cwd) = self.cwd(&container.tree, &container.spec.working_dir) else {
      return Ok(self.no_directory());
    };
    let call = Call { argv: self.cmd, cwd: &cwd, env: &env, stdin: &input };
    Ok(commands::run(&mut container.tree, program, &call))
  }

  /// What the engine does before a command starts: change to the directory, then find the program.
  fn find<'w>(&self, state: &Mutex<State>, word: &'w str) -> Result<Result<&'w str, Done>> {
    let mut state = lock(state);
    let container = state.running(self.id)?;
    if self.cwd(&container.tree, &container.spec.working_dir).is_err() {
      return Ok(Err(self.no_directory()));
    }
    Ok(commands::find(&container.tree, word))
  }

  fn cwd(&self, tree: &super::tree::Tree, default: &str) -> Result<Vec<Name>, ()> {
    let directory = if self.working_dir.is_empty() { default } else { self.working_dir };
    match tree.existing(&[], directory.as_bytes(), Last::Follow) {
      Ok((place, Node::Directory { .. })) => Ok(place),
      _ => Err(()),
    }
  }

  fn no_directory(&self) -> Done {
    let why =
      format!("chdir to cwd ({:?}) set in config.json failed: no such file or directory", self.working_dir);
    commands::not_started(126, &why)
  }
}

/// All of the input, or one byte more than the output may hold.
async fn read(stdin: Stdin, cap: u64) -> Result<Bytes> {
  let mut pieces = match stdin {
    Stdin::Empty => return Ok(Bytes::new()),
    Stdin::Bytes(bytes) => return Ok(bytes),
    Stdin::Stream(pieces) => pieces,
  };
  let mut input = BytesMut::new();
  while let Some(piece) = pieces.next().await {
    input.extend_from_slice(&piece?);
    if input.len() as u64 > cap {
      break;
    }
  }
  Ok(input.freeze())
}

const fn killed(end: ExecEnd) -> ExecOutput {
  ExecOutput { exit_code: Some(KILLED), stdout: Vec::new(), stderr: Vec::new(), end }
}

fn capped(done: Done, cap: u64) -> ExecOutput {
  let Done { code, mut stdout, mut stderr } = done;
  let most = usize::try_from(cap).unwrap_or(usize::MAX);
  let over = stdout.len() > most || stderr.len() > most;
  stdout.truncate(most);
  stderr.truncate(most);
  let (exit_code, end) = if over { (KILLED, ExecEnd::Truncated) } else { (code, ExecEnd::Finished) };
  ExecOutput { exit_code: Some(exit_code), stdout, stderr, end }
}
