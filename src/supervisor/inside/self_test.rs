//! The attacks that must fail on process 1, tried from behind everything that a command is behind.
//!
//! Under some runtimes they get through (gVisor lets the same user write into the control stream): then this
//! supervisor protects nothing, and the host must know before it runs a command.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, WaitStatus};

use super::operations::{Context, Step, failed};
use super::system::{child::attack, limits};
use crate::supervisor::wire::{Failure, Reply, SelfTest};

/// The attacks take a fraction of a millisecond; one that hangs is one that was not tried.
const DEADLINE: Duration = Duration::from_secs(5);

/// A child that attacks.
pub struct Attack {
  pid: i32,
  pidfd: OwnedFd,
  until: Instant,
  result: Option<SelfTest>,
}

impl Attack {
  /// Starts it.
  pub fn start(tag: u64, context: &mut Context<'_>) -> Result<Self, Reply> {
    let (pid, pidfd) = context
      .launcher
      .start_attack(tag, all)
      .map_err(|error| failed(Failure::System, error.raw_os_error()))?;
    Ok(Self { pid, pidfd, until: context.now + DEADLINE, result: None })
  }

  /// Its process.
  pub const fn pid(&self) -> i32 {
    self.pid
  }

  /// It was collected: its exit code is the set of attacks that got through.
  pub fn ended(&mut self, status: WaitStatus) {
    let all = (1 << SelfTest::ATTACKS.len()) - 1;
    self.result = Some(match status.exit_status().and_then(|code| u32::try_from(code).ok()) {
      Some(succeeded) if succeeded <= all => SelfTest { tried: all, succeeded },
      _ => SelfTest { tried: 0, succeeded: 0 },
    });
  }

  /// When it is too late.
  pub const fn due(&self) -> Instant {
    self.until
  }

  /// Whether it is over.
  pub fn step(&mut self, now: Instant) -> Step {
    if let Some(result) = self.result {
      return Step::Done(Reply::SelfTest(result));
    }
    if now >= self.until {
      let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
      self.until = now + DEADLINE;
    }
    Step::Wait
  }
}

/// All attacks, in the order of [`SelfTest::ATTACKS`]; the bits of those that got through.
fn all() -> u8 {
  let attacks = [
    opens("/proc/1/fd/1", OFlags::WRONLY | OFlags::NONBLOCK),
    opens("/proc/1/environ", OFlags::RDONLY),
    opens("/proc/1/mem", OFlags::RDWR),
    // The kernel says yes and drops it. Where it does not drop it, nobody is left to say so, which says it too.
    kill_and_survive(),
    limits::attack_process_1().is_ok(),
    attack::trace(),
    takes_descriptor(),
  ];
  attacks.iter().enumerate().fold(0, |bits, (bit, succeeded)| bits | u8::from(*succeeded) << bit)
}

fn opens(path: &str, flags: OFlags) -> bool {
  rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

fn kill_and_survive() -> bool {
  if let Some(first) = Pid::from_raw(1) {
    let _ = rustix::process::kill_process(first, Signal::KILL);
  }
  false
}

fn takes_descriptor() -> bool {
  let process =
    Pid::from_raw(1).and_then(|first| rustix::process::pidfd_open(first, PidfdFlags::empty()).ok());
  process.is_some_and(|process| attack::take_descriptor(std::os::fd::AsFd::as_fd(&process)))
}
