//! Who is at the other end of a socket.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::last_error;

/// A process, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
  /// Its number in this container; 0: it is in none that we can see.
  pub pid: i32,
  /// Its effective user.
  pub uid: u32,
}

/// Who connected to a unix socket.
pub fn of(socket: BorrowedFd<'_>) -> Result<Peer, Errno> {
  let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
  let mut length = size_of::<libc::ucred>() as libc::socklen_t;
  // SAFETY: the structure and its length are valid and outlive the call, which writes at most that much.
  #[expect(unsafe_code, reason = "rustix's process number cannot be 0, which is what another namespace has")]
  let result = unsafe {
    libc::getsockopt(
      socket.as_raw_fd(),
      libc::SOL_SOCKET,
      libc::SO_PEERCRED,
      (&raw mut found).cast(),
      &raw mut length,
    )
  };
  if result == 0 { Ok(Peer { pid: found.pid, uid: found.uid }) } else { Err(last_error()) }
}
