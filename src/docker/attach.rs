//! Attaching to process 1 of a container, or to a new process in it: input and output as one raw, multiplexed stream.
//! Attaching to process 1 is not exclusive; who may write is settled above.

use bytes::Bytes;
use serde_json::{Value, json};

use super::client::Client;
use super::connection::WriteHalf;
use super::exec_stream::ExecSpec;
use super::hijack::RawRead;
use super::request::segment;
use crate::error::{Result, fail};
use crate::stream::frame::{Channel, Demux};

/// A process's output, standard error left out.
pub struct AttachRead {
  raw: RawRead,
  demux: Demux,
}

impl AttachRead {
  /// The next bytes of standard output; empty at the end of the stream.
  pub async fn next(&mut self) -> Result<Bytes> {
    loop {
      let raw = self.raw.next().await.map_err(|error| lost(&error))?;
      if raw.is_empty() {
        return self.demux.finish().map(|()| Bytes::new()).map_err(|error| lost(&error));
      }
      let mut data = Vec::new();
      let sink = |channel, piece: &[u8]| {
        if channel == Channel::Stdout {
          data.extend_from_slice(piece);
        }
      };
      self.demux.push(&raw, sink).map_err(|error| lost(&error))?;
      if !data.is_empty() {
        return Ok(data.into());
      }
    }
  }
}

impl Client {
  /// Attaches to a container without a TTY that has its standard input open. Before its start, so that nothing of its
  /// output is missed, or later.
  pub async fn attach(&self, id: &str) -> Result<(AttachRead, WriteHalf)> {
    let path = format!("/containers/{}/attach?stream=1&stdin=1&stdout=1", segment(id)?);
    let (raw, write) = self.hijack(&path, &Value::Null).await?.split();
    Ok((AttachRead { raw, demux: Demux::default() }, write))
  }

  /// Runs a program in a running container, as `user` (`uid:gid`), and attaches to it. It is not looked after: it ends
  /// when it wants to, or with the container.
  pub async fn attach_exec(
    &self,
    container: &str,
    cmd: &[String],
    user: &str,
  ) -> Result<(AttachRead, WriteHalf)> {
    let spec = ExecSpec { cmd, user, env: &[], working_dir: "/" };
    let id = self.create_exec(container, &spec, true).await?;
    let path = format!("/exec/{}/start", segment(&id)?);
    let (raw, write) = self.hijack(&path, &json!({ "Detach": false, "Tty": false })).await?.split();
    Ok((AttachRead { raw, demux: Demux::default() }, write))
  }
}

fn lost(error: &dyn std::fmt::Display) -> crate::error::Error {
  fail!(DockerApi, "The stream to the sandbox's process 1 was lost: {error}.")
}
