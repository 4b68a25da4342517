//! Ending a connection so that the client can read the last reply.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::limits::{PROXY_LINGER, PROXY_LINGER_BYTES};

/// Bytes that are thrown away with one read.
const READ_BYTES: usize = 4 * 1024;

/// Writes the last reply and ends the connection.
pub(super) async fn reply<S>(stream: &mut S, reply: &[u8])
where
  S: AsyncRead + AsyncWrite + Unpin,
{
  // A client that does not read loses its reply, and nothing else depends on it.
  if let Ok(Ok(())) = timeout(PROXY_LINGER, stream.write_all(reply)).await {
    end(stream).await;
  }
}

/// Ends our direction, then throws away what still comes: closing a socket with unread bytes resets it, and the reset
/// may overtake the reply.
pub(super) async fn end<S>(stream: &mut S)
where
  S: AsyncRead + AsyncWrite + Unpin,
{
  let drain = async {
    if stream.shutdown().await.is_err() {
      return;
    }
    let mut buffer = vec![0; READ_BYTES];
    let mut left = PROXY_LINGER_BYTES;
    while left > 0 {
      match stream.read(&mut buffer).await {
        Ok(read) if read > 0 => left = left.saturating_sub(read),
        _ => return,
      }
    }
  };
  // Whether the client ended or the time did, the connection is over.
  drop(timeout(PROXY_LINGER, drain).await);
}
