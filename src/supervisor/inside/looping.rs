//! The one loop.

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::WaitOptions;

use super::command::{Launcher, Processes};
use super::files::Workspace;
use super::link::{Greeting, Link};
use super::operations::{Context, Operations};
use super::system::poll::{PollSet, READ, WRITE};
use crate::supervisor::wire::{
  Capability, Decoder, Frame, Hello, Kind, MAX_ACTIVE, Notice, Reply, SelfTest, ToHost, ToInside, Welcome,
};

/// Owners in the poll set that are no operations.
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const CHILDREN: usize = 2;
const FIRST_OPERATION: usize = 3;
/// Reads of the control stream before the operations have their turn.
const READS_A_TURN: usize = 8;

/// Process 1.
pub struct Supervisor {
  decoder: Decoder,
  link: Link,
  operations: Operations,
  workspace: Workspace,
  launcher: Launcher,
  processes: Processes,
  children: OwnedFd,
  capabilities: u64,
  self_test: Option<SelfTest>,
  /// A hello was accepted that has had no answer, since the self-test goes on.
  owes_welcome: bool,
  set: PollSet,
}

/// Why the loop ends. The container ends with it, and the engine shows the code.
#[derive(Clone, Copy, Debug)]
enum End {
  /// The host said so.
  Shutdown = 0,
  /// Nobody can reach it any more.
  Unreachable = 83,
  /// The holder has been silent for too long.
  DeadMan = 84,
  /// Processes are left that nothing ends.
  Unkillable = 85,
  /// The kernel refused to wait.
  Kernel = 86,
}

impl Supervisor {
  /// Everything is there but a holder.
  pub fn new(
    link: Link,
    workspace: Workspace,
    launcher: Launcher,
    processes: Processes,
    children: OwnedFd,
    capabilities: u64,
  ) -> Self {
    Self {
      decoder: Decoder::for_supervisor(),
      link,
      operations: Operations::new(),
      workspace,
      launcher,
      processes,
      children,
      capabilities,
      self_test: None,
      owes_welcome: false,
      set: PollSet::with_capacity(FIRST_OPERATION + 4 * MAX_ACTIVE),
    }
  }

  /// One more thing that it can.
  pub const fn add_capability(&mut self, capability: Capability) {
    self.capabilities |= capability as u64;
  }

  /// Runs until there is a reason to end.
  pub fn run(mut self) -> ExitCode {
    let (operations, mut context) = self.split(Instant::now());
    if let Some(reply) = operations.open_self_test(&mut context) {
      self.self_tested(reply);
    }
    loop {
      if let Err(end) = self.turn() {
        let _ = self.link.flush();
        return ExitCode::from(end as u8);
      }
    }
  }

  fn turn(&mut self) -> Result<(), End> {
    self.wait()?;
    let (mut input, mut children) = (false, false);
    for owner in self.set.ready() {
      match owner {
        INPUT => input = true,
        OUTPUT => {}
        CHILDREN => children = true,
        _ => self.operations.wake(owner - FIRST_OPERATION),
      }
    }
    if children {
      self.collect();
    }
    if input {
      self.read()?;
    }
    self.work()?;
    self.link.flush().map_err(|_| End::Unreachable)?;
    if self.link.dead_man_at().is_some_and(|at| Instant::now() >= at) { Err(End::DeadMan) } else { Ok(()) }
  }

  fn wait(&mut self) -> Result<(), End> {
    self.set.clear();
    self.set.add(std::io::stdin().as_fd(), READ, INPUT);
    if self.link.wants_to_write() {
      self.set.add(std::io::stdout().as_fd(), WRITE, OUTPUT);
    }
    self.set.add(self.children.as_fd(), READ, CHILDREN);
    self.operations.wait(&mut self.set, FIRST_OPERATION, &self.link);
    let timeout = if self.operations.are_awake() && self.link.has_room() { 0 } else { self.timeout_ms() };
    self.set.wait(timeout).map_err(|_| End::Kernel)
  }

  // Rounded up: a timer that fires a little early would be asked again and again until it is due.
  fn timeout_ms(&self) -> i32 {
    let due = [self.operations.due(), self.link.dead_man_at()].into_iter().flatten().min();
    due.map_or(-1, |due| {
      let left = due.saturating_duration_since(Instant::now());
      i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
    })
  }

  /// Collects every process that ended; the signal is no more than a reason to look.
  fn collect(&mut self) {
    let mut hint = [0; 128];
    while rustix::io::read(&self.children, &mut hint).is_ok() {}
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
      self.operations.collected(pid.as_raw_nonzero().get(), status);
    }
    self.operations.wake_sweeping();
  }

  fn read(&mut self) -> Result<(), End> {
    for _ in 0..READS_A_TURN {
      match rustix::io::read(std::io::stdin(), self.decoder.space()) {
        Ok(0) => return Err(End::Unreachable),
        Ok(count) => self.decoder.filled(count),
        Err(Errno::AGAIN) => return Ok(()),
        Err(Errno::INTR) => continue,
        Err(_) => return Err(End::Unreachable),
      }
      self.frames()?;
    }
    Ok(())
  }

  fn frames(&mut self) -> Result<(), End> {
    while let Some(frame) = self.decoder.next_frame() {
      if frame.kind == Kind::Hello {
        let (key, fence) = (frame.key, frame.fence);
        let hello = match ToInside::decode(&frame) {
          Ok(ToInside::Hello(hello)) => Some(hello),
          _ => None,
        };
        self.greet(key, fence, hello);
      } else {
        let mut context = Context {
          link: &mut self.link,
          workspace: &self.workspace,
          launcher: &self.launcher,
          processes: &mut self.processes,
          now: Instant::now(),
        };
        obey(&frame, &mut self.operations, &mut context)?;
      }
    }
    let skipped = self.decoder.take_skipped();
    let notices =
      [(Notice::Garbage, skipped.bytes), (Notice::Stale, skipped.stale), (Notice::Ignored, skipped.unknown)];
    for (notice, count) in notices.into_iter().filter(|(_, count)| *count > 0) {
      self.link.mention(0, &ToHost::Notice(notice, count));
    }
    Ok(())
  }

  fn greet(&mut self, key: u64, fence: u64, hello: Option<Hello>) {
    if let Greeting::Accepted = self.link.greet(key, fence, hello) {
      self.decoder.bind(key, fence);
      self.owes_welcome = true;
      self.welcome();
    }
  }

  fn welcome(&mut self) {
    if let (true, Some(self_test)) = (self.owes_welcome, self.self_test) {
      self.owes_welcome = false;
      let (digest, operations) = (self.link.digest, self.operations.list());
      let welcome = Welcome { digest, capabilities: self.capabilities, self_test, operations };
      self.link.say(0, &ToHost::Welcome(welcome));
      self.operations.repeat(&mut self.link);
    }
  }

  fn self_tested(&mut self, reply: Reply) {
    let untried = SelfTest { tried: 0, succeeded: 0 };
    self.self_test = Some(if let Reply::SelfTest(result) = reply { result } else { untried });
    self.welcome();
  }

  fn work(&mut self) -> Result<(), End> {
    let (operations, mut context) = self.split(Instant::now());
    let turn = operations.turn(&mut context);
    if let Some(reply) = turn.own {
      self.self_tested(reply);
    }
    if turn.give_up {
      self.link.mention(0, &ToHost::Notice(Notice::Unkillable, 1));
      return Err(End::Unkillable);
    }
    Ok(())
  }

  const fn split(&mut self, now: Instant) -> (&mut Operations, Context<'_>) {
    let context = Context {
      link: &mut self.link,
      workspace: &self.workspace,
      launcher: &self.launcher,
      processes: &mut self.processes,
      now,
    };
    (&mut self.operations, context)
  }
}

/// Does what a frame of the holder says.
fn obey(frame: &Frame<'_>, operations: &mut Operations, context: &mut Context<'_>) -> Result<(), End> {
  let message = ToInside::decode(frame).ok();
  let op = frame.op;
  let obeyed = match &message {
    Some(ToInside::Heartbeat(number)) => {
      context.link.heard();
      context.link.mention(0, &ToHost::Heartbeat(*number));
      true
    }
    Some(ToInside::Shutdown) => return Err(End::Shutdown),
    Some(ToInside::Ack) => {
      operations.acknowledge(op);
      true
    }
    Some(ToInside::Data(data)) => {
      operations.take(op, data, context);
      true
    }
    Some(ToInside::End(_)) => {
      operations.end_input(op);
      true
    }
    Some(ToInside::Credit(credit)) => {
      operations.raise(op, *credit);
      true
    }
    Some(ToInside::Cancel) => {
      operations.cancel(op, context.now);
      true
    }
    Some(ToInside::Signal(number)) => {
      operations.signal(op, *number);
      true
    }
    request => is_request(frame.kind) && operations.open(op, frame.kind, request.as_ref(), context),
  };
  if !obeyed {
    context.link.mention(0, &ToHost::Notice(Notice::Ignored, 1));
  }
  Ok(())
}

const fn is_request(kind: Kind) -> bool {
  matches!(
    kind,
    Kind::ReadFile
      | Kind::WriteFile
      | Kind::List
      | Kind::Exec
      | Kind::TarOut
      | Kind::TarIn
      | Kind::SelfTest
      | Kind::Listen
      | Kind::Connect
  )
}
