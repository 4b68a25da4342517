//! Commands over `docker exec`: the script that starts one says in marks on its standard error what came of it.

use std::time::Instant;

use crate::docker::{ExecEnd, ExecOutput, ExecRequest};
use crate::error::{Result, fail};
use crate::sandbox::{Command, CommandResult, Outcome};

use super::scripts::RUN;
use super::{ExecSandbox, Nonce};
use crate::cancel::Cancel;

/// What the marks take of standard error: 32 digits, a colon, a word and a semicolon, twice.
const MARKS_BYTES: u64 = 39 + 37;

/// What the marks say.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
  /// It ran; `whole` when the script saw its end.
  Started { whole: bool },
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

  fn request(&self, command: Command, nonce: &Nonce, cancel: &Cancel) -> ExecRequest {
    let env = self.env.iter().chain(&command.env).map(|(name, value)| format!("{name}={value}")).collect();
    let words = std::iter::once(command.program).chain(command.args);
    let (cmd, extra) = if self.scripts {
      let script = ["/bin/sh", "-c", RUN, "sh", nonce.as_str()].map(str::to_owned);
      (script.into_iter().chain([command.cwd.absolute()]).chain(words).collect(), MARKS_BYTES)
    } else {
      (words.collect(), 0)
    };
    ExecRequest {
      cmd,
      user: self.user.clone(),
      env,
      // The script enters the directory itself, without following links.
      working_dir: if self.scripts { "/".to_owned() } else { command.cwd.absolute() },
      timeout: command.timeout,
      max_output_bytes: command.max_output_bytes,
      stdin: command.stdin,
      cancel: cancel.clone(),
      skip_terminate: false,
      marker: None,
      extra_stderr_bytes: extra,
      clean_mark: self.scripts.then(|| nonce.mark("end")),
      exclusive: true,
    }
  }
}

struct Read<'a> {
  output: ExecOutput,
  stderr: Vec<u8>,
  fate: Fate,
  cap: u64,
  program: &'a str,
  begun: Instant,
}

impl Read<'_> {
  fn into_result(self) -> Result<CommandResult> {
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
      (_, Fate::Started { whole: true }) => (Outcome::Exited, self.output.exit_code),
      // The script was killed together with the command: whatever code there is, it is not the command's.
      (_, Fate::Started { whole: false }) => (Outcome::Signaled, None),
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
  let said = String::from_utf8_lossy(if stderr.is_empty() { stdout } else { stderr }).trim().to_owned();
  let said: String = said.chars().take(300).collect();
  fail!(
    DockerApi,
    "The sandbox could not run its own shell (exit code {code:?}): {said}. The image needs a working /bin/sh for the exec transport."
  )
}

/// Takes the marks out of standard error.
fn read_marks(stderr: &[u8], nonce: &str) -> (Vec<u8>, Fate) {
  let mark = |word: &str| format!("{nonce}:{word};").into_bytes();
  let mut rest = stderr.to_vec();
  let refusals = [
    ("cwd", "no such working directory"),
    ("missing", "command not found"),
    ("denied", "permission denied: not executable"),
  ];
  for (word, why) in refusals {
    if rest.starts_with(&mark(word)) {
      return (Vec::new(), Fate::Refused(why));
    }
  }
  let start = mark("start");
  if !rest.starts_with(&start) {
    return (rest, Fate::Unknown);
  }
  rest.drain(..start.len());
  let end = mark("end");
  let at = rest.windows(end.len()).rposition(|window| window == end);
  if let Some(at) = at {
    rest.drain(at..at + end.len());
  }
  (rest, Fate::Started { whole: at.is_some() })
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn marks_are_taken_out_and_nothing_else() {
    let read = |text: &str| read_marks(text.as_bytes(), "n1");
    assert_eq!(read("n1:start;err\nn1:end;"), (b"err\n".to_vec(), Fate::Started { whole: true }));
    assert_eq!(read("n1:start;n1:end;late"), (b"late".to_vec(), Fate::Started { whole: true }));
    assert_eq!(read("n1:start;n2:end;"), (b"n2:end;".to_vec(), Fate::Started { whole: false }));
    assert_eq!(read("n1:cwd;"), (Vec::new(), Fate::Refused("no such working directory")));
    assert_eq!(read("sh: oops"), (b"sh: oops".to_vec(), Fate::Unknown));
    assert_eq!(read(""), (Vec::new(), Fate::Unknown));
  }
}
