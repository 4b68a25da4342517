//! Landlock: a command cannot signal what is outside its own domain, nor connect to its abstract sockets.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::last_error;

/// First version of the interface that knows scopes (`landlock(7)`).
const FIRST_WITH_SCOPES: i64 = 6;
/// `LANDLOCK_CREATE_RULESET_VERSION`, `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL`
/// (`linux/landlock.h`).
const ASK_VERSION: u32 = 1;
const SCOPES: u64 = 1 | 2;

/// `struct landlock_ruleset_attr` as of version 6.
#[repr(C)]
struct Ruleset {
  handled_access_fs: u64,
  handled_access_net: u64,
  scoped: u64,
}

/// Whether this kernel and container allow it.
pub fn is_available() -> bool {
  create(None, ASK_VERSION).is_ok_and(|version| version >= FIRST_WITH_SCOPES)
}

/// Puts the calling process, which has no new privileges, into a domain of its own.
pub fn enter() -> Result<(), Errno> {
  let attributes = Ruleset { handled_access_fs: 0, handled_access_net: 0, scoped: SCOPES };
  let fd = i32::try_from(create(Some(&attributes), 0)?).map_err(|_| Errno::OVERFLOW)?;
  // SAFETY: the kernel made this descriptor for us just now.
  #[expect(unsafe_code, reason = "rustix has no Landlock")]
  let ruleset = unsafe { OwnedFd::from_raw_fd(fd) };
  // SAFETY: takes two numbers.
  #[expect(unsafe_code, reason = "rustix has no Landlock")]
  let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
  if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn create(attributes: Option<&Ruleset>, flags: u32) -> Result<i64, Errno> {
  let size = if attributes.is_some() { size_of::<Ruleset>() } else { 0 };
  let pointer = attributes.map_or(std::ptr::null(), std::ptr::from_ref);
  // SAFETY: the pointer is null with size 0, or a structure of that size that outlives the call.
  #[expect(unsafe_code, reason = "rustix has no Landlock")]
  let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, pointer, size, flags) };
  if result >= 0 { Ok(result) } else { Err(last_error()) }
}
