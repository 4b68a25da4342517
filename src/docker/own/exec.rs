//! Commands by a client of the application's own. It need not kill what a command leaves behind: that is done here, by
//! the script that a real engine's commands are ended with.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::answers::parsed;
use super::{ExecAnswer, OwnEngine};
use crate::cancel::cancelled;
use crate::docker::engine::{Engine, ExecEnd, ExecOutput, ExecRequest};
use crate::docker::terminate::{Target, kill_left};
use crate::error::{Result, fail};
use crate::limits::{EXEC_KILL_TIMEOUT, OWN_EXEC_MARGIN};

/// What a cancelled call is called in its error.
const WHAT: &str = "The sandbox command";
/// A longer time limit is none: timers of JavaScript take no more (2³¹ − 1 ms).
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
  exit_code: Option<i64>,
  truncated: bool,
  timed_out: bool,
}

impl OwnEngine {
  /// Runs a command to its end.
  pub(super) async fn run(&self, id: &str, request: ExecRequest) -> Result<ExecOutput> {
    let ExecRequest { cmd, user, mut env, working_dir, timeout: limit, cancel, clean_mark, .. } = request;
    cancel.check(WHAT)?;
    if !request.stdin.is_empty() {
      return Err(fail!(
        Unsupported,
        "The command was to read input, which the application's own Docker client cannot pass on. Write a file and let the command read that, or use a client of createNodeDockerClient()."
      ));
    }
    let target = match request.skip_terminate || self.client.is_double() {
      true => None,
      false => Some(Target::new(&user, request.marker.clone(), request.exclusive)?),
    };
    env.extend(target.as_ref().map(Target::env));
    if let Some(permit) = &request.permit {
      permit().await?;
    }
    let (limit, cap) = (limit.min(LONGEST), request.max_output_bytes);
    let options = json!({
      "cmd": cmd, "user": user, "env": env, "workingDir": working_dir,
      "timeoutMs": u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1),
      // Marks of ours come on top, and one cap is for both streams.
      "maxOutputBytes": cap.saturating_add(request.extra_stderr_bytes).min(MAX_SAFE),
      "skipTerminate": true,
      "marker": request.marker,
    });
    let answer = self.client.exec(id, options, limit.saturating_add(OWN_EXEC_MARGIN), &cancel).await;
    let output = answer.and_then(|answer| read(answer, cap, request.extra_stderr_bytes));
    let clean = output.as_ref().is_ok_and(|output| is_clean(output, clean_mark.as_deref()));
    if let Some(target) = target.filter(|_| !clean) {
      let killed = self.kill(id, &target).await;
      if output.is_ok() && !cancel.is_cancelled() {
        killed?;
      }
    }
    cancel.check(WHAT).map_err(|_| cancelled(WHAT))?;
    output
  }

  async fn kill(&self, id: &str, target: &Target) -> Result<()> {
    // Boxed: the script is a command too.
    let killing = Box::pin(kill_left(self as &dyn Engine, id, target));
    // The script's own limit is shorter; this is for a client that does not keep it.
    timeout(EXEC_KILL_TIMEOUT * 2, killing).await.unwrap_or_else(|_elapsed| {
      Err(fail!(
        DockerApi,
        "Processes of a command in container {id} could not be killed in time. They may still run."
      ))
    })
  }
}

/// The largest integer that a double holds exactly (`Number.MAX_SAFE_INTEGER`, ECMA-262).
const MAX_SAFE: u64 = 9_007_199_254_740_991;

fn read(answer: ExecAnswer, cap: u64, extra: u64) -> Result<ExecOutput> {
  let Facts { exit_code, truncated, timed_out } = parsed("exec", answer.facts)?;
  let (mut stdout, mut stderr) = (Vec::from(answer.stdout), Vec::from(answer.stderr));
  let over = cut(&mut stdout, cap) | cut(&mut stderr, cap.saturating_add(extra));
  let end = match (timed_out, truncated || over) {
    (true, _) => ExecEnd::TimedOut,
    (false, true) => ExecEnd::Truncated,
    (false, false) => ExecEnd::Finished,
  };
  Ok(ExecOutput { exit_code, stdout, stderr, end })
}

/// True where there was more than the cap.
fn cut(output: &mut Vec<u8>, cap: u64) -> bool {
  let cap = usize::try_from(cap).unwrap_or(usize::MAX);
  let over = output.len() > cap;
  output.truncate(cap);
  over
}

/// The command ended, and said that it left nothing.
fn is_clean(output: &ExecOutput, mark: Option<&str>) -> bool {
  let Some(mark) = mark.map(str::as_bytes) else { return false };
  let said = mark.is_empty() || output.stderr.windows(mark.len()).any(|window| window == mark);
  said && output.end == ExecEnd::Finished
}
