//! One that has come to the door: what it must bring before it is believed.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use super::super::system::poll::{PollSet, READ};
use crate::supervisor::wire::{Encoder, Frame, HELLO_FRAME, Hello, Kind, Refusal, ToHost, ToInside};

/// From connecting to the last byte of the hello. The host says hello as soon as the engine has started the exec; a
/// process of a container that is starved of CPU waited up to a second for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open pair and the process that holds it open at the engine.
pub struct Bridged {
  input: OwnedFd,
  output: OwnedFd,
  /// Says nothing more; it closes when that process goes, and that process goes when it closes.
  connection: OwnedFd,
}

/// What a candidate said.
pub struct Greeted {
  /// Its key.
  pub key: u64,
  /// Its fence.
  pub fence: u64,
  /// `None`: a hello that is none.
  pub hello: Option<Hello>,
}

/// What a turn of a candidate came to.
pub(super) enum Progress {
  Waiting,
  /// It is not what it should be, or gone.
  Over,
  Greeted(Greeted),
}

/// A process with no tag that connected.
pub(super) struct Candidate {
  connection: OwnedFd,
  until: Instant,
  pair: Option<(OwnedFd, OwnedFd)>,
  said: [u8; HELLO_FRAME],
  count: usize,
}

impl Bridged {
  /// Where the holder's frames come from.
  pub fn input(&self) -> BorrowedFd<'_> {
    self.input.as_fd()
  }

  /// Where frames to the holder go.
  pub fn output(&self) -> BorrowedFd<'_> {
    self.output.as_fd()
  }

  /// Ready to be read when the process that holds the stream open is gone.
  pub fn connection(&self) -> BorrowedFd<'_> {
    self.connection.as_fd()
  }
}

impl Candidate {
  pub(super) fn new(connection: OwnedFd, now: Instant) -> Self {
    Self { connection, until: now + PATIENCE, pair: None, said: [0; HELLO_FRAME], count: 0 }
  }

  pub(super) const fn until(&self) -> Instant {
    self.until
  }

  pub(super) fn wait(&self, set: &mut PollSet, owner: usize) {
    let waited = self.pair.as_ref().map_or(&self.connection, |(input, _)| input);
    set.add(waited.as_fd(), READ, owner);
  }

  pub(super) fn step(&mut self, now: Instant) -> Progress {
    if now >= self.until {
      return Progress::Over;
    }
    match self.advance() {
      Ok(()) => self.greeted(),
      Err(Errno::AGAIN | Errno::INTR) => Progress::Waiting,
      Err(_) => Progress::Over,
    }
  }

  /// Takes its descriptors, then its hello and not a byte more: what follows is for whoever reads the stream then.
  fn advance(&mut self) -> Result<(), Errno> {
    if self.pair.is_none() {
      self.pair = Some(receive(self.connection.as_fd())?);
    }
    let Some((input, _)) = &self.pair else { return Ok(()) };
    while self.count < self.said.len() {
      match rustix::io::read(input, self.said.get_mut(self.count..).unwrap_or_default())? {
        0 => return Err(Errno::PIPE),
        count => self.count += count,
      }
    }
    Ok(())
  }

  /// The stream is known to be new, so the hello must be the first that it brings.
  fn greeted(&self) -> Progress {
    let Some(frame) = Frame::whole(&self.said).filter(|frame| frame.kind == Kind::Hello) else {
      return Progress::Over;
    };
    let hello = match ToInside::decode(&frame) {
      Ok(ToInside::Hello(hello)) => Some(hello),
      _ => None,
    };
    Progress::Greeted(Greeted { key: frame.key, fence: frame.fence, hello })
  }

  /// Says why not, as far as the pipe has room.
  pub(super) fn refuse(&self, greeted: &Greeted, refusal: Refusal) {
    let mut frame = Vec::new();
    let encoder = Encoder::new(greeted.key, greeted.fence);
    if let (Some((_, output)), Ok(())) =
      (&self.pair, ToHost::Refused(refusal).encode(&encoder, 0, &mut frame))
    {
      let _ = rustix::io::write(output, &frame);
    }
  }

  pub(super) fn accept(self) -> Option<Bridged> {
    let (input, output) = self.pair?;
    Some(Bridged { input, output, connection: self.connection })
  }
}

/// Two pipes: one to read from, one to write to, and nothing else. What came beside them is closed.
fn receive(connection: BorrowedFd<'_>) -> Result<(OwnedFd, OwnedFd), Errno> {
  let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
  let mut control = RecvAncillaryBuffer::new(&mut room);
  let mut byte = [0];
  let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
  let message = recvmsg(connection, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
  let mut fds = control.drain().flat_map(|message| match message {
    RecvAncillaryMessage::ScmRights(fds) => Some(fds),
    _ => None,
  });
  let mut fds = fds.by_ref().flatten();
  let found = (fds.next(), fds.next(), fds.next());
  let is_cut = message.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC);
  match found {
    (Some(input), Some(output), None) if message.bytes == 1 && !is_cut => {
      prepare(&input, OFlags::WRONLY)?;
      prepare(&output, OFlags::RDONLY)?;
      Ok((input, output))
    }
    _ => Err(Errno::PROTO),
  }
}

/// Makes an end of a pipe one that never blocks. Nobody else uses this open file description any more, and the other end
/// of the pipe has another. Whatever other flags it had are cleared with it.
fn prepare(pipe: &OwnedFd, wrong: OFlags) -> Result<(), Errno> {
  let is_pipe = FileType::from_raw_mode(rustix::fs::fstat(pipe)?.st_mode) == FileType::Fifo;
  let flags = rustix::fs::fcntl_getfl(pipe)?;
  if !is_pipe || flags.contains(OFlags::PATH) || flags & OFlags::ACCMODE == wrong {
    return Err(Errno::PROTO);
  }
  rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)
}
