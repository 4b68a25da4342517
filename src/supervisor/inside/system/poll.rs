//! Waiting for descriptors.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::last_error;

/// Something may be read, or the other end is closed.
pub const READ: i16 = libc::POLLIN;
/// Something may be written, or nobody will read it any more.
pub const WRITE: i16 = libc::POLLOUT;

/// What is waited for, with a number for each so that its owner finds it. The memory is used again and again.
pub struct PollSet {
  entries: Vec<libc::pollfd>,
  owners: Vec<usize>,
}

impl PollSet {
  /// An empty set with room for `count`.
  pub fn with_capacity(count: usize) -> Self {
    Self { entries: Vec::with_capacity(count), owners: Vec::with_capacity(count) }
  }

  /// Forgets all.
  pub fn clear(&mut self) {
    self.entries.clear();
    self.owners.clear();
  }

  /// Waits for `events` of `fd`. What is closed while it is in the set is not touched, only reported.
  pub fn add(&mut self, fd: BorrowedFd<'_>, events: i16, owner: usize) {
    self.entries.push(libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
    self.owners.push(owner);
  }

  /// Waits for at most `timeout_ms` milliseconds; -1: for ever. A signal ends it early.
  pub fn wait(&mut self, timeout_ms: i32) -> Result<(), Errno> {
    let count = self.entries.len() as libc::nfds_t;
    // SAFETY: the pointer and the count are those of a live vector.
    #[expect(unsafe_code, reason = "rustix wants borrowed descriptors, which a set that is kept cannot hold")]
    let result = unsafe { libc::poll(self.entries.as_mut_ptr(), count, timeout_ms) };
    match result {
      -1 if last_error() != Errno::INTR => Err(last_error()),
      _ => Ok(()),
    }
  }

  /// Owners of what is ready.
  pub fn ready(&self) -> impl Iterator<Item = usize> {
    self.entries.iter().zip(&self.owners).filter(|(entry, _)| entry.revents != 0).map(|(_, owner)| *owner)
  }
}
