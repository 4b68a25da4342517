//! What the supervisor says about an operation. The bytes are from the container: true only as far as the container is.

use super::WireError;
use super::codec::{Put, Reader};
use crate::limits::MAX_PATH_BYTES;

macro_rules! numbered {
  ($(#[$doc:meta])* $type:ident { $($(#[$each:meta])* $name:ident = $number:literal,)* }) => {
    $(#[$doc])*
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum $type { $($(#[$each])* $name = $number,)* }

    impl $type {
      /// Every value.
      pub const ALL: &[Self] = &[$(Self::$name,)*];

      fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match from.u8()? { $($number => Ok(Self::$name),)* _ => Err(WireError::Invalid) }
      }
    }
  };
}

numbered! {
  /// Why an operation came to nothing.
  Failure {
    /// No such file or directory.
    NotFound = 1,
    /// A symbolic link on the way or in place of the file.
    Link = 2,
    /// It is a directory.
    Directory = 3,
    /// Something on the way, or what should be listed, is no directory.
    NotDirectory = 4,
    /// It is a pipe, a socket or a device.
    Special = 5,
    /// Permission denied.
    Denied = 6,
    /// Somebody inside holds a lease on the file; try again.
    Busy = 7,
    /// It exists already.
    Exists = 8,
    /// The file system is full.
    NoSpace = 9,
    /// A budget of the request, or a cap of the supervisor, would be passed.
    TooLarge = 10,
    /// Fewer or more bytes came than were announced.
    Cut = 11,
    /// Cancelled by the host.
    Cancelled = 12,
    /// Too many operations at once, or too many replies that nobody acknowledged.
    TooMany = 13,
    /// The request's payload is malformed.
    BadRequest = 14,
    /// This operation is not there.
    Unsupported = 15,
    /// The archive is malformed or holds what is not accepted.
    BadArchive = 16,
    /// The host broke the flow control.
    Flow = 17,
    /// Something else that the kernel said.
    System = 18,
    /// The operation's number is in use.
    InUse = 19,
  }
}

numbered! {
  /// Where a command that never ran got stuck.
  NotStarted {
    /// The program: looking it up or executing it.
    Program = 1,
    /// The working directory.
    Directory = 2,
    /// Making the process: no process or memory left.
    Fork = 3,
    /// Limits, filter, domain or descriptors of the new process.
    Setup = 4,
    /// It did not come as far as executing the program before the deadline.
    Deadline = 5,
  }
}

numbered! {
  /// What an entry is.
  EntryKind {
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Link = 3,
    /// A pipe, a socket, a device.
    Other = 4,
    /// It went away, or may not be looked at, while it was listed.
    Unknown = 5,
  }
}

numbered! {
  /// Something that belongs to no operation.
  Notice {
    /// So many bytes were skipped to find the next frame.
    Garbage = 1,
    /// So many frames of an older fence or another key were ignored.
    Stale = 2,
    /// So many frames of this holder had a payload or an operation that fits nothing.
    Ignored = 3,
    /// Processes whose tags did not agree, or that traced a command which had to end, were killed.
    Untagged = 4,
    /// Everything had to be killed to end one command.
    KilledAll = 5,
    /// Processes are left that could not be killed: end the container.
    Unkillable = 6,
  }
}

impl Notice {
  pub(super) fn read_from(from: &mut Reader<'_>) -> Result<Self, WireError> {
    Self::read(from)
  }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
  /// It returned this code.
  Exited(u8),
  /// This signal ended it, and it was not ours.
  Signaled(u8),
  /// Its time passed.
  TimedOut,
  /// It wrote more than its cap.
  OutputLimit,
  /// The host cancelled it.
  Cancelled,
  /// It was killed because another command could not be ended otherwise.
  Swept,
  /// It never ran; the second is the kernel's error number, 0 where there is none.
  NotStarted(NotStarted, i32),
  /// Its first process died of a SIGKILL that was not ours, and the kernel's count of kills for memory in this container
  /// rose while it ran. Only with [`Capability::MemoryKills`](super::Capability::MemoryKills).
  OutOfMemory,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
  /// How.
  pub how: How,
  /// Processes that were still there when its first one ended, and were killed.
  pub killed: u32,
  /// From the request to the end, in microseconds, the supervisor's clock.
  pub micros: u64,
}

/// What is known when an operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
  /// A file was opened.
  File {
    /// Its size in bytes.
    size: u64,
    /// Its permission bits.
    mode: u32,
  },
  /// A command's program was executed.
  Command {
    /// Its first process, as the container numbers it.
    pid: u32,
  },
}

/// A part of a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
  /// Size of the file when it was opened.
  pub size: u64,
  /// Its permission bits.
  pub mode: u32,
  /// Bytes that were sent.
  pub sent: u64,
}

/// A file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
  /// Its size.
  pub size: u64,
}

/// A directory was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
  /// Entries that were sent.
  pub entries: u32,
  /// There are more.
  pub truncated: bool,
}

/// A tar passed, out or in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TarDone {
  /// Bytes of it.
  pub bytes: u64,
  /// Entries.
  pub entries: u32,
  /// Entries that were left out: neither file, directory nor link, or unreadable.
  pub skipped: u32,
}

/// What the attacks on process 1 came to. Bits by [`SelfTest::ATTACKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfTest {
  /// Attacks that were tried.
  pub tried: u32,
  /// Attacks that got through.
  pub succeeded: u32,
}

/// An operation came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
  /// Why.
  pub failure: Failure,
  /// The kernel's error number, 0 where there is none.
  pub errno: i32,
}

/// The last word on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
  /// It came to nothing.
  Failed(Failed),
  /// To a read.
  Read(Read),
  /// To a write.
  Written(Written),
  /// To a listing.
  Listed(Listed),
  /// To a command.
  Command(CommandEnd),
  /// To a tar, out or in.
  Tar(TarDone),
  /// To a self-test.
  SelfTest(SelfTest),
  /// Connections to the proxy are taken from now on.
  Listening,
}

impl Reply {
  /// Whether it is said only behind the end of the operation's input, where that has one.
  pub const fn is_of_all_input(&self) -> bool {
    matches!(self, Self::Written(_) | Self::Tar(_))
  }
}

/// One entry of a listing, as it stands in the output stream. Entries may be cut anywhere between two data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
  /// What it is.
  pub kind: EntryKind,
  /// Its permission bits.
  pub mode: u32,
  /// Its size in bytes; 0 for what is no regular file.
  pub size: u64,
  /// Its path beneath the workspace.
  pub path: &'a [u8],
}

impl<'a> Entry<'a> {
  /// Appends it.
  pub fn write(&self, out: &mut Vec<u8>) {
    out.put_u8(self.kind as u8);
    out.put_u32(self.mode);
    out.put_u64(self.size);
    out.put_u16(u16::try_from(self.path.len()).unwrap_or(u16::MAX));
    out.put(self.path);
  }

  /// Takes one from the front of `bytes`: the entry and how many bytes it took; `None`: more bytes are needed.
  pub fn read(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, WireError> {
    let mut from = Reader::new(bytes);
    match Self::parse(&mut from) {
      Ok(entry) => Ok(Some((entry, bytes.len() - from.rest().len()))),
      Err(WireError::Cut) => Ok(None),
      Err(error) => Err(error),
    }
  }

  fn parse(from: &mut Reader<'a>) -> Result<Self, WireError> {
    let (kind, mode, size, length) = (EntryKind::read(from)?, from.u32()?, from.u64()?, from.u16()?);
    let length = usize::from(length);
    if length == 0 || length > MAX_PATH_BYTES || mode > 0o7777 {
      return Err(WireError::Invalid);
    }
    Ok(Self { kind, mode, size, path: from.take(length)? })
  }
}

impl SelfTest {
  /// The attacks, by bit: writing into the control stream, reading the environment and the memory of process 1,
  /// `kill -9 1`, limits on process 1, tracing it, taking its descriptors.
  pub const ATTACKS: &[&str] = &["inject", "environ", "memory", "kill", "limits", "trace", "descriptors"];

  /// All attacks were tried and none got through.
  pub fn is_safe(&self) -> bool {
    self.succeeded == 0 && self.tried == (1 << Self::ATTACKS.len()) - 1
  }

  /// Names of the attacks that got through.
  pub fn broken(&self) -> impl Iterator<Item = &'static str> {
    let succeeded = self.succeeded;
    Self::ATTACKS
      .iter()
      .enumerate()
      .filter(move |(bit, _)| succeeded & (1 << bit) != 0)
      .map(|(_, name)| *name)
  }

  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u32(self.tried);
    out.put_u32(self.succeeded);
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    Ok(Self { tried: from.u32()?, succeeded: from.u32()? })
  }
}

impl CommandEnd {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    let (how, detail, errno) = match self.how {
      How::Exited(code) => (1, code, 0),
      How::Signaled(signal) => (2, signal, 0),
      How::TimedOut => (3, 0, 0),
      How::OutputLimit => (4, 0, 0),
      How::Cancelled => (5, 0, 0),
      How::Swept => (6, 0, 0),
      How::NotStarted(stage, errno) => (7, stage as u8, errno),
      How::OutOfMemory => (8, 0, 0),
    };
    out.put(&[how, detail]);
    out.put_i32(errno);
    out.put_u32(self.killed);
    out.put_u64(self.micros);
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    // What a way to end does not use is zero.
    let how = match (from.u8()?, from.u8()?, from.i32()?) {
      (1, code, 0) => How::Exited(code),
      (2, signal, 0) => How::Signaled(signal),
      (3, 0, 0) => How::TimedOut,
      (4, 0, 0) => How::OutputLimit,
      (5, 0, 0) => How::Cancelled,
      (6, 0, 0) => How::Swept,
      (7, stage, errno) => How::NotStarted(NotStarted::read(&mut Reader::new(&[stage]))?, errno),
      (8, 0, 0) => How::OutOfMemory,
      _ => return Err(WireError::Invalid),
    };
    Ok(Self { how, killed: from.u32()?, micros: from.u64()? })
  }
}

impl Started {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    match *self {
      Self::File { size, mode } => {
        out.put_u8(1);
        out.put_u64(size);
        out.put_u32(mode);
      }
      Self::Command { pid } => {
        out.put_u8(2);
        out.put_u32(pid);
      }
    }
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    match from.u8()? {
      1 => Ok(Self::File { size: from.u64()?, mode: from.u32()? }),
      2 => Ok(Self::Command { pid: from.u32()? }),
      _ => Err(WireError::Invalid),
    }
  }
}

impl Reply {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    match self {
      Self::Failed(failed) => {
        out.put(&[1, failed.failure as u8]);
        out.put_i32(failed.errno);
      }
      Self::Read(read) => {
        out.put_u8(2);
        out.put_u64(read.size);
        out.put_u32(read.mode);
        out.put_u64(read.sent);
      }
      Self::Written(written) => {
        out.put_u8(3);
        out.put_u64(written.size);
      }
      Self::Listed(listed) => {
        out.put_u8(4);
        out.put_u32(listed.entries);
        out.put_flag(listed.truncated);
      }
      Self::Command(end) => {
        out.put_u8(5);
        end.write(out);
      }
      Self::Tar(tar) => {
        out.put_u8(6);
        out.put_u64(tar.bytes);
        out.put_u32(tar.entries);
        out.put_u32(tar.skipped);
      }
      Self::SelfTest(test) => {
        out.put_u8(7);
        test.write(out);
      }
      Self::Listening => out.put_u8(8),
    }
  }

  pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
    Ok(match from.u8()? {
      1 => Self::Failed(Failed { failure: Failure::read(from)?, errno: from.i32()? }),
      2 => Self::Read(Read { size: from.u64()?, mode: from.u32()?, sent: from.u64()? }),
      3 => Self::Written(Written { size: from.u64()? }),
      4 => Self::Listed(Listed { entries: from.u32()?, truncated: from.flag()? }),
      5 => Self::Command(CommandEnd::read(from)?),
      6 => Self::Tar(TarDone { bytes: from.u64()?, entries: from.u32()?, skipped: from.u32()? }),
      7 => Self::SelfTest(SelfTest::read(from)?),
      8 => Self::Listening,
      _ => return Err(WireError::Invalid),
    })
  }
}
