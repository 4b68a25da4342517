//! Messages of either end from the fuzzer's bytes.

use arbitrary::{Error, Result, Unstructured};
use sandbox_docker::supervisor::wire::*;

/// Small numbers are what offsets, sizes and counts of a short exchange are; the others are at the borders.
pub fn number(u: &mut Unstructured<'_>) -> Result<u64> {
  Ok(match u.int_in_range(0..=9u8)? {
    0 => u.arbitrary()?,
    1 => u64::MAX,
    2 => 1 << u.int_in_range(0..=63u8)?,
    3 => (1u64 << u.int_in_range(0..=63u8)?) - 1,
    4 => 128 * 1024,
    5 => 512 * 1024,
    _ => u.int_in_range(0..=9u8)?.into(),
  })
}

fn short(u: &mut Unstructured<'_>) -> Result<u32> {
  Ok(u32::try_from(number(u)?).unwrap_or(u32::MAX))
}

/// Bytes, mostly few.
pub fn bytes<'a>(u: &mut Unstructured<'a>, most: usize) -> Result<&'a [u8]> {
  let length = if u.ratio(1, 8)? { u.int_in_range(0..=most)? } else { u.int_in_range(0..=16.min(most))? };
  u.bytes(length.min(u.len()))
}

pub fn stream(u: &mut Unstructured<'_>) -> Result<Stream> {
  u.choose(&[Stream::Output, Stream::Error, Stream::Input, Stream::Output]).copied()
}

/// A path that the other end takes, from `known` ones or of any bytes.
pub fn path<'a>(u: &mut Unstructured<'a>, known: &[&'static [u8]]) -> Result<RelativePath<'a>> {
  let path = if !known.is_empty() && u.ratio(7, 8)? { u.choose(known).copied()? } else { bytes(u, 300)? };
  RelativePath::new(path).map_err(|_| Error::IncorrectFormat)
}

fn how(u: &mut Unstructured<'_>) -> Result<How> {
  Ok(match u.int_in_range(0..=7u8)? {
    0 => How::Exited(u.arbitrary()?),
    1 => How::Signaled(u.arbitrary()?),
    2 => How::TimedOut,
    3 => How::OutputLimit,
    4 => How::Cancelled,
    5 => How::Swept,
    6 => How::OutOfMemory,
    _ => How::NotStarted(*u.choose(NotStarted::ALL)?, u.arbitrary()?),
  })
}

/// An end that often is the same one as before.
pub fn command_end(u: &mut Unstructured<'_>) -> Result<CommandEnd> {
  let plain = CommandEnd { how: How::Exited(3), killed: 0, micros: 1 };
  if u.ratio(1, 3)? {
    return Ok(plain);
  }
  let how = how(u)?;
  Ok(if u.arbitrary()? {
    CommandEnd { how, ..plain }
  } else {
    CommandEnd { how, killed: short(u)?, micros: number(u)? }
  })
}

fn reply(u: &mut Unstructured<'_>) -> Result<Reply> {
  Ok(match u.int_in_range(0..=8u8)? {
    0 => Reply::Failed(Failed { failure: *u.choose(Failure::ALL)?, errno: u.arbitrary()? }),
    1 => Reply::Read(Read { size: number(u)?, mode: short(u)?, sent: number(u)? }),
    2 => Reply::Written(Written { size: number(u)? }),
    3 => Reply::Listed(Listed { entries: short(u)?, truncated: u.arbitrary()? }),
    4 | 5 => Reply::Command(command_end(u)?),
    6 => Reply::Tar(TarDone { bytes: number(u)?, entries: short(u)?, skipped: u.int_in_range(0..=1)? }),
    7 => Reply::SelfTest(SelfTest { tried: u.arbitrary()?, succeeded: u.arbitrary()? }),
    _ => Reply::Listening,
  })
}

fn operation(u: &mut Unstructured<'_>) -> Result<ActiveOperation> {
  let passed = [number(u)?, number(u)?, number(u)?];
  Ok(ActiveOperation { op: number(u)?, kind: *u.choose(Kind::ALL)?, done: u.arbitrary()?, passed })
}

fn welcome(u: &mut Unstructured<'_>) -> Result<Welcome> {
  let count = u.int_in_range(0..=4usize)?;
  Ok(Welcome {
    digest: u.arbitrary()?,
    capabilities: u.arbitrary()?,
    self_test: SelfTest { tried: u.arbitrary()?, succeeded: u.arbitrary()? },
    operations: (0..count).map(|_| operation(u)).collect::<Result<_>>()?,
  })
}

fn close(u: &mut Unstructured<'_>) -> Result<Close> {
  u.choose(&[Close::Ended, Close::Reset]).copied()
}

/// The number of a channel, mostly one of the first.
pub fn channel(u: &mut Unstructured<'_>) -> Result<u64> {
  Ok(channel_number(if u.ratio(1, 8)? { number(u)? } else { u.int_in_range(0..=4)? }))
}

/// What a supervisor says, or somebody in its place.
pub fn to_host<'a>(u: &mut Unstructured<'a>) -> Result<ToHost<'a>> {
  Ok(match u.int_in_range(0..=14u8)? {
    0 => ToHost::Welcome(welcome(u)?),
    1 => ToHost::Refused(*u.choose(&[Refusal::Token, Refusal::Fence, Refusal::Malformed])?),
    2 => ToHost::Heartbeat(number(u)?),
    3 => ToHost::Notice(*u.choose(Notice::ALL)?, number(u)?),
    4 if u.arbitrary()? => ToHost::Started(Started::File { size: number(u)?, mode: short(u)? }),
    4 => ToHost::Started(Started::Command { pid: short(u)? }),
    5 | 6 => ToHost::Data(Data { stream: stream(u)?, offset: number(u)?, bytes: bytes(u, MAX_DATA)? }),
    7 => ToHost::End(stream(u)?),
    8 => ToHost::Credit(Credit { stream: stream(u)?, limit: number(u)? }),
    9 => ToHost::Exited(command_end(u)?),
    13 => ToHost::Connect(Connect { window: short(u)? }),
    14 => ToHost::Close(close(u)?),
    _ => ToHost::Done(reply(u)?),
  })
}

/// Lists of strings that live as long as the message.
#[derive(Default)]
pub struct Words {
  argv: StringsBuf,
  env: StringsBuf,
}

impl Words {
  pub fn new(u: &mut Unstructured<'_>) -> Result<Self> {
    let list = |u: &mut Unstructured<'_>| {
      let count = u.int_in_range(0..=4usize)?;
      let words = (0..count).map(|_| bytes(u, 40)).collect::<Result<Vec<_>>>()?;
      StringsBuf::of(words).map_err(|_| Error::IncorrectFormat)
    };
    Ok(Self { argv: list(u)?, env: list(u)? })
  }
}

/// What a host says, or somebody in its place; `known` paths are there, and at `port` may be listened.
pub fn to_inside<'b, 'a: 'b>(
  u: &mut Unstructured<'a>,
  words: &'b Words,
  known: &[&'static [u8]],
  port: u16,
) -> Result<ToInside<'b>> {
  Ok(match u.int_in_range(0..=17u8)? {
    0 => ToInside::Heartbeat(number(u)?),
    1 => ToInside::Ack,
    2 => ToInside::Credit(Credit { stream: stream(u)?, limit: number(u)? }),
    3 => ToInside::Cancel,
    4 => ToInside::Signal(u.arbitrary()?),
    5 => ToInside::End(stream(u)?),
    6 => ToInside::Data(Data { stream: stream(u)?, offset: number(u)?, bytes: bytes(u, MAX_DATA)? }),
    7 => ToInside::SelfTest,
    16 => ToInside::Listen(Listen { port, window: short(u)? }),
    17 => ToInside::Close(close(u)?),
    8 => ToInside::TarOut(TarOut { window: short(u)?, max_bytes: number(u)?, max_entries: short(u)? }),
    9 => ToInside::TarIn(TarIn { max_bytes: number(u)?, max_entries: short(u)? }),
    10 => {
      ToInside::List(List { window: short(u)?, depth: short(u)?, limit: short(u)?, path: path(u, known)? })
    }
    11 | 12 => {
      let (mode, overwrite) = (u.int_in_range(0..=0o777)?, u.arbitrary()?);
      let size = if u.arbitrary()? { UNTIL_END } else { number(u)? };
      ToInside::WriteFile(WriteFile { mode, size, overwrite, path: path(u, known)? })
    }
    13 => ToInside::Exec(Exec {
      window: short(u)?,
      timeout_ms: number(u)?,
      max_stdout: number(u)?,
      max_stderr: number(u)?,
      stdin: u.arbitrary()?,
      cwd: path(u, known)?,
      argv: words.argv.view(),
      env: words.env.view(),
    }),
    _ => ToInside::ReadFile(ReadFile {
      window: short(u)?,
      offset: number(u)?,
      limit: number(u)?,
      path: path(u, known)?,
    }),
  })
}

/// Bytes of a frame, some of whose header may be other than it should be while its own check is right.
pub fn odd_frame(encoder: &Encoder, op: u64, kind: u8, length: Option<u32>, payload: &[u8]) -> Vec<u8> {
  // Where in a frame these are: docs/protocol.md, "Frames".
  const KIND: usize = 5;
  const LENGTH: std::ops::Range<usize> = 32..36;
  const CHECK: std::ops::Range<usize> = 44..48;
  let mut bytes = Vec::new();
  let payload = &payload[..payload.len().min(MAX_PAYLOAD)];
  encoder.frame(&mut bytes, Kind::Data, op, |out| out.extend_from_slice(payload)).unwrap();
  bytes[KIND] = kind;
  if let Some(length) = length {
    bytes[LENGTH].copy_from_slice(&length.to_le_bytes());
  }
  let check = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..CHECK.start], 0) as u32;
  bytes[CHECK].copy_from_slice(&check.to_le_bytes());
  bytes
}
