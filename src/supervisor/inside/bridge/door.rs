//! Where offers of a stream come in. What it costs is bounded, whoever knocks and however often.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, accept_with, bind, listen, socket_with};

use super::super::system::limits::{Tag, tag};
use super::super::system::peer;
use super::super::system::poll::{PollSet, READ};
use super::candidate::{Bridged, Candidate, Greeted, Progress};
use super::{FLAGS, TYPE, address};
use crate::supervisor::wire::Refusal;

/// Offers that are looked at side by side: two hosts may want to take over at the same moment.
const MOST: usize = 2;
/// Connections that are looked at in one turn, most of which a flood of commands makes.
const KNOCKS_A_TURN: usize = 4;
/// Connections that wait in the kernel; whoever comes then waits there.
const BACKLOG: i32 = 8;

/// The listening socket and the candidates. All their memory is there from the start.
pub struct Door {
  socket: OwnedFd,
  uid: u32,
  candidates: Vec<Candidate>,
}

impl Door {
  /// Listens, before anything of the container runs that could take the name.
  pub fn open() -> Result<Self, Errno> {
    let socket = socket_with(AddressFamily::UNIX, TYPE, FLAGS | SocketFlags::NONBLOCK, None)?;
    bind(&socket, &address()?)?;
    listen(&socket, BACKLOG)?;
    let uid = rustix::process::geteuid().as_raw();
    Ok(Self { socket, uid, candidates: Vec::with_capacity(MOST) })
  }

  /// Waits for new ones while there is room for them, and for what those that are here bring.
  pub fn wait(&self, set: &mut PollSet, owner: usize) {
    if self.candidates.len() < MOST {
      set.add(self.socket.as_fd(), READ, owner);
    }
    self.candidates.iter().for_each(|candidate| candidate.wait(set, owner));
  }

  /// Whether somebody stands at it.
  pub const fn is_occupied(&self) -> bool {
    !self.candidates.is_empty()
  }

  /// When the first of them has waited for too long.
  pub fn due(&self) -> Option<Instant> {
    self.candidates.iter().map(Candidate::until).min()
  }

  /// One turn. `judge` says whether a greeting is accepted; the first that is gives its stream.
  pub fn turn(
    &mut self,
    now: Instant,
    mut judge: impl FnMut(&Greeted) -> Result<(), Refusal>,
  ) -> Option<Bridged> {
    self.let_in(now);
    let mut place = 0;
    while let Some(candidate) = self.candidates.get_mut(place) {
      match candidate.step(now) {
        Progress::Waiting => {
          place += 1;
          continue;
        }
        Progress::Over => {}
        Progress::Greeted(greeted) => match judge(&greeted) {
          Ok(()) => return self.candidates.remove(place).accept(),
          Err(refusal) => candidate.refuse(&greeted, refusal),
        },
      }
      self.candidates.remove(place);
    }
    None
  }

  fn let_in(&mut self, now: Instant) {
    for _ in 0..KNOCKS_A_TURN {
      if self.candidates.len() >= MOST {
        return;
      }
      match accept_with(&self.socket, FLAGS | SocketFlags::NONBLOCK) {
        Ok(connection) if self.may_offer(&connection) => {
          self.candidates.push(Candidate::new(connection, now));
        }
        // A command's is closed without a word.
        Ok(_) | Err(Errno::CONNABORTED | Errno::INTR) => {}
        Err(_) => return,
      }
    }
  }

  /// Our own user, there, and not one of the commands, which cannot shed their tags. One that is gone has none.
  fn may_offer(&self, connection: &OwnedFd) -> bool {
    peer::of(connection.as_fd())
      .is_ok_and(|peer| peer.uid == self.uid && peer.pid > 1 && tag(peer.pid) == Ok(Tag::None))
  }
}
