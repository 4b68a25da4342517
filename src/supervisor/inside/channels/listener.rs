//! Where programs in the container find the proxy: a port of the container's own loopback address. The port is taken
//! before anything else runs, and kept, so that no program can be taken for the proxy by another.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt};

/// Connections that wait in the kernel while all channels are taken. Whoever comes then is not answered, and tries again by
/// itself.
const BACKLOG: i32 = 128;

/// The socket. It listens as long as the container lives, whether anybody serves what connects or not: a port that is let
/// go of, or only not listened at, can be taken by a program.
pub struct Listener {
  socket: OwnedFd,
  port: u16,
}

impl Listener {
  /// Listens on the port.
  pub fn bind(port: u16) -> Result<Self, Errno> {
    let socket = bound(port)?;
    listen(&socket, BACKLOG)?;
    Ok(Self { socket, port })
  }

  /// Whether the container has a loopback address at all. Engines bring the interface up; nobody in here may.
  pub fn is_possible() -> bool {
    bound(0).is_ok()
  }

  /// The port.
  pub const fn port(&self) -> u16 {
    self.port
  }

  /// A connection that waits; `AGAIN`: there is none.
  pub fn accept(&self) -> Result<OwnedFd, Errno> {
    let connection = accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    // What there is is written; waiting for more would only delay it.
    sockopt::set_tcp_nodelay(&connection, true)?;
    Ok(connection)
  }

  /// Resets a connection: closing it from now on is no end.
  pub fn reset(connection: &OwnedFd) {
    // Where this fails, it is broken anyway.
    let _ = sockopt::set_socket_linger(connection, Some(Duration::ZERO));
  }

  /// What is ready when a connection waits.
  pub fn fd(&self) -> BorrowedFd<'_> {
    self.socket.as_fd()
  }
}

fn bound(port: u16) -> Result<OwnedFd, Errno> {
  let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
  let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
  bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
  Ok(socket)
}
