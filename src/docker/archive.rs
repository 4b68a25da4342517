//! Archives in and out. The engine's own archive calls do not see a tmpfs (they write to the layer beneath it) and
//! refuse a read-only root, so a running container that has either is served by its own `tar`, in an exec.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, TryStreamExt};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::{Method, header};
use tokio::time::{Instant, timeout, timeout_at};

use super::client::Client;
use super::engine::{ArchiveBody, ByteStream, ExecEnd, ExecRequest, Stdin};
use super::exec_stream::{ExecSpec, ExecStream, ReadEnd};
use super::request::{encode, full, segment};
use crate::cancel::Cancel;
use crate::error::{Error, Result, fail};
use crate::limits::ARCHIVE_TIMEOUT;
use crate::stream::frame::Channel;
use crate::stream::output::CappedOutput;

/// Kept of what `tar` says.
const TAR_MESSAGE_BYTES: u64 = 4096;
/// A working `tar` says less than this; one that says more is stopped.
const TAR_OUTPUT_BYTES: u64 = 1024 * 1024;

/// GNU tar takes more arguments from this variable; those of a container's environment are not ours.
const PLAIN_TAR: &str = "TAR_OPTIONS=";

/// How a container's own `tar` unpacks.
#[derive(Clone, Copy)]
pub(super) enum Unpacking {
  /// As it does by itself: the umask takes bits from modes.
  Plain,
  /// With the modes of the archive, which has an entry for each directory and no set-id bit. It needs `/bin/sh`.
  AllModes,
}

impl Unpacking {
  /// `-o`: the files belong to whoever unpacks them, whatever the archive says.
  fn command(self, path: &str) -> Vec<String> {
    match self {
      Self::Plain => ["/bin/tar", "-x", "-o", "-f", "-", "-C", path].map(str::to_owned).to_vec(),
      Self::AllModes => ["/bin/sh", "-c", UNPACK_ALL_MODES, "sh", path].map(str::to_owned).to_vec(),
    }
  }
}

/// For an ordinary user BusyBox applies the umask with `-p` too.
const UNPACK_ALL_MODES: &str = r#"umask 0; exec /bin/tar -x -o -p -f - -C "$1""#;

impl Client {
  /// Unpacks a tar below `path`.
  pub(super) async fn put(
    &self,
    id: &str,
    path: &str,
    body: ArchiveBody,
    unpacking: Unpacking,
  ) -> Result<()> {
    let found = self.inspection(id).await?;
    let host = &found.host_config;
    let hidden = host.readonly_rootfs || host.tmpfs.as_ref().is_some_and(|tmpfs| !tmpfs.is_empty());
    if found.state.running && hidden {
      return self.put_by_tar(id, path, body, unpacking).await;
    }
    self.put_by_engine(id, path, body).await
  }

  async fn put_by_engine(&self, id: &str, path: &str, body: ArchiveBody) -> Result<()> {
    let target = format!("/containers/{}/archive?path={}", segment(id)?, encode(path));
    let version = self.version().await?;
    let mut request = self.request(Method::PUT, &format!("/v{version}{target}"), None)?;
    request.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/x-tar"));
    *request.body_mut() = match body {
      ArchiveBody::Bytes(bytes) => full(bytes),
      ArchiveBody::Stream(pieces) => BodyExt::boxed_unsync(StreamBody::new(pieces.map_ok(Frame::data))),
    };
    let sent = async {
      let reply = self.open(&Method::PUT, &target, request).await?;
      drop(reply.into_body().collect().await);
      Ok(())
    };
    timeout(ARCHIVE_TIMEOUT, sent).await.unwrap_or_else(|_elapsed| Err(too_slow("into", id, path)))
  }

  /// Unpacks a tar by the engine's own archive call, which reaches the root and volumes, and no tmpfs.
  pub async fn put_engine_archive(&self, id: &str, path: &str, tar: Bytes) -> Result<()> {
    self.put_by_engine(id, path, ArchiveBody::Bytes(tar)).await
  }

  /// A tar of `path` by the engine's own archive call; the same is reached.
  pub async fn engine_archive(&self, id: &str, path: &str) -> Result<ByteStream> {
    let target = format!("/containers/{}/archive?path={}", segment(id)?, encode(path));
    let version = self.version().await?;
    let request = self.request(Method::GET, &format!("/v{version}{target}"), None)?;
    let opened = timeout(ARCHIVE_TIMEOUT, self.open(&Method::GET, &target, request)).await;
    let reply = opened.unwrap_or_else(|_elapsed| Err(too_slow("from", id, path)))?;
    let what = format!("GET {target}");
    Ok(
      http_body_util::BodyDataStream::new(reply.into_body())
        .map_err(move |error| {
          fail!(DockerApi, "The Docker engine broke off its reply to {what}.").with_source(error)
        })
        .boxed(),
    )
  }

  async fn put_by_tar(&self, id: &str, path: &str, body: ArchiveBody, unpacking: Unpacking) -> Result<()> {
    let request = ExecRequest {
      cmd: unpacking.command(path),
      user: String::new(),
      env: vec![PLAIN_TAR.to_owned()],
      working_dir: "/".to_owned(),
      timeout: ARCHIVE_TIMEOUT,
      max_output_bytes: TAR_OUTPUT_BYTES,
      stdin: match body {
        ArchiveBody::Bytes(bytes) => Stdin::Bytes(bytes),
        ArchiveBody::Stream(pieces) => Stdin::Stream(pieces),
      },
      cancel: Cancel::new(),
      skip_terminate: true,
      marker: None,
      extra_stderr_bytes: 0,
      clean_mark: None,
      exclusive: false,
      tap: None,
      permit: None,
    };
    let output = self.run_exec(id, request).await?;
    match (output.end, output.exit_code) {
      (ExecEnd::Finished | ExecEnd::OutputHeld, Some(0)) => Ok(()),
      (ExecEnd::TimedOut, _) => Err(too_slow("into", id, path)),
      (_, code) => Err(tar_failed("unpack into", id, path, code, &[output.stdout, output.stderr].concat())),
    }
  }

  /// A tar of `path`, named after its last component.
  pub(super) async fn get(&self, id: &str, path: &str, max_bytes: u64) -> Result<ByteStream> {
    let (parent, name) = split_path(path)?;
    let cmd = ["/bin/tar", "-c", "-f", "-", "-C", parent, "--", name].map(str::to_owned);
    let env = [PLAIN_TAR.to_owned()];
    let spec = ExecSpec { cmd: &cmd, user: "", env: &env, working_dir: "/" };
    let deadline = Instant::now() + ARCHIVE_TIMEOUT;
    let opened = self.open_exec(id, spec, Stdin::Empty, None, deadline, &Cancel::new()).await;
    let exec = opened.map_err(|unopened| unopened.error)?;
    let state = Reading {
      exec,
      left: max_bytes,
      max_bytes,
      message: CappedOutput::new(TAR_MESSAGE_BYTES),
      any: false,
      container: id.to_owned(),
      path: path.to_owned(),
    };
    Ok(
      stream::try_unfold(Some(state), |state| async {
        let Some(mut reading) = state else { return Ok(None) };
        let data = reading.next().await?;
        Ok(data.map(|data| (data, Some(reading))))
      })
      .boxed(),
    )
  }
}

/// A `tar -c` that is being read.
struct Reading {
  exec: ExecStream,
  left: u64,
  max_bytes: u64,
  message: CappedOutput,
  any: bool,
  container: String,
  path: String,
}

impl Reading {
  async fn next(&mut self) -> Result<Option<Bytes>> {
    // For each piece anew: how long the reader of the archive takes is its own affair.
    let deadline = Instant::now() + ARCHIVE_TIMEOUT;
    loop {
      let (mut data, message) = (Vec::new(), &mut self.message);
      let read = self.exec.read(|channel, piece| match channel {
        Channel::Stdout => data.extend_from_slice(piece),
        Channel::Stderr => message.push(piece),
      });
      let end = timeout_at(deadline, read)
        .await
        .unwrap_or_else(|_elapsed| Err(too_slow("from", &self.container, &self.path)))?;
      if !data.is_empty() {
        return self.count(data).map(Some);
      }
      if let Some(end) = end {
        return self.finish(end, deadline).await.map(|()| None);
      }
    }
  }

  fn count(&mut self, data: Vec<u8>) -> Result<Bytes> {
    self.any |= data.iter().any(|byte| *byte != 0);
    self.left = self.left.checked_sub(data.len() as u64).ok_or_else(|| {
      fail!(
        Limit,
        "The archive of {} in container {} is longer than {} bytes.",
        self.path,
        self.container,
        self.max_bytes
      )
    })?;
    Ok(data.into())
  }

  async fn finish(&mut self, end: ReadEnd, deadline: Instant) -> Result<()> {
    let state = self.exec.wait_ended(deadline).await?;
    let code = if state.running { None } else { state.exit_code };
    match (end, code) {
      // GNU tar ends with 1 when a file changed while it was read; BusyBox when the path is not there, and then it
      // wrote nothing but zeros.
      (ReadEnd::Closed, Some(0)) => Ok(()),
      (ReadEnd::Closed, Some(1)) if self.any => Ok(()),
      (ReadEnd::Closed, Some(1 | 2)) => Err(fail!(
        NotFound,
        "Path {} was not found in container {}: {}",
        self.path,
        self.container,
        text(self.message.as_bytes())
      )),
      (_, code) => Err(tar_failed("read", &self.container, &self.path, code, self.message.as_bytes())),
    }
  }
}

/// Parent and last component of an absolute path of one thing.
fn split_path(path: &str) -> Result<(&str, &str)> {
  let invalid = || {
    fail!(
      PathInvalid,
      "Archive path {path:?} names no single file or directory; use an absolute path such as /workspace/src."
    )
  };
  let (parent, name) = path.rsplit_once('/').ok_or_else(invalid)?;
  if !path.starts_with('/') || path.contains('\0') || matches!(name, "" | "." | "..") {
    return Err(invalid());
  }
  Ok((if parent.is_empty() { "/" } else { parent }, name))
}

fn text(bytes: &[u8]) -> String {
  String::from_utf8_lossy(bytes).trim().to_owned()
}

fn too_slow(direction: &str, id: &str, path: &str) -> Error {
  fail!(
    Limit,
    "The archive {direction} {path} of container {id} took longer than {} s and was given up.",
    ARCHIVE_TIMEOUT.as_secs()
  )
}

fn tar_failed(what: &str, id: &str, path: &str, code: Option<i64>, message: &[u8]) -> Error {
  let message = text(message.get(..message.len().min(1000)).unwrap_or_default());
  let code = code.map_or_else(|| "without an exit code".to_owned(), |code| format!("with exit code {code}"));
  fail!(DockerApi, "The tar in container {id} could not {what} {path}; it ended {code}: {message}")
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_path_has_a_parent_and_a_name() {
    assert_eq!(split_path("/workspace").unwrap(), ("/", "workspace"));
    assert_eq!(split_path("/a/-rf").unwrap(), ("/a", "-rf"));
    for path in ["", "/", "a", "/a/", "/a/..", "/a/.", "a/b", "/a\0b"] {
      assert!(split_path(path).is_err(), "{path:?}");
    }
  }
}
