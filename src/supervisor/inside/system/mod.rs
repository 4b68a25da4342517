//! System calls that rustix does not have, each a small function whose safety can be seen.

pub mod child;
pub mod domain;
pub mod filter;
pub mod image;
pub mod limits;
pub mod peer;
pub mod poll;
pub mod signals;

use rustix::io::Errno;

/// The error number that libc left behind.
fn last_error() -> Errno {
  Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
