//! The kernel's own count of processes that it killed in this container because memory ran out.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

/// Lines `oom_kill N` are in these files of the container's own group: cgroup v1, then v2 (the kernel's
/// `Documentation/admin-guide/cgroup-v1/memory.rst` and `cgroup-v2.rst`).
const FILES: [&str; 2] = ["/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events"];
/// `CGROUP_SUPER_MAGIC`, `CGROUP2_SUPER_MAGIC` (`linux/magic.h`). Where no such file system is mounted, a file of the
/// image may lie at its place.
const FILE_SYSTEMS: [u64; 2] = [0x0027_E0EB, 0x6367_7270];
/// Longer than either file.
const ROOM: usize = 1024;

/// The open counter.
pub struct MemoryKills(Option<OwnedFd>);

impl MemoryKills {
  /// Opens it, before anything of the container runs.
  pub fn open() -> Self {
    let found = FILES.into_iter().filter_map(open).find(|file| read(file).is_some());
    Self(found)
  }

  /// Whether it can be read.
  pub const fn is_there(&self) -> bool {
    self.0.is_some()
  }

  /// How many processes were killed so far; `None`: nobody knows. The kernel counts before it kills, so whoever learns
  /// of the death finds it counted.
  pub fn count(&self) -> Option<u64> {
    read(self.0.as_ref()?)
  }
}

fn open(path: &str) -> Option<OwnedFd> {
  let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).ok()?;
  let kind = rustix::fs::fstatfs(&file).ok()?.f_type;
  u64::try_from(kind).is_ok_and(|kind| FILE_SYSTEMS.contains(&kind)).then_some(file)
}

fn read(file: &OwnedFd) -> Option<u64> {
  let mut room = [0; ROOM];
  let length = rustix::io::pread(file, &mut room, 0).ok()?;
  parse(room.get(..length)?)
}

fn parse(text: &[u8]) -> Option<u64> {
  let text = std::str::from_utf8(text).ok()?;
  text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
  use super::parse;

  #[test]
  fn both_layouts_are_read_and_their_neighbours_are_not_taken_for_it() {
    assert_eq!(parse(b"oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), Some(7));
    assert_eq!(
      parse(b"low 0\nhigh 0\nmax 12\noom 3\noom_kill 18446744073709551615\noom_group_kill 2\n"),
      Some(u64::MAX)
    );
    for unknown in [&b""[..], b"oom_kill_disable 0\nunder_oom 0\n", b"oom_kill x\n", b"oom_kill\n", b"\xff\n"]
    {
      assert_eq!(parse(unknown), None);
    }
  }
}
