//! Reading a head from a connection.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::http::HeadEnd;

/// Room for one more read; a head is rarely longer.
const READ_BYTES: usize = 2 * 1024;

/// Why there is no head.
#[derive(Debug)]
pub(super) enum HeadFault {
  /// It is longer than allowed.
  TooLarge,
  /// It has what no head may have.
  Malformed(&'static str),
  /// The connection ended or broke first, after this many bytes.
  Ended(usize),
}

/// Reads until `buffer` holds a whole head of at most `max` bytes; returns its length. What came after it stays behind it
/// in the buffer.
pub(super) async fn read_head<R>(from: &mut R, buffer: &mut BytesMut, max: usize) -> Result<usize, HeadFault>
where
  R: AsyncRead + Unpin,
{
  let mut end = HeadEnd::default();
  loop {
    match end.find(buffer.get(..max).unwrap_or(buffer)).map_err(HeadFault::Malformed)? {
      Some(length) => return Ok(length),
      None if buffer.len() >= max => return Err(HeadFault::TooLarge),
      None => {}
    }
    buffer.reserve(READ_BYTES);
    match from.read_buf(buffer).await {
      Ok(read) if read > 0 => {}
      _ => return Err(HeadFault::Ended(buffer.len())),
    }
  }
}
