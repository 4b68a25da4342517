//! A fresh stream for a holder to whom process 1's own is of no use: a host that hangs and is still attached holds up the
//! engine's copying of it for everybody.
//!
//! `docker exec <container> /.sandbox/supervisor bridge` runs [`offer()`], which hands its own input and output over to
//! process 1 and stays until that lets go of them, since the engine ends the stream of an exec with its process.
//! Process 1 takes them in at a [`Door`]: an abstract socket, which needs no path and no network interface.
//!
//! The lease's token decides who is believed. That commands are not even heard is the tag's doing: whatever a command
//! starts carries one, and what an engine starts in the container carries none.

mod candidate;
mod door;
mod offer;

pub use candidate::Bridged;
pub use door::Door;
pub use offer::offer;

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, SocketType};

/// Name of the socket; the network namespace that it is in is the container's own.
const NAME: &[u8] = b"zhivex-supervisor";
/// Both ends: messages keep their borders, and nothing outlives exec.
const TYPE: SocketType = SocketType::SEQPACKET;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC;

fn address() -> Result<SocketAddrUnix, Errno> {
  SocketAddrUnix::new_abstract_name(NAME)
}
