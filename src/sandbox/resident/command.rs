//! Commands over the supervisor.

use std::time::{Duration, Instant};

use super::{ResidentSandbox, unexpected};
use crate::cancel::Cancel;
use crate::docker::Stdin;
use crate::error::{Error, Result, fail};
use crate::sandbox::{Command, CommandResult, Outcome};
use crate::stream::output::CappedOutput;
use crate::supervisor::link::{Event, Operation, WINDOW};
use crate::supervisor::wire::{
  CommandEnd, Exec, How, NotStarted, RelativePath, Reply, Started, Stream, StringsBuf, ToInside,
};

/// What is under way, for messages.
pub(super) const WHAT: &str = "The sandbox command";
/// What engines and shells give as the exit code of a command that SIGKILL ended, ours too: 128 and its number.
const KILLED: i64 = 137;

impl ResidentSandbox {
  /// Asks for a command, with no more output than `cap` bytes of each stream; its input is still to be sent.
  pub(super) async fn start(
    &self,
    command: Command,
    cap: u64,
    cancel: &Cancel,
  ) -> Result<(Operation, Stdin)> {
    let Command { program, args, cwd, env, stdin, timeout, .. } = command;
    let argv = strings(std::iter::once(&program).chain(&args))?;
    let mut variables = self.env.clone();
    variables.extend(env);
    let env = strings(variables.iter().map(|(name, value)| format!("{name}={value}")))?;
    let millis = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
    let request = Exec {
      window: WINDOW,
      timeout_ms: timeout.map_or(0, millis),
      max_stdout: cap,
      max_stderr: cap,
      stdin: !stdin.is_empty(),
      cwd: relative(cwd.as_str())?,
      argv: argv.view(),
      env: env.view(),
    };
    Ok((self.ask(ToInside::Exec(request), WHAT, cancel).await?, stdin))
  }

  pub(super) async fn run(&self, command: Command, cancel: &Cancel) -> Result<CommandResult> {
    let begun = Instant::now();
    let (program, max_output_bytes) = (command.program.clone(), command.max_output_bytes);
    let (operation, stdin) = self.start(command, max_output_bytes, cancel).await?;
    let (mut stdout, mut stderr) = (CappedOutput::new(max_output_bytes), CappedOutput::new(max_output_bytes));
    let mut exited = None;
    let reply = operation
      .run(stdin, WHAT, cancel, |event| {
        let (kept, bytes) = match event {
          Event::Data(Stream::Output, bytes) => (&mut stdout, bytes),
          Event::Data(Stream::Error, bytes) => (&mut stderr, bytes),
          Event::Data(Stream::Input, _) | Event::Started(Started::File { .. }) => {
            return Err(unexpected("a command"));
          }
          Event::Exited(end) => {
            exited = Some(end);
            return Ok(());
          }
          _ => return Ok(()),
        };
        // The supervisor sends at most the cap; what it stops there is its OutputLimit.
        kept.push(&bytes);
        if kept.exceeded() { Err(unexpected("a command")) } else { Ok(()) }
      })
      .await?;
    let end = last_word(reply, exited, &program)?;
    let (outcome, exit_code, signal) = outcome(end)?;
    Ok(CommandResult {
      exit_code,
      signal,
      outcome,
      stdout: stdout.into_bytes(),
      stderr: complaint(end, &program).map_or_else(|| stderr.into_bytes(), String::into_bytes),
      truncated: outcome == Outcome::OutputLimit,
      duration: begun.elapsed(),
    })
  }
}

/// How a command ended. The end of one that had a process was told before, by its exit, and no other is believed.
pub(super) fn last_word(reply: Reply, exited: Option<CommandEnd>, program: &str) -> Result<CommandEnd> {
  match reply {
    Reply::Command(end) if exited == Some(end) => Ok(end),
    Reply::Command(end) if exited.is_none() && matches!(end.how, How::NotStarted(..)) => Ok(end),
    Reply::Failed(failed) if exited.is_none() => Err(super::files::failure(failed, "run", &program)),
    _ => Err(unexpected("a command")),
  }
}

/// What standard error says of a command that never ran.
pub(super) fn complaint(end: CommandEnd, program: &str) -> Option<String> {
  let How::NotStarted(stage, errno) = end.how else { return None };
  Some(format!("{program}: {}\n", not_started(stage, errno)))
}

pub(super) fn outcome(end: CommandEnd) -> Result<(Outcome, Option<i64>, Option<&'static str>)> {
  Ok(match end.how {
    How::Exited(code) => (Outcome::Exited, Some(i64::from(code)), None),
    How::Signaled(number) => (Outcome::Signaled, None, Some(signal_name(number))),
    How::TimedOut => (Outcome::TimedOut, Some(KILLED), None),
    How::OutputLimit => (Outcome::OutputLimit, Some(KILLED), None),
    How::OutOfMemory => (Outcome::Oom, None, Some("SIGKILL")),
    How::NotStarted(..) => (Outcome::NotStarted, None, None),
    How::Swept => (Outcome::Signaled, None, Some("SIGKILL")),
    // Who asked for it does not wait for what it came to.
    How::Cancelled => return Err(unexpected("a command")),
  })
}

pub(super) fn relative(path: &str) -> Result<RelativePath<'_>> {
  RelativePath::new(path.as_bytes())
    .map_err(|error| fail!(PathInvalid, "Path {path:?} cannot be passed to the sandbox.").with_source(error))
}

fn strings<S: AsRef<str>>(words: impl Iterator<Item = S>) -> Result<StringsBuf> {
  let mut list = StringsBuf::new();
  for word in words {
    list.push(&[word.as_ref().as_bytes()]).map_err(|error| -> Error {
      fail!(Denied, "An argument or variable contains a NUL byte.").with_source(error)
    })?;
  }
  Ok(list)
}

/// Error numbers of Linux, which the container has whatever the host has (`asm-generic/errno-base.h`, `errno.h`).
mod errno {
  pub const EPERM: i32 = 1;
  pub const ENOENT: i32 = 2;
  pub const ENOEXEC: i32 = 8;
  pub const EACCES: i32 = 13;
  pub const ENOTDIR: i32 = 20;
  pub const ELOOP: i32 = 40;
}

/// Why a command never ran, in the words of the other transport's shell where that has any.
fn not_started(stage: NotStarted, error: i32) -> String {
  use errno::{EACCES, ELOOP, ENOENT, ENOEXEC, ENOTDIR, EPERM};
  match (stage, error) {
    (NotStarted::Program, ENOENT | ENOTDIR) => "command not found".to_owned(),
    (NotStarted::Program, EACCES | EPERM | ENOEXEC) => "permission denied: not executable".to_owned(),
    (NotStarted::Program, _) => format!("the program could not be run (error {error} of Linux)"),
    (NotStarted::Directory, ENOENT | ENOTDIR | ELOOP | EACCES) => "no such working directory".to_owned(),
    (NotStarted::Directory, _) => {
      format!("the working directory could not be entered (error {error} of Linux)")
    }
    (NotStarted::Fork, _) => {
      format!(
        "no process could be made (error {error} of Linux); the commands that run may use up limits.pids"
      )
    }
    (NotStarted::Setup, _) => format!("the process could not be set up (error {error} of Linux)"),
    (NotStarted::Deadline, _) => "the program did not start in time".to_owned(),
  }
}

/// The names of signal(7), by their numbers on x86 and ARM.
fn signal_name(number: u8) -> &'static str {
  const NAMES: [&str; 32] = [
    "SIG0",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
  ];
  NAMES.get(usize::from(number)).copied().unwrap_or("a real-time signal")
}
