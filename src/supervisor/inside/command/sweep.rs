//! Ending all that came from a command: what carries its tag.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::super::system::limits::{Tag, tag};

/// A command that is not gone after this long takes everything with it.
const PATIENCE: Duration = Duration::from_secs(5);
/// And after twice as long the container ends.
const LAST: Duration = Duration::from_secs(10);
/// What is killed and not gone by then may have a tracer, which hides its end from us.
const TRACER_AFTER: Duration = Duration::from_millis(200);
/// How soon to look again; killed processes need a moment to go, and longer under a quota.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// The line that says who traces a process is among the first ten of its status file.
const STATUS: usize = 1024;
/// Killed processes are told apart up to this many; a fork bomb makes more.
const MOST_COUNTED: usize = 4096;

/// The processes of the container.
pub struct Processes {
  proc: OwnedFd,
  room: Box<[MaybeUninit<u8>]>,
}

impl Processes {
  /// Opens `/proc`, which must be this container's.
  pub fn open() -> Result<Self, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open("/proc", flags, Mode::empty())?;
    Ok(Self { proc, room: vec![MaybeUninit::uninit(); 8192].into_boxed_slice() })
  }

  /// Calls `visit` with each process but the first.
  fn each(&mut self, mut visit: impl FnMut(i32)) -> Result<(), Errno> {
    rustix::fs::seek(&self.proc, SeekFrom::Start(0))?;
    let mut entries = RawDir::new(&self.proc, &mut self.room);
    while let Some(entry) = entries.next() {
      let entry = entry?;
      let number = entry.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok());
      if let Some(pid) = number.filter(|pid| *pid > 1) {
        visit(pid);
      }
    }
    Ok(())
  }

  /// Kills what carries this tag and what has a broken one, and, where `free` says so, what traces the former. Says how
  /// many it found, the dead that nobody has collected yet among them.
  pub fn kill(&mut self, operation: u64, free: bool, mut found: impl FnMut(i32)) -> Result<Found, Errno> {
    let mut count = Found::default();
    self.each(|pid| match tag(pid) {
      Ok(Tag::Operation(of)) if of == operation => {
        count.tagged += 1;
        found(pid);
        kill(pid, |now| now == Tag::Operation(operation));
        if let Some(tracer) = Some(pid).filter(|_| free).and_then(tracer) {
          count.broken += 1;
          kill(tracer, |_| true);
        }
      }
      Ok(Tag::Broken) => {
        count.broken += 1;
        kill(pid, |now| now == Tag::Broken);
      }
      _ => {}
    })?;
    Ok(count)
  }
}

/// Who traces a process: our filter lets no command do it, but what an engine starts in here is not behind it. `None`:
/// nobody in this container, or the process is gone.
fn tracer(pid: i32) -> Option<i32> {
  let flags = OFlags::RDONLY | OFlags::CLOEXEC;
  let status = rustix::fs::open(format!("/proc/{pid}/status"), flags, Mode::empty()).ok()?;
  let mut room = [0; STATUS];
  let length = rustix::io::read(&status, &mut room).ok()?;
  let text = String::from_utf8_lossy(room.get(..length)?);
  let number = text.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
  number.trim().parse().ok().filter(|tracer| *tracer > 1)
}

/// What a scan found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
  tagged: u32,
  broken: u32,
}

/// Kills a process if it still is what it was: the descriptor holds on to it, so that the check and the kill are about
/// the same one.
fn kill(pid: i32, is_right: impl Fn(Tag) -> bool) {
  let Some(number) = Pid::from_raw(pid) else { return };
  match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
    Ok(process) => {
      if tag(pid).is_ok_and(&is_right) {
        let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
      }
    }
    Err(Errno::SRCH) => {}
    // No descriptor left: better without the certainty than not at all. All in here is one trust domain.
    Err(_) => {
      let _ = rustix::process::kill_process(number, Signal::KILL);
    }
  }
}

/// One command on its way out.
pub struct Sweep {
  began: Instant,
  next: Instant,
  pause: Duration,
  seen: Vec<i32>,
  broken: u32,
}

/// What a look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
  /// Its own process was collected, and nothing carries the tag any more.
  Clean,
  /// Look again later.
  Again,
  /// It has been too long: everything must go.
  Everything,
  /// Even that was of no use.
  Hopeless,
}

impl Sweep {
  /// Begins now.
  pub const fn new(now: Instant) -> Self {
    Self { began: now, next: now, pause: FIRST_PAUSE, seen: Vec::new(), broken: 0 }
  }

  /// When to look again at the latest.
  pub const fn next(&self) -> Instant {
    self.next
  }

  /// Different processes that were killed, without the command's own.
  pub fn killed(&self, leader: i32) -> u32 {
    self.seen.iter().filter(|pid| **pid != leader).count() as u32
  }

  /// Tracers and processes with broken tags that were killed since the last call.
  pub fn take_broken(&mut self) -> u32 {
    std::mem::take(&mut self.broken)
  }

  /// Kills what there is. `is_collected`: the command's own process, which may have died before it had a tag, is gone.
  pub fn look(
    &mut self,
    operation: u64,
    is_collected: bool,
    processes: &mut Processes,
    now: Instant,
  ) -> Swept {
    let seen = &mut self.seen;
    let since = now.saturating_duration_since(self.began);
    let found = processes.kill(operation, since >= TRACER_AFTER, |pid| {
      if seen.len() < MOST_COUNTED && !seen.contains(&pid) {
        seen.push(pid);
      }
    });
    if let Ok(found) = found {
      self.broken += found.broken;
      if found.tagged == 0 && is_collected {
        return Swept::Clean;
      }
    }
    self.next = now + self.pause;
    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    match since {
      long if long >= LAST => Swept::Hopeless,
      long if long >= PATIENCE => Swept::Everything,
      _ => Swept::Again,
    }
  }
}
