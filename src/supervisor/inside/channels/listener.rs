//! Where programs in the container find the proxy: a port of the container's own loopback address. The port is taken
//! before anything else runs, and kept, so that no program can be taken for the proxy by another.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
  AddressFamily, Shutdown, SocketFlags, SocketType, accept_with, bind, listen, shutdown, socket_with, sockopt,
};

/// Connections that wait in the kernel while all channels are taken. Whoever comes then is not answered until one is free,
/// and tries again by itself.
const BACKLOG: i32 = 128;

/// The socket. While it is shut, the kernel refuses connections.
pub struct Listener {
  socket: OwnedFd,
  port: u16,
  open: bool,
}

impl Listener {
  /// Takes the port, and refuses connections until [`Self::open`].
  pub fn bind(port: u16) -> Result<Self, Errno> {
    Ok(Self { socket: bound(port)?, port, open: false })
  }

  /// Whether the container has a loopback address at all. Engines bring the interface up; nobody in here may.
  pub fn is_possible() -> bool {
    bound(0).is_ok()
  }

  /// The port.
  pub const fn port(&self) -> u16 {
    self.port
  }

  /// Whether connections are taken.
  pub const fn is_open(&self) -> bool {
    self.open
  }

  /// Takes connections from now on.
  pub fn open(&mut self) -> Result<(), Errno> {
    if !self.open {
      listen(&self.socket, BACKLOG)?;
      self.open = true;
    }
    Ok(())
  }

  /// Refuses connections from now on, those that wait as well. The port stays taken.
  pub fn shut(&mut self) {
    if std::mem::take(&mut self.open) {
      // The socket listens, which is all that can be wrong here.
      let _ = shutdown(&self.socket, Shutdown::Read);
    }
  }

  /// A connection that waits; `AGAIN`: there is none.
  pub fn accept(&self) -> Result<OwnedFd, Errno> {
    let connection = accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    // What there is is written; waiting for more would only delay it.
    sockopt::set_tcp_nodelay(&connection, true)?;
    Ok(connection)
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
