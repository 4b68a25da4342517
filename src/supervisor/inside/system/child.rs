//! New processes: a plain fork with a descriptor for the child. Never vfork or `posix_spawn`: somebody who stops the
//! child between fork and exec would stop process 1 with it.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::last_error;

/// Where [`fork`] returned.
pub enum Forked {
  /// In the new process.
  Child,
  /// In the old one: the number of the new one, and a descriptor for it.
  Parent(i32, OwnedFd),
}

/// Splits the calling process, which has one thread.
pub fn fork() -> Result<Forked, Errno> {
  let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
  let mut pidfd: libc::c_int = -1;
  // SAFETY: without CLONE_VM the child has memory of its own, and no other thread can have held a lock; a null stack
  // means the same one. The kernel writes the descriptor where the third argument points. `clone` and not `clone3`,
  // which engines' filters refuse; the first three arguments are in the same places on both our architectures.
  #[expect(unsafe_code, reason = "rustix has no clone")]
  let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
  match pid {
    -1 => Err(last_error()),
    0 => Ok(Forked::Child),
    _ => {
      // SAFETY: the kernel made this descriptor for us.
      #[expect(unsafe_code, reason = "rustix has no clone")]
      let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
      Ok(Forked::Parent(i32::try_from(pid).map_err(|_| Errno::OVERFLOW)?, pidfd))
    }
  }
}

/// Ends the calling process at once, without anything that the standard library does at an end.
pub fn end(code: u8) -> ! {
  // SAFETY: takes a number and does not return.
  #[expect(unsafe_code, reason = "after fork nothing of the parent's may be flushed or run")]
  unsafe {
    libc::_exit(i32::from(code))
  }
}

/// Makes `from` the descriptor `to`, which survives exec. Both differ, since 0 to 2 are taken in the parent.
pub fn place(from: BorrowedFd<'_>, to: i32) -> Result<(), Errno> {
  // SAFETY: `from` is open; `to` is 0, 1 or 2, which belong to nobody in a new process.
  #[expect(unsafe_code, reason = "rustix wants an owner of the target")]
  let result = unsafe { libc::dup2(from.as_raw_fd(), to) };
  if result == to { Ok(()) } else { Err(last_error()) }
}

/// Nothing that is executed from here on can give privileges.
pub fn no_new_privileges() -> Result<(), Errno> {
  // SAFETY: takes numbers.
  #[expect(unsafe_code, reason = "not in the rustix features that we use")]
  let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
  if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Strings for the kernel: pointers, the last one null.
pub struct Vector<'a> {
  pointers: Vec<*const libc::c_char>,
  strings: std::marker::PhantomData<&'a CStr>,
}

impl<'a> Vector<'a> {
  /// Pointers to these strings.
  pub fn of(strings: impl Iterator<Item = &'a CStr>) -> Self {
    let pointers = strings.map(CStr::as_ptr).chain(std::iter::once(std::ptr::null())).collect();
    Self { pointers, strings: std::marker::PhantomData }
  }
}

/// Becomes another program; returns only if that fails.
pub fn execute(path: &CStr, argv: &Vector<'_>, env: &Vector<'_>) -> Errno {
  // SAFETY: the path ends with a NUL; both vectors end with null, and their strings outlive them by their lifetime.
  #[expect(unsafe_code, reason = "rustix has no safe execve")]
  unsafe {
    libc::execve(path.as_ptr(), argv.pointers.as_ptr(), env.pointers.as_ptr());
  }
  last_error()
}

/// Attacks on process 1 that are system calls of their own; `true`: it got through.
pub mod attack {
  use super::{AsRawFd, BorrowedFd};

  /// Attaches as a tracer.
  pub fn trace() -> bool {
    // SAFETY: asks for process 1, passes no pointers.
    #[expect(unsafe_code, reason = "the attack is the system call itself")]
    let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, 1, 0, 0) };
    result == 0
  }

  /// Takes a copy of its descriptor 1.
  pub fn take_descriptor(process: BorrowedFd<'_>) -> bool {
    // SAFETY: takes numbers.
    #[expect(unsafe_code, reason = "the attack is the system call itself")]
    let result = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), 1, 0) };
    result >= 0
  }
}
