//! Killing what a command left behind. The Engine API has no call for it, and the process id that it tells is the
//! host's, not the container's. So each command carries a random mark in its environment, and a small script inside the
//! container kills every process that has the mark, with its process group.

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::engine::{ExecRequest, Stdin};
use super::request::{encode, segment};
use crate::cancel::Cancel;
use crate::docker::ExecEnd;
use crate::error::{Error, Result, fail};
use crate::limits::EXEC_KILL_TIMEOUT;

/// Name of the variable that marks a command's processes.
pub const MARK_VARIABLE: &str = "ZHIVEX_EXEC_ID";

/// First pause between two tries where the engine could not start the script (a used-up process limit).
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Kept of the script's output.
const SCRIPT_OUTPUT_BYTES: u64 = 4096;

/// Kills until nothing is found. `$1` the mark, `$2` a text in command lines or empty. Shell built-ins but for one
/// `grep` a round; exits 0 when a round found nothing, 1 when the rounds did not suffice, 3 without `grep`.
/// A process group dies at once, so that one that forks cannot outrun it; the group of process 1 is never killed.
const SCRIPT: &str = r#"m=$1 a=$2 r=0
command -v grep >/dev/null 2>&1 || exit 3
while [ "$r" -lt 200 ]; do
  r=$((r+1)) f=
  for e in $(grep -zlsF -e "$m" /proc/[0-9]*/environ; [ -z "$a" ] || grep -zlsF -e "$a" /proc/[0-9]*/cmdline); do
    p=${e#/proc/} p=${p%/*}
    case $p in 1|$$) continue;; esac
    read -r l <"/proc/$p/stat" || continue
    l=${l##*) }
    set -- $l
    [ "$1" = Z ] && continue
    [ -n "$a" ] && [ "$3" = "$$" ] && continue
    f=1
    [ "$3" -gt 1 ] && kill -9 "-$3"
    kill -9 "$p"
  done 2>/dev/null
  [ -n "$f" ] || exit 0
done
exit 1"#;

/// The processes of one command.
pub struct Target {
  mark: String,
  user: String,
  marker: Option<String>,
}

impl Target {
  /// A new random mark. `marker` is a text in command lines that marks processes too.
  pub fn new(user: &str, marker: Option<String>) -> Result<Self> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random)
      .map_err(|error| fail!(Internal, "The system gave no random bytes.").with_source(error))?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Self {
      mark: format!("{MARK_VARIABLE}={hex}"),
      user: user.to_owned(),
      marker: marker.filter(|m| !m.is_empty()),
    })
  }

  /// The variable that marks the command.
  pub fn env(&self) -> String {
    self.mark.clone()
  }

  fn marks(&self, text: &str) -> bool {
    text.contains(&self.mark) || self.marker.as_deref().is_some_and(|marker| text.contains(marker))
  }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Top {
  titles: Vec<String>,
  processes: Option<Vec<Vec<String>>>,
}

impl Client {
  /// Kills the processes of a command, `leader` being its first process on the engine's host where that has ended.
  /// A container that has ended or is gone has no processes. An error says what still runs.
  pub(super) async fn terminate(&self, container: &str, target: &Target, leader: Option<i64>) -> Result<()> {
    if self.is_clean(container, target, leader).await {
      return Ok(());
    }
    let deadline = Instant::now() + EXEC_KILL_TIMEOUT;
    let mut pause = RETRY_PAUSE;
    loop {
      let error = match self.run_script(container, target).await {
        Ok(()) => return Ok(()),
        Err(error) => error,
      };
      match self.inspection(container).await {
        Err(gone) if gone.is_not_found() => return Ok(()),
        Ok(found) if !found.state.running => return Ok(()),
        _ if Instant::now() + pause > deadline => return Err(error),
        _ => sleep(pause).await,
      }
      pause *= 2;
    }
  }

  /// The engine's process list saves a second exec where nothing was left. Where it cannot be had, nothing is known.
  async fn is_clean(&self, container: &str, target: &Target, leader: Option<i64>) -> bool {
    let Some(leader) = leader.filter(|pid| *pid > 0).map(|pid| pid.to_string()) else { return false };
    let Ok(id) = segment(container) else { return true };
    // BSD's `e` shows the environment behind the command line.
    let path = format!("/containers/{id}/top?ps_args={}", encode("axe -o pid,sid,args -ww"));
    let Ok(top) = self.json::<Top>(Method::GET, &path, None).await else { return false };
    let session = top.titles.iter().position(|title| matches!(title.as_str(), "SID" | "SESS"));
    let Some(session) = session else { return false };
    !top.processes.unwrap_or_default().iter().any(|row| {
      row.get(session).is_some_and(|sid| *sid == leader) || row.iter().any(|cell| target.marks(cell))
    })
  }

  async fn run_script(&self, container: &str, target: &Target) -> Result<()> {
    let marker = target.marker.clone().unwrap_or_default();
    let script = ["/bin/sh", "-c", SCRIPT, "sh"].map(str::to_owned);
    let request = ExecRequest {
      cmd: script.into_iter().chain([target.mark.clone(), marker]).collect(),
      user: target.user.clone(),
      env: Vec::new(),
      working_dir: "/".to_owned(),
      timeout: EXEC_KILL_TIMEOUT,
      max_output_bytes: SCRIPT_OUTPUT_BYTES,
      stdin: Stdin::Empty,
      // A cancelled command must still be killed.
      cancel: Cancel::new(),
      skip_terminate: true,
      marker: None,
      clean_mark: None,
    };
    // Boxed: running a command ends with this, which runs a command.
    let output =
      Box::pin(self.run_exec(container, request)).await.map_err(|error| still_runs(container, &error))?;
    match (output.end, output.exit_code) {
      (ExecEnd::Finished | ExecEnd::OutputHeld, Some(0)) => Ok(()),
      (_, code) => Err(still_runs(container, &format_args!("the killing script ended with {code:?}"))),
    }
  }
}

fn still_runs(container: &str, why: &dyn std::fmt::Display) -> Error {
  fail!(
    DockerApi,
    "Processes of a command in container {container} could not be killed ({why}). They may still run; the container needs /bin/sh and grep for this, or must be removed."
  )
}
