//! Resource limits, and the tags that are kept in them.
//!
//! Two limits that the kernel no longer enforces carry an operation's number: hard LOCKS is `n`, hard RSS is `SUM - n`.
//! Everything that a process starts inherits them, whatever it does with sessions, groups, parents or its environment.
//! A hard limit can be lowered, not raised: whoever lowers one cannot raise the other to match.

use rustix::io::Errno;

use super::last_error;

/// What libc calls a limit's number.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// What the two numbers of a tag add up to: far beyond any number of operations, far below "unlimited".
const SUM: u64 = 1 << 48;

/// What the tag of a process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
  /// It belongs to this operation.
  Operation(u64),
  /// It never had one: not started by us (a `docker exec`), or not as far yet.
  None,
  /// It had one and changed it.
  Broken,
}

/// Reads the tag of a process. An error: it is gone, or not of our user.
pub fn tag(pid: i32) -> Result<Tag, Errno> {
  let locks = hard(pid, libc::RLIMIT_LOCKS)?;
  let rss = hard(pid, libc::RLIMIT_RSS)?;
  Ok(match (locks, rss) {
    // RSS is set last and cannot be raised again: who has none never had a whole tag.
    (_, libc::RLIM_INFINITY) => Tag::None,
    (n, rest) if n < SUM && n + rest.min(SUM) == SUM => Tag::Operation(n),
    _ => Tag::Broken,
  })
}

/// Gives the calling process the tag of an operation, for itself and all that come from it.
pub fn set_tag(operation: u64) -> Result<(), Errno> {
  set(libc::RLIMIT_LOCKS, operation)?;
  set(libc::RLIMIT_RSS, SUM - operation.min(SUM))
}

/// Sets soft and hard limit of the calling process.
fn set(resource: Resource, value: u64) -> Result<(), Errno> {
  let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
  // SAFETY: the limit is a valid structure that outlives the call.
  #[expect(unsafe_code, reason = "resources that rustix does not name")]
  let result = unsafe { libc::setrlimit(resource, &raw const limit) };
  if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Lowers a limit of the calling process; one that is lower stays.
fn lower(resource: Resource, value: u64) -> Result<(), Errno> {
  set(resource, value.min(hard(0, resource)?))
}

/// Hard limit of a process; 0 is the caller.
fn hard(pid: i32, resource: Resource) -> Result<u64, Errno> {
  let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
  // SAFETY: nothing is set; what is read goes into a valid structure that outlives the call.
  #[expect(unsafe_code, reason = "rustix cannot read the limits of another process")]
  let result = unsafe { libc::prlimit(pid, resource, std::ptr::null(), &raw mut limit) };
  if result == 0 { Ok(limit.rlim_max) } else { Err(last_error()) }
}

/// Limits of a command that the supervisor itself does not have.
pub fn for_command() -> Result<(), Errno> {
  lower(libc::RLIMIT_NOFILE, 1024)?;
  // No archive of ours could hold a larger file.
  lower(libc::RLIMIT_FSIZE, crate::limits::MAX_ARCHIVE_FILE_BYTES)
}

/// Limits of the supervisor and so of all commands, once its memory is locked. Each bounds something that the kernel
/// counts for a user in all containers together, or that would write outside the workspace.
pub fn for_all() -> Result<(), Errno> {
  // 1 and not 0: with 0 a pipe in `core_pattern` still gets the dump (`core(5)`).
  lower(libc::RLIMIT_CORE, 1)?;
  lower(libc::RLIMIT_SIGPENDING, 256)?;
  lower(libc::RLIMIT_MSGQUEUE, 0)?;
  lower(libc::RLIMIT_MEMLOCK, 64 * 1024)?;
  lower(libc::RLIMIT_RTPRIO, 0)?;
  lower(libc::RLIMIT_NICE, 0)
}

/// As many descriptors as may be had.
pub fn raise_descriptors() -> Result<(), Errno> {
  set(libc::RLIMIT_NOFILE, hard(0, libc::RLIMIT_NOFILE)?)
}

/// Sets limits of process 1 to what they are: an attack that must fail.
pub fn attack_process_1() -> Result<(), Errno> {
  let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
  // SAFETY: nothing is set; what is read goes into a valid structure that outlives the call.
  #[expect(unsafe_code, reason = "rustix cannot read the limits of another process")]
  let read = unsafe { libc::prlimit(1, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) };
  if read != 0 {
    return Err(last_error());
  }
  // SAFETY: both structures are valid; the values are the ones that were read.
  #[expect(unsafe_code, reason = "the attack is the system call itself")]
  let set = unsafe { libc::prlimit(1, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) };
  if set == 0 { Ok(()) } else { Err(last_error()) }
}
