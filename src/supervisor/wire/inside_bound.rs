//! The frames that a host sends.

use super::codec::Put;
use super::{
  Close, Credit, Data, Encoder, Exec, Frame, Hello, Kind, List, Listen, MAX_DATA, ReadFile, Stream, TarIn,
  TarOut, WireError, WriteFile,
};

/// A frame from a host to the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToInside<'a> {
  /// Who I am. Operation 0.
  Hello(Hello),
  /// Alive; the number comes back. Operation 0.
  Heartbeat(u64),
  /// Kill everything and end. Operation 0.
  Shutdown,
  /// The reply arrived; the number of the operation is free again.
  Ack,
  /// Opens an operation.
  ReadFile(ReadFile<'a>),
  /// Opens an operation.
  WriteFile(WriteFile<'a>),
  /// Opens an operation.
  List(List<'a>),
  /// Opens an operation.
  Exec(Exec<'a>),
  /// Opens an operation.
  TarOut(TarOut),
  /// Opens an operation.
  TarIn(TarIn),
  /// Opens an operation.
  SelfTest,
  /// Opens an operation.
  Listen(Listen),
  /// A piece of the input.
  Data(Data<'a>),
  /// The end of the input.
  End(Stream),
  /// More output may come.
  Credit(Credit),
  /// Stop the operation: a command is killed, a file half written is dropped. Its reply still comes.
  Cancel,
  /// A signal, by its Linux number, to the command's first process.
  Signal(u8),
  /// The end of a channel; of all under number 0.
  Close(Close),
}

impl<'a> ToInside<'a> {
  /// Its kind.
  pub const fn kind(&self) -> Kind {
    match self {
      Self::Hello(_) => Kind::Hello,
      Self::Heartbeat(_) => Kind::Heartbeat,
      Self::Shutdown => Kind::Shutdown,
      Self::Ack => Kind::Ack,
      Self::ReadFile(_) => Kind::ReadFile,
      Self::WriteFile(_) => Kind::WriteFile,
      Self::List(_) => Kind::List,
      Self::Exec(_) => Kind::Exec,
      Self::TarOut(_) => Kind::TarOut,
      Self::TarIn(_) => Kind::TarIn,
      Self::SelfTest => Kind::SelfTest,
      Self::Listen(_) => Kind::Listen,
      Self::Data(_) => Kind::Data,
      Self::End(_) => Kind::End,
      Self::Credit(_) => Kind::Credit,
      Self::Cancel => Kind::Cancel,
      Self::Signal(_) => Kind::Signal,
      Self::Close(_) => Kind::Close,
    }
  }

  /// Appends it as a frame of operation `op`. [`WireError::TooLong`]: nothing was appended.
  pub fn encode(&self, encoder: &Encoder, op: u64, out: &mut Vec<u8>) -> Result<(), WireError> {
    encoder.frame(out, self.kind(), op, |payload| self.write(payload))
  }

  fn write(&self, out: &mut Vec<u8>) {
    match self {
      Self::Hello(hello) => hello.write(out),
      Self::Heartbeat(number) => out.put_u64(*number),
      Self::Shutdown | Self::Ack | Self::Cancel | Self::SelfTest => {}
      Self::ReadFile(request) => request.write(out),
      Self::WriteFile(request) => request.write(out),
      Self::List(request) => request.write(out),
      Self::Exec(request) => request.write(out),
      Self::TarOut(request) => request.write(out),
      Self::TarIn(request) => request.write(out),
      Self::Data(data) => data.write(out),
      Self::End(stream) => out.put_u8(*stream as u8),
      Self::Credit(credit) => credit.write(out),
      Self::Signal(number) => out.put_u8(*number),
      Self::Listen(request) => request.write(out),
      Self::Close(close) => close.write(out),
    }
  }

  /// What a frame says.
  pub fn decode(frame: &Frame<'a>) -> Result<Self, WireError> {
    let mut from = frame.reader();
    let message = match frame.kind {
      Kind::Hello => Self::Hello(Hello::read(&mut from)?),
      Kind::Heartbeat => Self::Heartbeat(from.u64()?),
      Kind::Shutdown => Self::Shutdown,
      Kind::Ack => Self::Ack,
      Kind::ReadFile => Self::ReadFile(ReadFile::read(&mut from)?),
      Kind::WriteFile => Self::WriteFile(WriteFile::read(&mut from)?),
      Kind::List => Self::List(List::read(&mut from)?),
      Kind::Exec => Self::Exec(Exec::read(&mut from)?),
      Kind::TarOut => Self::TarOut(TarOut::read(&mut from)?),
      Kind::TarIn => Self::TarIn(TarIn::read(&mut from)?),
      Kind::SelfTest => Self::SelfTest,
      Kind::Data => Self::Data(Data::read(frame)?),
      Kind::End => Self::End(Stream::from_u8(from.u8()?).ok_or(WireError::Invalid)?),
      Kind::Credit => Self::Credit(Credit::read(&mut from)?),
      Kind::Cancel => Self::Cancel,
      Kind::Signal => Self::Signal(from.u8()?),
      Kind::Listen => Self::Listen(Listen::read(&mut from)?),
      Kind::Close => Self::Close(Close::read(&mut from)?),
      _ => return Err(WireError::Direction),
    };
    if !matches!(message, Self::Data(_)) {
      from.end()?;
    }
    Ok(message)
  }
}

impl<'a> Data<'a> {
  /// Appends what comes before the contents, for somebody who reads them straight into the frame.
  pub fn write_prefix(&self, out: &mut Vec<u8>) {
    out.put_u8(self.stream as u8);
    out.put_u64(self.offset);
  }

  pub(super) fn write(&self, out: &mut Vec<u8>) {
    self.write_prefix(out);
    out.put(self.bytes);
  }

  pub(super) fn read(frame: &Frame<'a>) -> Result<Self, WireError> {
    let mut from = frame.reader();
    let stream = Stream::from_u8(from.u8()?).ok_or(WireError::Invalid)?;
    let data = Self { stream, offset: from.u64()?, bytes: from.rest() };
    if data.bytes.len() > MAX_DATA { Err(WireError::TooLong) } else { Ok(data) }
  }
}

impl Credit {
  pub(super) fn write(&self, out: &mut Vec<u8>) {
    out.put_u8(self.stream as u8);
    out.put_u64(self.limit);
  }

  pub(super) fn read(from: &mut super::codec::Reader<'_>) -> Result<Self, WireError> {
    Ok(Self { stream: Stream::from_u8(from.u8()?).ok_or(WireError::Invalid)?, limit: from.u64()? })
  }
}
