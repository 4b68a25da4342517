//! Connections to the proxy over the supervisor's stream.

use async_trait::async_trait;

use super::ResidentSandbox;
use super::watch::{Patience, Watch};
use crate::error::Result;
use crate::sandbox::connections::{Connection, Connections};
use crate::supervisor::link;

impl ResidentSandbox {
  /// Has process 1 listen on `port` of the container's own loopback address, until this holder lets go of the container.
  /// `UNSUPPORTED` where it cannot.
  pub async fn listen(&self, port: u16) -> Result<Box<dyn Connections>> {
    let what = "Listening for connections to the proxy";
    let mut watch = Watch::new(Patience::FILE);
    Ok(Box::new(watch.over(&self.link, what, self.link.listen(port)).await?))
  }
}

#[async_trait]
impl Connections for link::Connections {
  async fn next(&mut self) -> Option<Box<dyn Connection>> {
    Some(Box::new(Self::next(self).await?))
  }
}

impl Connection for link::Connection {
  fn finish(self: Box<Self>) {
    Self::finish(*self);
  }
}
