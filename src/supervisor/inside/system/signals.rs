//! Signals: process 1 acts on SIGCHLD only, and on that only as a hint to look.

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::last_error;

/// Blocks SIGCHLD and gives a descriptor that becomes readable with it. All other signals keep the dispositions that
/// protect process 1: the kernel drops those that come from inside.
pub fn child_hints() -> Result<OwnedFd, Errno> {
  let set = only(libc::SIGCHLD);
  // SAFETY: the set is initialised and outlives both calls; the descriptor is new and nobody else's.
  #[expect(unsafe_code, reason = "rustix has no signalfd")]
  unsafe {
    if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
      return Err(last_error());
    }
    match libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) {
      -1 => Err(last_error()),
      fd => Ok(OwnedFd::from_raw_fd(fd)),
    }
  }
}

/// Gives every signal its default disposition, whatever was inherited, except that writing to a closed pipe is an error
/// and not an end.
pub fn settle() {
  for signal in 1..=64 {
    dispose(signal, libc::SIG_DFL);
  }
  for signal in LIBC_OWN {
    default_by_kernel(signal);
  }
  dispose(libc::SIGPIPE, libc::SIG_IGN);
}

/// Signals that glibc keeps for itself and refuses to change (`nptl`): they stay ignored in all that was started by one
/// of its `posix_spawn`s, an engine's runtime for example.
const LIBC_OWN: [libc::c_int; 2] = [32, 33];

fn default_by_kernel(signal: libc::c_int) {
  // All zero is the default disposition, no flags and an empty mask. The kernel's structure has 32 bytes on x86-64 and 24
  // on 64-bit ARM (`asm-generic/signal.h`).
  let action = [0u64; 4];
  // SAFETY: the kernel reads at most 32 bytes of it, and 8 is the length of its signal set.
  #[expect(unsafe_code, reason = "libc does not let these through")]
  unsafe {
    libc::syscall(libc::SYS_rt_sigaction, signal, action.as_ptr(), std::ptr::null_mut::<u64>(), 8);
  }
}

/// Gives a new process what a program expects: after [`settle`] only this is different.
pub fn reset() {
  dispose(libc::SIGPIPE, libc::SIG_DFL);
  let mut none = MaybeUninit::<libc::sigset_t>::uninit();
  // SAFETY: `sigemptyset` initialises the set before it is read.
  #[expect(unsafe_code, reason = "rustix has no sigprocmask")]
  unsafe {
    libc::sigemptyset(none.as_mut_ptr());
    libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
  }
}

fn dispose(signal: libc::c_int, disposition: libc::sighandler_t) {
  // SAFETY: no handler is set; signals that cannot be changed (9, 19, libc's own) are refused, which is fine.
  #[expect(unsafe_code, reason = "rustix has no sigaction")]
  unsafe {
    libc::signal(signal, disposition);
  }
}

/// Kills every process of the container but process 1.
pub fn kill_everything() -> Result<(), Errno> {
  // SAFETY: sends a signal; from process 1 of a pid namespace, -1 is everything else in it.
  #[expect(unsafe_code, reason = "rustix takes no -1")]
  let result = unsafe { libc::kill(-1, libc::SIGKILL) };
  if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn only(signal: libc::c_int) -> libc::sigset_t {
  let mut set = MaybeUninit::<libc::sigset_t>::uninit();
  // SAFETY: `sigemptyset` initialises the set before it is used.
  #[expect(unsafe_code, reason = "rustix has no signal sets")]
  unsafe {
    libc::sigemptyset(set.as_mut_ptr());
    libc::sigaddset(set.as_mut_ptr(), signal);
    set.assume_init()
  }
}
