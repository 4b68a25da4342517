//! The one loop.

mod greeting;
mod obey;

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::WaitOptions;

use super::bridge::Door;
use super::channels::Channels;
use super::command::{Launcher, Processes};
use super::files::Workspace;
use super::link::Link;
use super::memory::MemoryKills;
use super::operations::{Context, Operations};
use super::system::poll::{PollSet, READ, WRITE};
use super::wires::Wires;
use crate::supervisor::wire::{
  Capability, Decoder, Kind, MAX_ACTIVE, MAX_CHANNELS, Notice, Reply, SelfTest, ToHost, ToInside, Welcome,
};
use obey::obey;

/// Owners in the poll set that are no operations.
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const CHILDREN: usize = 2;
/// The end of a bridged stream.
const BRIDGE: usize = 3;
const DOOR: usize = 4;
/// Connections to the proxy that wait to be taken.
const LISTENER: usize = 5;
const FIRST_OPERATION: usize = 6;
/// Behind every operation that there can be, the supervisor's own included.
const FIRST_CHANNEL: usize = FIRST_OPERATION + MAX_ACTIVE + 1;
/// Reads of the control stream before the operations have their turn.
const READS_A_TURN: usize = 8;

/// Process 1.
pub struct Supervisor {
  wires: Wires,
  door: Option<Door>,
  decoder: Decoder,
  /// Frames may wait in the decoder for the holder to read.
  backlog: bool,
  link: Link,
  operations: Operations,
  channels: Channels,
  workspace: Workspace,
  launcher: Launcher,
  processes: Processes,
  memory_kills: MemoryKills,
  children: OwnedFd,
  capabilities: u64,
  self_test: Option<SelfTest>,
  /// A hello was accepted that has had no answer, since the self-test goes on.
  owes_welcome: bool,
  set: PollSet,
}

/// What it is made of.
pub struct Parts {
  /// Where the control stream runs.
  pub wires: Wires,
  /// The control stream.
  pub link: Link,
  /// Where other streams come in; `None`: they cannot.
  pub door: Option<Door>,
  /// The files.
  pub workspace: Workspace,
  /// How processes are made.
  pub launcher: Launcher,
  /// The processes there are.
  pub processes: Processes,
  /// Kills for memory.
  pub memory_kills: MemoryKills,
  /// Readable when a process has ended.
  pub children: OwnedFd,
  /// A set of [`Capability`].
  pub capabilities: u64,
}

/// Why the loop ends. The container ends with it, and the engine shows the code.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
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
  pub fn new(parts: Parts) -> Self {
    let Parts { wires, link, door, workspace, launcher, processes, memory_kills, children, capabilities } =
      parts;
    Self {
      wires,
      door,
      decoder: Decoder::for_supervisor(),
      backlog: false,
      link,
      operations: Operations::new(),
      channels: Channels::new(),
      workspace,
      launcher,
      processes,
      memory_kills,
      children,
      capabilities,
      self_test: None,
      owes_welcome: false,
      // Besides the operations' and our own: what the candidates at the door wait for.
      set: PollSet::with_capacity(2 * FIRST_OPERATION + 4 * MAX_ACTIVE + MAX_CHANNELS),
    }
  }

  /// One more thing that it can.
  pub const fn add_capability(&mut self, capability: Capability) {
    self.capabilities |= capability as u64;
  }

  /// Runs until there is a reason to end.
  pub fn run(mut self) -> ExitCode {
    self.begin();
    loop {
      if let Err(end) = self.turn() {
        let _ = self.link.flush(self.wires.output());
        return ExitCode::from(end as u8);
      }
    }
  }

  /// What comes before the first turn: the attacks of the self-test.
  pub(super) fn begin(&mut self) {
    let (operations, mut context) = self.split(Instant::now());
    if let Some(reply) = operations.open_self_test(&mut context) {
      self.self_tested(reply);
    }
  }

  /// Waits until something happens, and does what it calls for.
  pub(super) fn turn(&mut self) -> Result<(), End> {
    self.wait()?;
    let (mut input, mut children, mut over, mut knock, mut connect) = (false, false, false, false, false);
    for owner in self.set.ready() {
      match owner {
        INPUT => input = true,
        OUTPUT => {}
        LISTENER => connect = true,
        DOOR => knock = true,
        BRIDGE => over = true,
        CHILDREN => children = true,
        FIRST_CHANNEL.. => self.channels.wake(owner - FIRST_CHANNEL),
        _ => self.operations.wake(owner - FIRST_OPERATION),
      }
    }
    if children {
      self.collect();
    }
    if over {
      self.lost()?;
    } else if input || self.has_backlog() {
      self.read()?;
    }
    if knock || self.door.as_ref().is_some_and(Door::is_occupied) {
      self.attend_door();
    }
    self.work()?;
    self.channels.turn(connect, &mut self.link, Instant::now());
    self.flush()?;
    if self.link.dead_man_at().is_some_and(|at| Instant::now() >= at) { Err(End::DeadMan) } else { Ok(()) }
  }

  fn wait(&mut self) -> Result<(), End> {
    self.set.clear();
    if !self.link.is_full() {
      self.set.add(self.wires.input(), READ, INPUT);
    }
    if self.link.wants_to_write() && self.link.hints_due().is_none() {
      self.set.add(self.wires.output(), WRITE, OUTPUT);
    }
    if let Some(end) = self.wires.end() {
      self.set.add(end, READ, BRIDGE);
    }
    if let Some(door) = &self.door {
      door.wait(&mut self.set, DOOR);
    }
    self.set.add(self.children.as_fd(), READ, CHILDREN);
    self.operations.wait(&mut self.set, FIRST_OPERATION, &self.link);
    self.channels.wait(&mut self.set, LISTENER, FIRST_CHANNEL, &self.link);
    let awake = self.operations.are_awake() || self.channels.are_awake();
    let busy = (awake && self.link.has_room()) || self.has_backlog();
    self.set.wait(if busy { 0 } else { self.timeout_ms() }).map_err(|_| End::Kernel)
  }

  // Rounded up: a timer that fires a little early would be asked again and again until it is due.
  fn timeout_ms(&self) -> i32 {
    let door = self.door.as_ref().and_then(Door::due);
    let channels = self.channels.due(&self.link);
    let due = [self.operations.due(), self.link.dead_man_at(), self.link.hints_due(), door, channels];
    let due = due.into_iter().flatten().min();
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

  /// Whether frames wait that can be obeyed now.
  const fn has_backlog(&self) -> bool {
    self.backlog && !self.link.is_full()
  }

  fn read(&mut self) -> Result<(), End> {
    self.frames()?;
    for _ in 0..READS_A_TURN {
      if self.backlog {
        return Ok(());
      }
      let space = self.decoder.space();
      let room = space.len();
      let count = match rustix::io::read(self.wires.input(), space) {
        Ok(count @ 1..) => count,
        Err(Errno::AGAIN) => return Ok(()),
        Err(Errno::INTR) => continue,
        Ok(_) | Err(_) => return self.lost(),
      };
      self.decoder.filled(count);
      self.frames()?;
      // A read that was not filled emptied the pipe.
      if count < room {
        return Ok(());
      }
    }
    Ok(())
  }

  fn flush(&mut self) -> Result<(), End> {
    if !self.link.must_write(Instant::now()) {
      return Ok(());
    }
    self.link.flush(self.wires.output()).or_else(|_| self.lost())
  }

  fn frames(&mut self) -> Result<(), End> {
    self.backlog = false;
    loop {
      if self.link.is_full() {
        self.backlog = true;
        break;
      }
      let Some(frame) = self.decoder.next_frame() else { break };
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
          channels: &mut self.channels,
          memory_kills: &self.memory_kills,
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
      channels: &mut self.channels,
      memory_kills: &self.memory_kills,
      now,
    };
    (&mut self.operations, context)
  }
}
