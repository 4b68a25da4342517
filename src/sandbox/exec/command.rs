//! Commands over `docker exec`: the script that starts one says in marks on its standard error what came of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::docker::{ExecEnd, ExecOutput, ExecRequest, exit_text};
use crate::error::{Result, fail};
use crate::limits::MAX_ARG_BYTES;
use crate::sandbox::{Command, CommandResult, Outcome};

use super::files::FIRST_SIGNAL;
use super::marks::read_marks;
use super::scripts::RUN;
use super::{ExecSandbox, Nonce};
use crate::cancel::Cancel;

/// What the marks take of standard error: 32 digits, a colon, a word (`start`, `=255`, `end`) and a semicolon each.
const MARKS_BYTES: u64 = 39 + 38 + 37;

/// The words of a script that could not start a command, and what they mean.
pub(super) const REFUSALS: [(&str, &str); 3] = [
  ("cwd", "no such working directory"),
  ("missing", "command not found"),
  ("denied", "permission denied: not executable"),
];

/// What the marks say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
  /// It ran, and ended with this exit code if the script saw its end.
  Started { code: Option<i64> },
  /// It could not be started, and why.
  Refused(&'static str),
  /// There is no mark: the script itself did not run.
  Unknown,
}

impl ExecSandbox {
  pub(super) async fn run(&self, command: Command, cancel: &Cancel) -> Result<CommandResult> {
    let begun = Instant::now();
    let nonce = Nonce::new()?;
    let cap = command.max_output_bytes;
    let program = command.program.clone();
    let request = self.request(command, &nonce, cancel);
    let output = self.engine.exec(&self.container, request).await;
    let output = self.explained(output).await?;
    if !self.scripts {
      return Ok(plain_result(output, begun));
    }
    let (stderr, fate) = read_marks(&output.stderr, nonce.as_str());
    let result = Read { output, stderr, fate, cap, program: &program, begun };
    let result = self.explained(result.into_result()).await?;
    if result.outcome == Outcome::Signaled {
      // What killed the script may have been the end of the container, and then there is no result.
      self.alive().await?;
    }
    Ok(result)
  }

  pub(super) fn request(&self, command: Command, nonce: &Nonce, cancel: &Cancel) -> ExecRequest {
    let mut given = self.env.clone();
    given.extend(command.env);
    let (cmd, env, extra) = if self.scripts {
      let (names, env) = disguised(&given);
      let script = ["/bin/sh", "-c", RUN, "sh", nonce.as_str()].map(str::to_owned);
      let words = script.into_iter().chain([command.cwd.absolute(), command.program]).chain(names);
      (words.chain(["--".to_owned()]).chain(command.args).collect(), env, MARKS_BYTES)
    } else {
      let env = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
      (std::iter::once(command.program).chain(command.args).collect(), env, 0)
    };
    ExecRequest {
      cmd,
      user: self.user.clone(),
      env,
      // The script enters the directory itself, without following links.
      working_dir: if self.scripts { "/".to_owned() } else { command.cwd.absolute() },
      timeout: command.timeout.unwrap_or(Duration::MAX),
      max_output_bytes: command.max_output_bytes,
      stdin: command.stdin,
      cancel: cancel.clone(),
      skip_terminate: false,
      marker: None,
      extra_stderr_bytes: extra,
      clean_mark: self.scripts.then(|| nonce.mark("end")),
      exclusive: true,
      tap: None,
      permit: self.permit.clone(),
    }
  }
}

/// The variables of a command as the script takes them: their names, and their values under names of the script's own.
/// One whose value is so long that only a shorter name leaves it startable keeps its own name, which the script then sees
/// as it is. Values are no arguments of the script, since arguments are seen by every user of the host.
fn disguised(given: &BTreeMap<String, String>) -> (Vec<String>, Vec<String>) {
  let (mut names, mut env) = (Vec::new(), Vec::new());
  for (name, value) in given {
    let variable = format!("zx_{}={value}", names.len());
    if variable.len() > MAX_ARG_BYTES {
      env.push(format!("{name}={value}"));
    } else {
      names.push(name.clone());
      env.push(variable);
    }
  }
  (names, env)
}

pub(super) struct Read<'a> {
  pub output: ExecOutput,
  pub stderr: Vec<u8>,
  pub fate: Fate,
  pub cap: u64,
  pub program: &'a str,
  pub begun: Instant,
}

impl Read<'_> {
  pub(super) fn into_result(self) -> Result<CommandResult> {
    let cap = usize::try_from(self.cap).unwrap_or(usize::MAX);
    let (mut stdout, mut stderr) = (self.output.stdout, self.stderr);
    let over = stdout.len() > cap || stderr.len() > cap || self.output.end == ExecEnd::Truncated;
    stdout.truncate(cap);
    stderr.truncate(cap);
    let (outcome, exit_code) = match (self.output.end, &self.fate) {
      (ExecEnd::TimedOut, _) => (Outcome::TimedOut, self.output.exit_code),
      (_, Fate::Refused(why)) => {
        stderr = format!("{}: {why}\n", self.program).into_bytes();
        (Outcome::NotStarted, None)
      }
      _ if over => (Outcome::OutputLimit, self.output.exit_code),
      (_, Fate::Started { code: Some(code) }) => (Outcome::Exited, Some(*code)),
      // The script was killed together with the command: whatever code there is, it is not the command's.
      (_, Fate::Started { code: None }) => (Outcome::Signaled, None),
      (_, Fate::Unknown) => return Err(not_run(&stdout, &stderr, self.output.exit_code)),
    };
    let duration = self.begun.elapsed();
    Ok(CommandResult { exit_code, signal: None, outcome, stdout, stderr, truncated: over, duration })
  }
}

fn plain_result(output: ExecOutput, begun: Instant) -> CommandResult {
  let outcome = match output.end {
    ExecEnd::TimedOut => Outcome::TimedOut,
    ExecEnd::Truncated => Outcome::OutputLimit,
    ExecEnd::Finished | ExecEnd::OutputHeld => Outcome::Exited,
  };
  CommandResult {
    exit_code: output.exit_code,
    signal: None,
    outcome,
    truncated: output.end == ExecEnd::Truncated,
    stdout: output.stdout,
    stderr: output.stderr,
    duration: begun.elapsed(),
  }
}

fn not_run(stdout: &[u8], stderr: &[u8], code: Option<i64>) -> crate::error::Error {
  let exit = exit_text(code);
  if code.is_some_and(|code| code > FIRST_SIGNAL) {
    return fail!(
      DockerApi,
      "The sandbox's own shell was killed ({exit}); the container may be short of memory. Try again, or raise limits.memoryMb."
    );
  }
  let said = String::from_utf8_lossy(if stderr.is_empty() { stdout } else { stderr }).trim().to_owned();
  let said: String = said.chars().take(300).collect();
  fail!(
    DockerApi,
    "The sandbox could not run its own shell ({exit}): {said}. The image needs a working /bin/sh for the exec transport."
  )
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn what_became_of_the_shell_is_said_in_words() {
    let message = |said: &[u8], code| not_run(b"", said, code).message().to_owned();
    let killed = message(b"", Some(137));
    assert!(killed.contains("was killed (exit code 137); the container may be short of memory"), "{killed}");
    let refused = message(b"no such file\n", Some(127));
    assert!(refused.contains("its own shell (exit code 127): no such file. The image"), "{refused}");
    let unknown = message(b"gone", None);
    assert!(unknown.contains("its own shell (no exit code): gone. The image"), "{unknown}");
  }

  #[test]
  fn values_travel_under_names_that_mean_nothing_to_a_shell() {
    let long = "v".repeat(MAX_ARG_BYTES - "A=".len());
    let given = [("PS4", "$(id)"), ("A", long.as_str()), ("n", "1")];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let (names, env) = disguised(&given);
    assert_eq!(names, ["PS4", "n"]);
    assert_eq!(env, [format!("A={long}"), "zx_0=$(id)".to_owned(), "zx_1=1".to_owned()]);
  }
}
