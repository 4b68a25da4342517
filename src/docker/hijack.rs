//! Hijacked connections: an HTTP request after whose reply both directions are raw (Engine API, "Hijacking" of
//! `POST /containers/{id}/attach`, the same for exec). Engines answer 101, or 200 and no length; both are accepted, and
//! bytes that came with the head are kept.

use bytes::{Bytes, BytesMut};
use hyper::{Method, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::chunked::Chunked;
use super::client::Client;
use super::connection::{ReadHalf, Stream, WriteHalf};
use super::request::{Reply, api_error};
use crate::error::{Error, Result};
use crate::limits::{MAX_ERROR_BODY_BYTES, MAX_HEAD_BYTES};

/// Most header fields of a reply; engines send about ten.
const MAX_HEADERS: usize = 64;
/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// A raw stream to a command.
pub struct Hijacked {
  read: RawRead,
  write: WriteHalf,
}

/// The reading half, which first gives what came with the head.
pub struct RawRead {
  early: Bytes,
  half: ReadHalf,
  buffer: BytesMut,
  body: Body,
}

/// What delimits the stream. Engines close it; a proxy in front of one may have put a coding around it.
enum Body {
  UntilClose,
  Length(u64),
  Chunked(Chunked),
}

/// How the body of a reply is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
  Length(u64),
  Chunked,
  UntilClose,
}

struct Head {
  status: StatusCode,
  framing: Framing,
  rest: Bytes,
}

impl Hijacked {
  /// The two halves. Dropping the writing half ends the command's input.
  pub fn split(self) -> (RawRead, WriteHalf) {
    (self.read, self.write)
  }
}

impl RawRead {
  /// The next bytes; empty at the end of the stream.
  pub async fn next(&mut self) -> std::io::Result<Bytes> {
    loop {
      if self.body.is_end() {
        return Ok(Bytes::new());
      }
      let raw = if self.early.is_empty() { self.read_raw().await? } else { std::mem::take(&mut self.early) };
      if raw.is_empty() {
        return if self.body.may_end() { Ok(raw) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) };
      }
      let data = self.body.decode(raw)?;
      if !data.is_empty() {
        return Ok(data);
      }
    }
  }

  async fn read_raw(&mut self) -> std::io::Result<Bytes> {
    self.buffer.reserve(READ_BYTES);
    match self.half.read_buf(&mut self.buffer).await {
      Ok(_length) => Ok(self.buffer.split().freeze()),
      // An engine that closed with some of the command's input unread. All that it wrote came before this.
      Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(Bytes::new()),
      Err(error) => Err(error),
    }
  }
}

impl Body {
  fn new(framing: Framing) -> Self {
    match framing {
      Framing::UntilClose => Self::UntilClose,
      Framing::Length(length) => Self::Length(length),
      Framing::Chunked => Self::Chunked(Chunked::default()),
    }
  }

  const fn is_end(&self) -> bool {
    match self {
      Self::UntilClose => false,
      Self::Length(left) => *left == 0,
      Self::Chunked(chunked) => chunked.is_end(),
    }
  }

  /// True where the connection may be closed now.
  const fn may_end(&self) -> bool {
    matches!(self, Self::UntilClose) || self.is_end()
  }

  fn decode(&mut self, raw: Bytes) -> std::io::Result<Bytes> {
    match self {
      Self::UntilClose => Ok(raw),
      Self::Length(left) => {
        let data = raw.slice(..usize::try_from(*left).unwrap_or(usize::MAX).min(raw.len()));
        *left -= data.len() as u64;
        Ok(data)
      }
      Self::Chunked(chunked) => {
        let mut decoded = Vec::new();
        chunked.push(&raw, &mut decoded).map_err(std::io::Error::other)?;
        Ok(decoded.into())
      }
    }
  }
}

impl Client {
  /// Sends a request on a connection of its own and takes the connection over.
  pub(super) async fn hijack(&self, path: &str, body: &serde_json::Value) -> Result<Hijacked> {
    let version = self.version().await?;
    let mut stream = self.transport().connect().await?;
    let request = head_and_body(&format!("/v{version}{path}"), &body.to_string());
    // An engine that refuses early may close before it read everything; its reply still says why.
    let sent = send(&mut stream, request.as_bytes()).await;
    let head = match read_head(&mut stream).await {
      Ok(head) => head,
      Err(error) => return Err(self.lost(path, sent.err().unwrap_or(error))),
    };
    if !matches!(head.status, StatusCode::SWITCHING_PROTOCOLS | StatusCode::OK) {
      let body = read_error_body(&mut stream, head.framing, head.rest).await;
      return Err(api_error(&Method::POST, path, &Reply { status: head.status, body }));
    }
    let (half, write) = stream.into_split().map_err(|error| self.lost(path, error))?;
    // Behind a 101 there is no HTTP any more, whatever its head says (RFC 9110, section 15.2.2).
    let switched = head.status == StatusCode::SWITCHING_PROTOCOLS;
    let body = Body::new(if switched { Framing::UntilClose } else { head.framing });
    Ok(Hijacked { read: RawRead { early: head.rest, half, buffer: BytesMut::new(), body }, write })
  }

  fn lost(&self, path: &str, error: std::io::Error) -> Error {
    self.transport().broken_off(&format!("POST {path}"), error)
  }
}

async fn send(stream: &mut Stream, request: &[u8]) -> std::io::Result<()> {
  stream.write_all(request).await?;
  stream.flush().await
}

fn head_and_body(path: &str, body: &str) -> String {
  format!(
    "POST {path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
     Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n{body}",
    body.len()
  )
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Head> {
  let (mut buffer, mut read) = (BytesMut::new(), 0);
  loop {
    match stream.read_buf(&mut buffer).await? {
      0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
      length => read += length,
    }
    while let Some(head) = parse_head(&mut buffer)? {
      // 100 Continue and the like: the real head follows.
      if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Head { rest: buffer.split().freeze(), ..head });
      }
    }
    if read > MAX_HEAD_BYTES {
      return Err(std::io::Error::other("the head of the reply is too long"));
    }
  }
}

/// Takes a head off the buffer, where it is whole.
fn parse_head(buffer: &mut BytesMut) -> std::io::Result<Option<Head>> {
  if buffer.is_empty() {
    return Ok(None);
  }
  let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
  let mut response = httparse::Response::new(&mut fields);
  let length = match response.parse(buffer).map_err(std::io::Error::other)? {
    httparse::Status::Partial => return Ok(None),
    httparse::Status::Complete(length) => length,
  };
  let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
  let status = status.ok_or_else(|| std::io::Error::other("the reply has no status"))?;
  let framing = framing(response.headers);
  let _head = buffer.split_to(length);
  Ok(Some(Head { status, framing, rest: Bytes::new() }))
}

fn framing(headers: &[httparse::Header<'_>]) -> Framing {
  let value = |name: &str| {
    let field = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(field.value).ok().map(|text| text.trim().to_ascii_lowercase())
  };
  if value("transfer-encoding").is_some_and(|coding| coding.ends_with("chunked")) {
    return Framing::Chunked;
  }
  value("content-length").and_then(|length| length.parse().ok()).map_or(Framing::UntilClose, Framing::Length)
}

/// What an error reply says, as far as it comes; a cut one is still quoted.
async fn read_error_body(stream: &mut (impl AsyncRead + Unpin), framing: Framing, rest: Bytes) -> Bytes {
  let (mut body, mut chunked) = (Vec::new(), Chunked::default());
  let mut piece = BytesMut::from(rest.as_ref());
  loop {
    let decoded = match framing {
      Framing::Chunked => chunked.push(&piece, &mut body).is_ok(),
      _ => {
        body.extend_from_slice(&piece);
        true
      }
    };
    let complete = match framing {
      Framing::Length(length) => body.len() as u64 >= length,
      Framing::Chunked => chunked.is_end() || !decoded,
      Framing::UntilClose => false,
    };
    piece.clear();
    if complete || body.len() > MAX_ERROR_BODY_BYTES || stream.read_buf(&mut piece).await.unwrap_or(0) == 0 {
      body.truncate(MAX_ERROR_BODY_BYTES);
      return body.into();
    }
  }
}
