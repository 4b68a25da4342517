//! Who this process is, and whether another holder still lives: boot id, process id and start time together, since a
//! process id alone is used again, and only where it means the same process to both.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::clock::now_ms;
use crate::error::Result;
use crate::limits::HOLDER_SILENCE;
use crate::random;
use crate::store::lease::Holder;

/// Who made a container, as far as this environment can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
  /// A process that has ended.
  Dead,
  /// Another process that runs, or another environment of this one that is open.
  Alive,
  /// This environment, one of this process that is closed, or a process of another host; or nobody knows.
  Unknown,
}

/// What is known of the holder before, once it counts as none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Previous {
  /// It let go of the run.
  Nobody,
  /// Its process has ended.
  Dead,
  /// It has not been heard of; it may hang, and go on one day.
  Silent,
}

/// This process, as a holder of leases, and one environment of it, as a maker of containers.
#[derive(Clone, Debug)]
pub struct Host {
  /// The machine and the namespaces that process ids and start times are of; empty where they are not known.
  host_id: String,
  boot_id: String,
  pid: u32,
  start_time: u64,
  environment: u64,
}

/// The environments of this process that are open, by number. Their leases may be in stores of their own.
static OPEN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn open() -> MutexGuard<'static, BTreeSet<u64>> {
  // No code panics while it holds the lock, and a set is whole between two changes.
  OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An environment is open until this is dropped or closed.
#[derive(Debug)]
pub struct OpenMark(u64);

impl OpenMark {
  /// Nothing is made any more.
  pub fn close(&self) {
    open().remove(&self.0);
  }
}

impl Drop for OpenMark {
  fn drop(&mut self) {
    self.close();
  }
}

impl Host {
  /// Reads what the system says of this process, for a new environment of it.
  pub fn current() -> Self {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let pid = std::process::id();
    Self {
      host_id: host_id().unwrap_or_default(),
      boot_id: read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
      pid,
      start_time: start_time(pid).unwrap_or(0),
      environment: NEXT.fetch_add(1, Ordering::Relaxed),
    }
  }

  /// From now on other environments of this process leave to this one what it made.
  pub fn open(&self) -> OpenMark {
    open().insert(self.environment);
    OpenMark(self.environment)
  }

  /// A new holder of this process, with a heartbeat now.
  pub fn holder(&self) -> Result<Holder> {
    Ok(Holder {
      id: random::hex::<32>()?,
      host_id: self.host_id.clone(),
      boot_id: self.boot_id.clone(),
      pid: self.pid,
      start_time: self.start_time,
      heartbeat_at: now_ms(),
    })
  }

  /// This environment as a container's label names it; empty where it cannot be told from others. A machine's id is not for
  /// everybody to read (machine-id(5)), so the label has hashes.
  pub fn maker(&self) -> String {
    if self.is_unknown() {
      return String::new();
    }
    format!("{}:{}", self.process(), self.environment)
  }

  fn process(&self) -> String {
    format!("{}:{}:{}:{}", short_hash(&self.host_id), short_hash(&self.boot_id), self.pid, self.start_time)
  }

  /// What has become of who made what a label is on.
  pub fn maker_state(&self, label: &str) -> Maker {
    let parts: Vec<&str> = label.split(':').collect();
    // Earlier versions named the process alone.
    let ([host, boot, pid, start, _] | [host, boot, pid, start]) = parts.as_slice() else {
      return Maker::Unknown;
    };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse()) else { return Maker::Unknown };
    if self.is_unknown() || *boot != short_hash(&self.boot_id) {
      return Maker::Unknown;
    }
    if *host != short_hash(&self.host_id) {
      // Earlier versions named the machine alone: enough to know a process that is there, not one that is gone.
      let machine = self.host_id.split(' ').next().unwrap_or_default();
      let is_there = *host == short_hash(machine) && has_ended(pid, start) == Some(false);
      return if is_there { Maker::Alive } else { Maker::Unknown };
    }
    let same = label.strip_prefix(&self.process()).filter(|rest| rest.is_empty() || rest.starts_with(':'));
    if let Some(environment) = same {
      let number = environment.strip_prefix(':').and_then(|number| number.parse().ok());
      let other = number.is_some_and(|number| number != self.environment && open().contains(&number));
      return if other { Maker::Alive } else { Maker::Unknown };
    }
    match has_ended(pid, start) {
      Some(true) => Maker::Dead,
      Some(false) => Maker::Alive,
      None => Maker::Unknown,
    }
  }

  fn is_unknown(&self) -> bool {
    self.host_id.is_empty() || self.boot_id.is_empty() || self.start_time == 0
  }

  /// Nobody, a process of this host that has ended, or one that has been silent for too long.
  pub fn is_free(&self, holder: Option<&Holder>, now: u64) -> bool {
    let Some(holder) = holder else { return true };
    let silence = u64::try_from(HOLDER_SILENCE.as_millis()).unwrap_or(u64::MAX);
    now.saturating_sub(holder.heartbeat_at) > silence || self.is_dead(holder)
  }

  /// What is known of a holder that is free by [`Self::is_free`].
  pub fn previous(&self, holder: Option<&Holder>) -> Previous {
    match holder {
      None => Previous::Nobody,
      Some(holder) if self.is_dead(holder) => Previous::Dead,
      Some(_) => Previous::Silent,
    }
  }

  /// Only processes of the same boot of the same host can be looked up. Another boot is no proof: machines that were made of
  /// one image may have one machine id, and whoever was there before a boot is silent anyway.
  fn is_dead(&self, holder: &Holder) -> bool {
    let here = !self.is_unknown() && (&self.host_id, &self.boot_id) == (&holder.host_id, &holder.boot_id);
    here && has_ended(holder.pid, holder.start_time) == Some(true)
  }
}

fn read(path: &str) -> Option<String> {
  let text = std::fs::read_to_string(path).ok()?.trim().to_owned();
  (!text.is_empty()).then_some(text)
}

/// Containers of one image may have one machine id, and process 7 of one is not process 7 of another: the namespaces belong
/// to it. Without a machine id (not Linux, a bare container), or where `/proc` is of another namespace, nothing is known of
/// processes elsewhere: they are taken for alive until they are silent.
fn host_id() -> Option<String> {
  let namespace = |name: &str| {
    let link = std::fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
    Some(link.to_str()?.to_owned())
  };
  let own = std::fs::read_link("/proc/self").ok()?;
  if own.to_str() != Some(std::process::id().to_string().as_str()) {
    return None;
  }
  // Kernels before 5.6 have no namespaces of time.
  let time = namespace("time").unwrap_or_default();
  Some(format!("{} {} {time}", read("/etc/machine-id")?, namespace("pid")?))
}

/// Whether the process with this id and start time has ended; `None` where nobody can tell: `/proc` may be mounted so that it
/// shows no other user's processes (`hidepid`), and then not process 1 either.
fn has_ended(pid: u32, start: u64) -> Option<bool> {
  match start_time(pid) {
    Some(found) => Some(found != start),
    None => start_time(1).map(|_seen| true),
  }
}

fn short_hash(text: &str) -> String {
  let mut hex = hex::encode(Sha256::digest(text.as_bytes()));
  hex.truncate(16);
  hex
}

/// Clock ticks between boot and the start of a process (proc(5), field 22 of `stat`).
fn start_time(pid: u32) -> Option<u64> {
  let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
  // The name in brackets may hold anything, brackets and spaces included; the fields behind it start at the third.
  stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_living_hold_and_the_dead_do_not() {
    let host = Host { host_id: "h".into(), boot_id: "b".into(), pid: std::process::id(), ..Host::current() };
    let (now, mine) = (now_ms(), host.holder().unwrap());
    assert!(host.is_free(None, now));
    assert!(!host.is_free(Some(&mine), now));
    let silent = Holder { heartbeat_at: now - 20_001, ..mine.clone() };
    assert!(host.is_free(Some(&silent), now));
    let brink = Holder { heartbeat_at: now - 20_000, ..mine.clone() };
    assert!(!host.is_free(Some(&brink), now));
    assert_eq!([host.previous(None), host.previous(Some(&silent))], [Previous::Nobody, Previous::Silent]);
    let reused_pid = Holder { start_time: mine.start_time + 1, ..mine.clone() };
    assert!(host.is_free(Some(&reused_pid), now));
    assert_eq!(host.previous(Some(&reused_pid)), Previous::Dead);
    // Of a machine with the same id, for all that anybody knows.
    let another_boot = Holder { boot_id: "other".into(), ..reused_pid.clone() };
    assert!(!host.is_free(Some(&another_boot), now));
    assert_eq!(host.previous(Some(&another_boot)), Previous::Silent);
    assert!(host.is_free(Some(&Holder { heartbeat_at: now - 20_001, ..another_boot }), now));
    let elsewhere = Holder { host_id: "other".into(), pid: u32::MAX, ..mine.clone() };
    assert!(!host.is_free(Some(&elsewhere), now));
    let ahead = Holder { heartbeat_at: now + 3_600_000, ..mine };
    assert!(!host.is_free(Some(&ahead), now));
  }

  #[test]
  fn a_host_is_a_machine_and_the_namespaces_of_its_processes() {
    let host_id = host_id().unwrap();
    let (machine, namespaces) = host_id.split_once(' ').unwrap();
    assert_eq!(machine, read("/etc/machine-id").unwrap());
    let link =
      |name| std::fs::read_link(format!("/proc/self/ns/{name}")).map(|link| link.display().to_string());
    assert_eq!(namespaces, format!("{} {}", link("pid").unwrap(), link("time").unwrap_or_default()));
    // Earlier versions had the machine's id alone on record, which says nothing of what a process id means.
    let host = Host::current();
    let mine = host.holder().unwrap();
    let gone = Holder { pid: u32::MAX, ..mine };
    assert_eq!(host.previous(Some(&gone)), Previous::Dead);
    let of_earlier = Holder { host_id: machine.to_owned(), ..gone };
    assert_eq!(host.previous(Some(&of_earlier)), Previous::Silent);
    let maker = |host_id: &str, pid| Host { host_id: host_id.to_owned(), pid, ..host.clone() }.maker();
    assert_eq!(host.maker_state(&maker(&host.host_id, u32::MAX)), Maker::Dead);
    assert_eq!(host.maker_state(&maker(machine, u32::MAX)), Maker::Unknown);
    assert_eq!(host.maker_state(&maker(machine, host.pid)), Maker::Alive);
  }

  #[test]
  fn another_environment_of_this_process_is_alive_while_it_is_open() {
    let host = Host { host_id: "h".into(), boot_id: "b".into(), pid: std::process::id(), ..Host::current() };
    let sibling = Host { environment: u64::MAX, ..host.clone() };
    assert_eq!(host.maker_state(&sibling.maker()), Maker::Unknown);
    let mark = sibling.open();
    assert_eq!(host.maker_state(&sibling.maker()), Maker::Alive);
    assert_eq!(sibling.maker_state(&sibling.maker()), Maker::Unknown);
    drop(mark);
    assert_eq!(host.maker_state(&sibling.maker()), Maker::Unknown);
  }

  #[test]
  fn a_maker_is_known_by_host_boot_pid_and_start_time() {
    let host = Host { host_id: "h".into(), boot_id: "b".into(), pid: std::process::id(), ..Host::current() };
    assert_eq!(host.maker_state(&host.maker()), Maker::Unknown);
    assert!(!host.maker().contains("h:b"), "the ids themselves are not told");
    // One of an earlier version.
    assert_eq!(host.maker_state(&host.process()), Maker::Unknown);
    // Seen from another process, this one lives.
    let other = Host { pid: u32::MAX, ..host.clone() };
    assert_eq!(other.maker_state(&host.maker()), Maker::Alive);
    let reused_pid = Host { start_time: host.start_time + 1, ..host.clone() };
    assert_eq!(host.maker_state(&reused_pid.maker()), Maker::Dead);
    assert_eq!(host.maker_state(&other.maker()), Maker::Dead);
    let another_boot = Host { boot_id: "other".into(), ..other.clone() };
    assert_eq!(host.maker_state(&another_boot.maker()), Maker::Unknown);
    let elsewhere = Host { host_id: "other".into(), ..host.clone() };
    assert_eq!(host.maker_state(&elsewhere.maker()), Maker::Unknown);
    assert_eq!(Host { host_id: String::new(), ..host.clone() }.maker(), "");
    for odd in ["", ":::", "a:b:c:d", "1:2:3", "1:2:3:4:5", "1:2:3:4:5:6"] {
      assert_eq!(host.maker_state(odd), Maker::Unknown, "{odd}");
    }
  }
}
