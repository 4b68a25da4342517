//! The second process of this program, which brings a stream and waits.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
  AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, connect, recv, sendmsg,
  socket_with,
};

use super::super::system::peer;
use super::{FLAGS, TYPE, address};

/// Exit code: process 1 let go of the stream.
const OVER: u8 = 0;
/// Exit code: process 1 was not reached, or is not who listens.
const NOT_REACHED: u8 = 87;

/// Hands this process's input and output over to process 1 and waits for it to let go of them; the exit code.
pub fn offer() -> u8 {
  match hand_over() {
    Ok(connection) => {
      wait(&connection);
      OVER
    }
    Err(_) => NOT_REACHED,
  }
}

fn hand_over() -> Result<OwnedFd, Errno> {
  let socket = socket_with(AddressFamily::UNIX, TYPE, FLAGS, None)?;
  connect(&socket, &address()?)?;
  // Process 1 has the name from the start and for ever; but a container without one must not be given our stream.
  if peer::of(socket.as_fd())?.pid != 1 {
    return Err(Errno::PERM);
  }
  let fds = [rustix::stdio::stdin(), rustix::stdio::stdout()];
  let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
  let mut control = SendAncillaryBuffer::new(&mut room);
  control.push(SendAncillaryMessage::ScmRights(&fds));
  sendmsg(&socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
  release()?;
  Ok(socket)
}

/// Leaves the stream to process 1 alone: were this process stopped, the stream would still end when process 1 ends it.
fn release() -> Result<(), Errno> {
  let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
  rustix::stdio::dup2_stdin(&null)?;
  rustix::stdio::dup2_stdout(&null)
}

/// Process 1 never says anything: this returns when it closes the connection, or is gone.
fn wait(connection: &OwnedFd) {
  while let Err(Errno::INTR) = recv(connection, &mut [0; 1], RecvFlags::empty()) {}
}
