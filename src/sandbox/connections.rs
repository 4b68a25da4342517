//! Connections that programs in a container make to the proxy, whichever way they come out.

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

/// One connection. Dropping it resets it: the program learns that not all arrived.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {
  /// Ends it as any other.
  fn finish(self: Box<Self>);
}

/// Connections as they are made.
#[async_trait]
pub trait Connections: Send + Sync {
  /// The next one; `None` once none comes any more. Nothing is lost when this is dropped.
  async fn next(&mut self) -> Option<Box<dyn Connection>>;
}
