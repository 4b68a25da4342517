//! The life of one command.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, WaitStatus};

use super::super::link::Link;
use super::super::operations::{Context, Step};
use super::super::system::poll::{PollSet, READ};
use super::child::failure;
use super::input::Input;
use super::output::{Output, Pumped};
use super::{Pipes, Sweep, Swept};
use crate::supervisor::wire::{
  CommandEnd, Credit, Data, Exec, FlowError, How, NotStarted, Notice, Reply, Started, Stream, ToHost,
};

/// From fork to exec takes a fraction of a millisecond; under a CPU quota that others use up, up to a second was seen.
const START_DEADLINE: Duration = Duration::from_secs(10);

/// The kernel's number of the signal that cannot be caught (`signal(7)`).
const SIGKILL: u8 = 9;

/// Word that its program runs is not waited for before: most short commands end by then, and each wait that ends costs
/// as much as a quarter of one.
const START_LOOK: Duration = Duration::from_millis(2);

/// One command, from its fork until its last byte was sent.
pub struct Command {
  op: u64,
  tag: u64,
  pid: i32,
  pidfd: OwnedFd,
  born: Instant,
  deadline: Option<Instant>,
  /// Nobody waits for word that its program runs yet.
  is_new: bool,
  phase: Phase,
  input: Input,
  outputs: [Output; 2],
  /// Why it was killed, where it was; it outweighs how it then ended.
  cause: Option<How>,
  /// How its first process ended.
  exit: Option<How>,
  /// Kills for memory before it began.
  memory_kills: Option<u64>,
}

enum Phase {
  /// It has not executed its program yet.
  Starting(OwnedFd),
  Running,
  /// It is over; what it started is being killed.
  Sweeping(Sweep),
  /// All of it is gone; what is in its pipes is being sent.
  Draining(CommandEnd),
}

impl Command {
  /// Starts it.
  pub fn start(
    op: u64,
    tag: u64,
    exec: &Exec<'_>,
    context: &mut Context<'_>,
  ) -> Result<Self, (NotStarted, Errno)> {
    let cwd = context.workspace.directory(exec.cwd).map_err(|error| (NotStarted::Directory, error))?;
    let memory_kills = context.memory_kills.count();
    let pipes = Pipes::new(exec.stdin).map_err(|error| (NotStarted::Setup, error))?;
    let (pid, pidfd, pipes) =
      context.launcher.start(exec, cwd.as_fd(), pipes, tag).map_err(|error| (NotStarted::Fork, error))?;
    let (status, input, [output, error]) = pipes.into_ours();
    let timeout = (exec.timeout_ms > 0).then(|| Duration::from_millis(exec.timeout_ms));
    Ok(Self {
      op,
      tag,
      pid,
      pidfd,
      born: context.now,
      deadline: timeout.and_then(|timeout| context.now.checked_add(timeout)),
      is_new: true,
      phase: Phase::Starting(status),
      input: Input::new(input),
      outputs: [
        Output::new(Stream::Output, output, exec.window, exec.max_stdout),
        Output::new(Stream::Error, error, exec.window, exec.max_stderr),
      ],
      cause: None,
      exit: None,
      memory_kills,
    })
  }

  /// Its first process.
  pub const fn pid(&self) -> i32 {
    self.pid
  }

  /// It is over, and what it started is being killed.
  pub const fn is_sweeping(&self) -> bool {
    matches!(self.phase, Phase::Sweeping(_))
  }

  /// Its first process was collected.
  pub fn ended(&mut self, status: WaitStatus) {
    let number = |status: Option<i32>| status.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX);
    self.exit = Some(if status.exited() {
      How::Exited(number(status.exit_status()))
    } else {
      How::Signaled(number(status.terminating_signal()))
    });
  }

  /// Bytes that passed on each stream.
  pub const fn passed(&self) -> [u64; 3] {
    let [output, error] = &self.outputs;
    [self.input.received(), output.sent(), error.sent()]
  }

  /// It must go, unless it is over already.
  pub fn kill(&mut self, cause: How, now: Instant) {
    if self.exit.is_none()
      && self.cause.is_none()
      && matches!(self.phase, Phase::Starting(_) | Phase::Running)
    {
      self.cause = Some(cause);
      self.begin_sweep(now);
    }
  }

  /// Sends a signal to its first process, if it runs.
  pub fn signal(&self, number: u8) {
    let signal = Signal::from_named_raw(i32::from(number));
    if let (None, Phase::Running, Some(signal)) = (self.exit, &self.phase, signal) {
      let _ = rustix::process::pidfd_send_signal(&self.pidfd, signal);
    }
  }

  /// A piece of its input.
  pub fn take(&mut self, data: &Data<'_>, link: &mut Link) -> Result<(), FlowError> {
    self.input.take(self.op, data, link)
  }

  /// The end of its input.
  pub fn end_input(&mut self) {
    self.input.end();
  }

  /// The host takes more of a stream.
  pub const fn raise(&mut self, credit: Credit) {
    let [output, error] = &mut self.outputs;
    match credit.stream {
      Stream::Input => {}
      Stream::Output => output.raise(credit.limit),
      Stream::Error => error.raise(credit.limit),
    }
  }

  /// What it waits for.
  pub fn wait(&self, set: &mut PollSet, owner: usize, link: &Link) {
    if let (Phase::Starting(status), false) = (&self.phase, self.is_new) {
      set.add(status.as_fd(), READ, owner);
    }
    self.input.wait(set, owner);
    self.outputs.iter().for_each(|output| output.wait(set, owner, link));
  }

  /// When it needs attention at the latest.
  pub fn due(&self) -> Option<Instant> {
    match &self.phase {
      Phase::Starting(_) if self.is_new => Some(self.start_deadline().min(self.born + START_LOOK)),
      Phase::Starting(_) => Some(self.start_deadline()),
      Phase::Running => self.deadline,
      Phase::Sweeping(sweep) => Some(sweep.next()),
      Phase::Draining(_) => None,
    }
  }

  /// Does what can be done now.
  pub fn step(&mut self, context: &mut Context<'_>) -> Step {
    self.input.pump(self.op, context.link);
    let mut step = self.pump(context);
    if let Phase::Starting(_) = self.phase {
      self.is_new &= context.now < self.born + START_LOOK;
      self.watch_start(context);
    }
    if let Phase::Running = self.phase {
      self.watch(context.now);
    }
    if let Phase::Sweeping(_) = self.phase
      && let Some(swept) = self.sweep(context)
    {
      return swept;
    }
    if let Phase::Draining(end) = self.phase {
      // The first turn of a stream after the end is where it ends.
      step = self.pump(context).max(step);
      if self.outputs.iter().all(Output::has_ended) {
        return Step::Done(Reply::Command(end));
      }
    }
    step
  }

  fn pump(&mut self, context: &mut Context<'_>) -> Step {
    let mut step = Step::Wait;
    let mut over = false;
    for output in &mut self.outputs {
      match output.pump(self.op, context.link, context.now) {
        Pumped::Idle => {}
        Pumped::More => step = Step::Again,
        Pumped::OverCap => over = true,
      }
    }
    if over {
      self.kill(How::OutputLimit, context.now);
    }
    step
  }

  fn start_deadline(&self) -> Instant {
    let start = self.born + START_DEADLINE;
    self.deadline.map_or(start, |deadline| deadline.min(start))
  }

  fn watch_start(&mut self, context: &mut Context<'_>) {
    let Phase::Starting(status) = &self.phase else { return };
    let mut said = [0; 5];
    match rustix::io::read(status, &mut said) {
      Ok(0) => {
        self.phase = Phase::Running;
        let pid = self.pid.unsigned_abs();
        context.link.hint(self.op, &ToHost::Started(Started::Command { pid }), context.now);
      }
      Ok(_) => {
        let (stage, errno) = failure(said);
        self.cause = Some(How::NotStarted(stage, errno));
        self.begin_sweep(context.now);
      }
      Err(_) if context.now >= self.start_deadline() => {
        let timed_out = self.deadline.is_some_and(|deadline| context.now >= deadline);
        let cause = if timed_out { How::TimedOut } else { How::NotStarted(NotStarted::Deadline, 0) };
        self.kill(cause, context.now);
      }
      Err(_) => {}
    }
  }

  fn watch(&mut self, now: Instant) {
    if self.exit.is_some() {
      self.begin_sweep(now);
    } else if self.deadline.is_some_and(|deadline| now >= deadline) {
      self.kill(How::TimedOut, now);
    }
  }

  // Its first process may have no tag yet, but we have its descriptor.
  fn begin_sweep(&mut self, now: Instant) {
    let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    self.input.close();
    self.phase = Phase::Sweeping(Sweep::new(now));
  }

  fn sweep(&mut self, context: &mut Context<'_>) -> Option<Step> {
    let Phase::Sweeping(sweep) = &mut self.phase else { return None };
    let swept = sweep.look(self.tag, self.exit.is_some(), context.processes, context.now);
    let broken = sweep.take_broken();
    if broken > 0 {
      context.link.mention(0, &ToHost::Notice(Notice::Untagged, broken.into()));
    }
    match (swept, self.exit) {
      (Swept::Clean, Some(exit)) => {
        let killed = sweep.killed(self.pid);
        self.report_end(exit, killed, context);
        None
      }
      (Swept::Everything, _) => Some(Step::SweepAll),
      (Swept::Hopeless, _) => Some(Step::GiveUp),
      (Swept::Clean | Swept::Again, _) => Some(Step::Wait),
    }
  }

  /// A kill that is not ours may be anybody's; the kernel's own for memory was counted before it was sent.
  fn ran_out_of_memory(&self, exit: How, context: &Context<'_>) -> bool {
    exit == How::Signaled(SIGKILL)
      && self.memory_kills.zip(context.memory_kills.count()).is_some_and(|(before, now)| now > before)
  }

  fn report_end(&mut self, exit: How, killed: u32, context: &mut Context<'_>) {
    let [output, error] = &mut self.outputs;
    let over = output.drain() | error.drain();
    let exit = if self.ran_out_of_memory(exit, context) { How::OutOfMemory } else { exit };
    let how = self.cause.unwrap_or(if over { How::OutputLimit } else { exit });
    let micros = context.now.saturating_duration_since(self.born).as_micros();
    let end = CommandEnd { how, killed, micros: u64::try_from(micros).unwrap_or(u64::MAX) };
    context.link.say(self.op, &ToHost::Exited(end));
    self.phase = Phase::Draining(end);
  }
}
