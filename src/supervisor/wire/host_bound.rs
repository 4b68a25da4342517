//! The frames that the supervisor sends.

use super::codec::Put;
use super::{
  Close, CommandEnd, Connect, Credit, Data, Encoder, Frame, Kind, Notice, Refusal, Reply, Started, Stream,
  Welcome, WireError,
};

/// A frame from the supervisor to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToHost<'a> {
  /// The hello was accepted. Operation 0.
  Welcome(Welcome),
  /// The hello was not accepted; the frame has the hello's key and fence. Operation 0.
  Refused(Refusal),
  /// The number of the host's heartbeat. Operation 0.
  Heartbeat(u64),
  /// Something, and how many of it. Operation 0.
  Notice(Notice, u64),
  /// The operation began.
  Started(Started),
  /// A piece of the output.
  Data(Data<'a>),
  /// The end of an output stream.
  End(Stream),
  /// More input may come.
  Credit(Credit),
  /// The command is gone with all it started. Output may still follow.
  Exited(CommandEnd),
  /// The last word, kept until acknowledged.
  Done(Reply),
  /// A new channel.
  Connect(Connect),
  /// The last word on a channel.
  Close(Close),
}

impl<'a> ToHost<'a> {
  /// Its kind.
  pub const fn kind(&self) -> Kind {
    match self {
      Self::Welcome(_) => Kind::Welcome,
      Self::Refused(_) => Kind::Refused,
      Self::Heartbeat(_) => Kind::Heartbeat,
      Self::Notice(..) => Kind::Notice,
      Self::Started(_) => Kind::Started,
      Self::Data(_) => Kind::Data,
      Self::End(_) => Kind::End,
      Self::Credit(_) => Kind::Credit,
      Self::Exited(_) => Kind::Exited,
      Self::Done(_) => Kind::Done,
      Self::Connect(_) => Kind::Connect,
      Self::Close(_) => Kind::Close,
    }
  }

  /// Appends it as a frame of operation `op`. [`WireError::TooLong`]: nothing was appended.
  pub fn encode(&self, encoder: &Encoder, op: u64, out: &mut Vec<u8>) -> Result<(), WireError> {
    encoder.frame(out, self.kind(), op, |payload| self.write(payload))
  }

  fn write(&self, out: &mut Vec<u8>) {
    match self {
      Self::Welcome(welcome) => welcome.write(out),
      Self::Refused(refusal) => out.put_u8(*refusal as u8),
      Self::Heartbeat(number) => out.put_u64(*number),
      Self::Notice(notice, count) => {
        out.put_u8(*notice as u8);
        out.put_u64(*count);
      }
      Self::Started(started) => started.write(out),
      Self::Data(data) => data.write(out),
      Self::End(stream) => out.put_u8(*stream as u8),
      Self::Credit(credit) => credit.write(out),
      Self::Exited(end) => end.write(out),
      Self::Done(reply) => reply.write(out),
      Self::Connect(connect) => connect.write(out),
      Self::Close(close) => close.write(out),
    }
  }

  /// What a frame says.
  pub fn decode(frame: &Frame<'a>) -> Result<Self, WireError> {
    let mut from = frame.reader();
    let message = match frame.kind {
      Kind::Welcome => Self::Welcome(Welcome::read(&mut from)?),
      Kind::Refused => Self::Refused(Refusal::from_u8(from.u8()?).ok_or(WireError::Invalid)?),
      Kind::Heartbeat => Self::Heartbeat(from.u64()?),
      Kind::Notice => Self::Notice(Notice::read_from(&mut from)?, from.u64()?),
      Kind::Started => Self::Started(Started::read(&mut from)?),
      Kind::Data => return Ok(Self::Data(Data::read(frame)?)),
      Kind::End => Self::End(Stream::from_u8(from.u8()?).ok_or(WireError::Invalid)?),
      Kind::Credit => Self::Credit(Credit::read(&mut from)?),
      Kind::Exited => Self::Exited(CommandEnd::read(&mut from)?),
      Kind::Done => Self::Done(Reply::read(&mut from)?),
      Kind::Connect => Self::Connect(Connect::read(&mut from)?),
      Kind::Close => Self::Close(Close::read(&mut from)?),
      _ => return Err(WireError::Direction),
    };
    from.end()?;
    Ok(message)
  }
}
