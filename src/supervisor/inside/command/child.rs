//! From fork to exec.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::super::system::child::{self, Forked, Vector};
use super::super::system::{domain, limits, signals};
use super::{never_block, pipe};
use crate::supervisor::wire::{Capability, Exec, NotStarted};

/// Where programs are looked for when the command has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";
/// Room for a directory of the path and a name (`PATH_MAX`).
const MAX_PROGRAM: usize = 4096;

/// Starts processes: what is the same for all of them. No new privileges, the filter and most limits are inherited.
pub struct Launcher {
  scoped: bool,
  null: OwnedFd,
}

/// Our ends, and the child's.
pub struct Pipes {
  /// Where the child says that it failed; it closes with exec.
  pub status: OwnedFd,
  /// What the command reads, where it reads from us.
  pub input: Option<OwnedFd>,
  /// What it writes to standard output and error.
  pub outputs: [OwnedFd; 2],
  theirs: Theirs,
}

struct Theirs {
  status: OwnedFd,
  input: Option<OwnedFd>,
  outputs: [OwnedFd; 2],
}

impl Launcher {
  /// `null` is `/dev/null`.
  pub fn new(null: OwnedFd) -> Self {
    Self { scoped: domain::is_available(), null }
  }

  /// What commands are kept behind.
  pub fn capability(&self) -> u64 {
    Capability::Filtered as u64 | if self.scoped { Capability::Scoped as u64 } else { 0 }
  }

  /// Makes a process for a command: its number and a descriptor for it. What goes wrong later is said on the status
  /// pipe.
  pub fn start(
    &self,
    exec: &Exec<'_>,
    cwd: BorrowedFd<'_>,
    pipes: Pipes,
    tag: u64,
  ) -> Result<(i32, OwnedFd, Pipes), Errno> {
    let argv = Vector::of(exec.argv.iter());
    let env = Vector::of(exec.env.iter());
    match child::fork()? {
      Forked::Parent(pid, pidfd) => Ok((pid, pidfd, pipes)),
      Forked::Child => {
        let (stage, error) = self.become_command(exec, cwd, &pipes.theirs, tag, (&argv, &env));
        report(&pipes.theirs.status, stage, error)
      }
    }
  }

  /// Makes a process that is behind everything a command is behind, and runs `attack` in it; its exit code is what
  /// that returns.
  pub fn start_attack(&self, tag: u64, attack: fn() -> u8) -> Result<(i32, OwnedFd), Errno> {
    match child::fork()? {
      Forked::Parent(pid, pidfd) => Ok((pid, pidfd)),
      Forked::Child => child::end(self.confine(tag).map_or(u8::MAX, |()| attack())),
    }
  }

  /// Returns only if it fails.
  fn become_command(
    &self,
    exec: &Exec<'_>,
    cwd: BorrowedFd<'_>,
    pipes: &Theirs,
    tag: u64,
    (argv, env): (&Vector<'_>, &Vector<'_>),
  ) -> (NotStarted, Errno) {
    if let Err(error) = self.connect(pipes) {
      return (NotStarted::Setup, error);
    }
    if let Err(error) = rustix::process::fchdir(cwd) {
      return (NotStarted::Directory, error);
    }
    if let Err(error) = self.confine(tag) {
      return (NotStarted::Setup, error);
    }
    let Some(program) = exec.argv.iter().next() else { return (NotStarted::Program, Errno::INVAL) };
    let error = if program.to_bytes().contains(&b'/') {
      child::execute(program, argv, env)
    } else {
      look_up(program.to_bytes(), path_of(exec), |path| child::execute(path, argv, env))
    };
    (NotStarted::Program, error)
  }

  fn connect(&self, pipes: &Theirs) -> Result<(), Errno> {
    rustix::process::setsid()?;
    let input = pipes.input.as_ref().map_or(self.null.as_fd(), AsFd::as_fd);
    child::place(input, 0)?;
    let [output, error] = &pipes.outputs;
    child::place(output.as_fd(), 1)?;
    child::place(error.as_fd(), 2)
  }

  fn confine(&self, tag: u64) -> Result<(), Errno> {
    limits::set_tag(tag)?;
    limits::for_command()?;
    signals::reset();
    if self.scoped { domain::enter() } else { Ok(()) }
  }
}

impl Pipes {
  /// The pipes of a command.
  pub fn new(with_input: bool) -> Result<Self, Errno> {
    let (status, status_theirs) = pipe()?;
    let (output, output_theirs) = pipe()?;
    let (error, error_theirs) = pipe()?;
    let (input_theirs, input) =
      if with_input { pipe().map(|(r, w)| (Some(r), Some(w)))? } else { (None, None) };
    for fd in [&status, &output, &error].into_iter().chain(&input) {
      never_block(fd)?;
    }
    let theirs =
      Theirs { status: status_theirs, input: input_theirs, outputs: [output_theirs, error_theirs] };
    Ok(Self { status, input, outputs: [output, error], theirs })
  }

  /// Closes the child's ends, so that the pipes end with it, and gives ours: status, input, outputs.
  pub fn into_ours(self) -> (OwnedFd, Option<OwnedFd>, [OwnedFd; 2]) {
    (self.status, self.input, self.outputs)
  }
}

/// Reads what a child that failed said: five bytes, written at once.
pub fn failure(said: [u8; 5]) -> (NotStarted, i32) {
  let [stage, errno @ ..] = said;
  let stage = NotStarted::ALL.iter().find(|known| **known as u8 == stage);
  (stage.copied().unwrap_or(NotStarted::Setup), i32::from_le_bytes(errno))
}

fn report(status: &OwnedFd, stage: NotStarted, error: Errno) -> ! {
  let mut said = [stage as u8, 0, 0, 0, 0];
  said[1..].copy_from_slice(&error.raw_os_error().to_le_bytes());
  let _ = rustix::io::write(status, &said);
  child::end(127)
}

fn path_of<'a>(exec: &Exec<'a>) -> &'a [u8] {
  let paths = exec.env.iter().filter_map(|variable| variable.to_bytes().strip_prefix(b"PATH="));
  paths.last().unwrap_or(DEFAULT_PATH)
}

/// Tries the program in each absolute directory of the path. The error is the first that is not "no such file", as a
/// shell would say.
fn look_up(name: &[u8], path: &[u8], mut execute: impl FnMut(&CStr) -> Errno) -> Errno {
  let mut error = Errno::NOENT;
  for directory in path.split(|byte| *byte == b':').filter(|directory| directory.starts_with(b"/")) {
    let mut room = [0; MAX_PROGRAM];
    let bytes = directory.iter().chain(b"/").chain(name);
    if directory.len() + 1 + name.len() >= room.len() {
      continue;
    }
    room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    let Ok(program) = CStr::from_bytes_until_nul(&room) else { continue };
    match execute(program) {
      Errno::NOENT | Errno::NOTDIR => {}
      other if error == Errno::NOENT => error = other,
      _ => {}
    }
  }
  error
}

#[cfg(test)]
mod tests;
