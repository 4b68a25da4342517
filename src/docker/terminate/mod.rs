//! Killing what a command left behind. The Engine API has no call for it, and the process ids that it tells are the
//! host's, not the container's. So each command carries a random mark in its environment, and a small script inside the
//! container kills every process that has the mark, with its session and its descendants.
//!
//! What that cannot find is a process that starts a session of its own, empties its environment and outlives its
//! parents. It dies with the last command of an exclusive container (see `ExecRequest::exclusive`); in any other it
//! cannot be told from a service of the container and lives until the container ends.

mod leftovers;
mod script;

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use self::leftovers::{Leftovers, PS_ARGS, Top};
use self::script::SCRIPT;
use super::client::Client;
use super::engine::{Engine, ExecRequest, Stdin, exit_text};
use super::request::{api_error, encode, segment};
use crate::cancel::Cancel;
use crate::error::{Error, Result, fail};
use crate::limits::EXEC_KILL_TIMEOUT;
use crate::random;

/// Name of the variable that marks a command's processes.
pub const MARK_VARIABLE: &str = "ZHIVEX_EXEC_ID";

/// First pause between two tries where the engine could not start the script.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// And the longest; after it no more is tried.
const SLOWEST_RETRY: Duration = Duration::from_millis(800);
/// Kept of the script's output.
const SCRIPT_OUTPUT_BYTES: u64 = 4096;
/// By how much a used-up process limit is raised while the script runs, where not even one process can be started: the
/// threads of the runtime that starts it (about a dozen with runc 1.1), and as many again for commands that fork on.
const PIDS_HEADROOM: i64 = 32;

/// The processes of one command.
pub struct Target {
  mark: String,
  user: String,
  marker: Option<String>,
  exclusive: bool,
  since: Instant,
}

impl Target {
  /// A new random mark. `marker` is a text in command lines that marks processes too; `exclusive` as in `ExecRequest`.
  pub fn new(user: &str, marker: Option<String>, exclusive: bool) -> Result<Self> {
    Ok(Self {
      mark: format!("{MARK_VARIABLE}={}", random::hex::<16>()?),
      user: user.to_owned(),
      marker: marker.filter(|marker| !marker.is_empty()),
      exclusive,
      since: Instant::now(),
    })
  }

  /// The variable that marks the command.
  pub fn env(&self) -> String {
    self.mark.clone()
  }

  fn marks(&self, text: &str) -> bool {
    text.contains(&self.mark) || self.marker.as_deref().is_some_and(|marker| text.contains(marker))
  }

  fn script(&self, orphans: bool, how: How) -> Vec<String> {
    // The script looks at the clock later than we do, by as long as it takes to start it.
    let age = || ((self.since.elapsed() + EXEC_KILL_TIMEOUT).as_millis() / 10).to_string();
    [
      "/bin/sh",
      "-c",
      SCRIPT,
      "sh",
      &self.mark,
      self.marker.as_deref().unwrap_or_default(),
      if self.exclusive { "1" } else { "" },
      &if orphans { age() } else { String::new() },
      if how == How::Builtins { "1" } else { "" },
    ]
    .map(str::to_owned)
    .to_vec()
  }
}

/// How the script looks for processes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
  /// With the help of `grep`: fast.
  Grep,
  /// With the shell alone: where there is no `grep`, or nothing can be started.
  Builtins,
}

/// A container's processes and their limit, from its statistics.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
  pids_stats: PidsStats,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PidsStats {
  current: i64,
  limit: i64,
}

impl Client {
  /// Kills the processes of a command, `leader` being its first process on the engine's host where that has ended.
  /// A container that has ended or is gone has no processes. An error says what still runs.
  pub(super) async fn terminate(&self, container: &str, target: &Target, leader: Option<i64>) -> Result<()> {
    let deadline = Instant::now() + EXEC_KILL_TIMEOUT;
    let mut limit = None;
    let killing = self.kill_processes(container, target, leader, &mut limit);
    let killed = timeout_at(deadline, killing).await;
    let killed = killed.unwrap_or_else(|_elapsed| {
      Err(still_runs(container, &format_args!("it took longer than {} s", EXEC_KILL_TIMEOUT.as_secs())))
    });
    match limit {
      Some(limit) => killed.and(self.limit_processes(container, limit).await),
      None => killed,
    }
  }

  /// `raised` is the process limit to go back to afterwards, where it had to be raised.
  async fn kill_processes(
    &self,
    container: &str,
    target: &Target,
    leader: Option<i64>,
    raised: &mut Option<i64>,
  ) -> Result<()> {
    let left = self.leftovers(container, target, leader).await;
    if left == Leftovers::None {
      return Ok(());
    }
    let orphans = left == Leftovers::Orphans;
    let (mut pause, mut how) = (RETRY_PAUSE, How::Grep);
    loop {
      let why = match self.run_script(container, target.script(orphans, how), &target.user).await {
        Ok(Some(0)) => return Ok(()),
        Ok(_) if how == How::Grep => {
          how = How::Builtins;
          continue;
        }
        Ok(code) => still_runs(container, &format_args!("the killing script ended with {}", exit_text(code))),
        Err(error) => still_runs(container, &error),
      };
      match self.inspection(container).await {
        Err(gone) if gone.is_not_found() => return Ok(()),
        Ok(found) if !found.state.running => return Ok(()),
        Ok(found) if found.state.paused => return Err(still_runs(container, &"it is paused")),
        _ if raised.is_none() && self.raise_limit(container, raised).await => {}
        _ if pause > SLOWEST_RETRY => return Err(why),
        _ => sleep(pause).await,
      }
      pause *= 2;
    }
  }

  /// Raises the process limit where it is used up; `raised` is then the one to go back to.
  async fn raise_limit(&self, container: &str, raised: &mut Option<i64>) -> bool {
    let Ok(id) = segment(container) else { return false };
    let path = format!("/containers/{id}/stats?stream=false&one-shot=true");
    let Ok(Stats { pids_stats }) = self.json::<Stats>(Method::GET, &path, None).await else { return false };
    if pids_stats.limit <= 0 || pids_stats.current < pids_stats.limit {
      return false;
    }
    // Before the call: a reply that is lost may hide that it was done.
    *raised = Some(pids_stats.limit);
    self.limit_processes(container, pids_stats.limit.saturating_add(PIDS_HEADROOM)).await.is_ok()
  }

  /// The engine's process list saves a second exec where nothing was left.
  async fn leftovers(&self, container: &str, target: &Target, leader: Option<i64>) -> Leftovers {
    let Some(leader) = leader.filter(|pid| *pid > 0) else { return Leftovers::Perhaps };
    let Ok(id) = segment(container) else { return Leftovers::None };
    let path = format!("/containers/{id}/top?ps_args={}", encode(PS_ARGS));
    match self.json::<Top>(Method::GET, &path, None).await {
      Ok(top) => top.leftovers(target, &leader.to_string()),
      Err(_unknown) => Leftovers::Perhaps,
    }
  }

  async fn limit_processes(&self, container: &str, limit: i64) -> Result<()> {
    let path = format!("/containers/{}/update", segment(container)?);
    let reply = self.call(Method::POST, &path, Some(&json!({ "PidsLimit": limit }))).await?;
    if reply.status.is_success() {
      return Ok(());
    }
    match self.inspection(container).await {
      Err(gone) if gone.is_not_found() => Ok(()),
      Ok(found) if !found.state.running => Ok(()),
      _ => Err(still_runs(container, &api_error(&Method::POST, &path, &reply))),
    }
  }

  /// Runs the script; its exit code.
  async fn run_script(&self, container: &str, cmd: Vec<String>, user: &str) -> Result<Option<i64>> {
    let request = script_request(cmd, user);
    // Boxed: running a command ends with this, which runs a command.
    Ok(Box::pin(self.run_exec(container, request)).await?.exit_code)
  }
}

/// Kills what a command left, by the script alone and through any engine: without the engine's process list, and without
/// raising a process limit that is used up.
pub async fn kill_left(engine: &dyn Engine, container: &str, target: &Target) -> Result<()> {
  let mut code = None;
  for how in [How::Grep, How::Builtins] {
    let ran = engine.exec(container, script_request(target.script(false, how), &target.user)).await;
    match ran {
      Ok(output) if output.exit_code == Some(0) => return Ok(()),
      Ok(output) => code = output.exit_code,
      Err(error) => {
        return match engine.inspect_container(container).await {
          Err(gone) if gone.is_not_found() => Ok(()),
          Ok(found) if !found.state.running => Ok(()),
          _ => Err(still_runs(container, &error)),
        };
      }
    }
  }
  Err(still_runs(container, &format_args!("the killing script ended with {}", exit_text(code))))
}

fn script_request(cmd: Vec<String>, user: &str) -> ExecRequest {
  ExecRequest {
    cmd,
    user: user.to_owned(),
    env: Vec::new(),
    working_dir: "/".to_owned(),
    timeout: EXEC_KILL_TIMEOUT,
    max_output_bytes: SCRIPT_OUTPUT_BYTES,
    stdin: Stdin::Empty,
    // A cancelled command must still be killed.
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

fn still_runs(container: &str, why: &dyn std::fmt::Display) -> Error {
  fail!(
    DockerApi,
    "Processes of a command in container {container} could not be killed ({why}). They may still run; the container needs /bin/sh for this, or must be removed."
  )
}
