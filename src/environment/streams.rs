//! Files of any size, piece by piece. `limits.maxFileBytes` is for files that are whole in memory and does not count.

use futures_util::StreamExt;
use tokio::sync::oneshot;

use super::changes::By;
use super::event::Operation;
use super::observe::DONE;
use super::operations::checked_mode;
use super::processes::Running;
use super::session::Session;
use crate::cancel::Cancel;
use crate::docker::ByteStream;
use crate::error::{Result, fail};
use crate::sandbox::output::{OutputStream, OutputWriter, output};
use crate::workspace::path::WorkspacePath;

/// A file that is being read.
pub struct OpenFile {
  /// Its path.
  pub path: WorkspacePath,
  /// Size when it was opened.
  pub size: u64,
  /// Permission bits.
  pub mode: u32,
  /// Its bytes, as standard output.
  pub contents: Running,
}

impl Session {
  /// Reads a file, `limit` bytes from `offset`, as far as it went when it was opened.
  pub async fn read_file_stream(
    &self,
    path: &str,
    offset: u64,
    limit: Option<u64>,
    caller: &Cancel,
  ) -> Result<OpenFile> {
    let path = WorkspacePath::parse(path)?;
    let (writer, reader) = output();
    let (tell, told) = oneshot::channel();
    let stop = caller.child();
    let contents = Running::new(reader.clone(), stop.clone());
    let (session, of, caller) = (self.clone(), path.clone(), caller.clone());
    tokio::spawn(async move {
      let work = session.read_into(&of, offset, limit.unwrap_or(u64::MAX), &writer, tell, &stop);
      let work = async {
        match work.await {
          // The reader has enough.
          Err(error) if error.is_cancelled() && !caller.is_cancelled() => Ok(()),
          read => read,
        }
      };
      let seen = |(): &()| (DONE, usize::try_from(writer.passed()).unwrap_or(usize::MAX));
      let read = session.observed(Operation::ReadFile, 0, work, seen).await;
      writer.close(read);
    });
    match told.await {
      Ok((size, mode)) => Ok(OpenFile { path, size, mode, contents }),
      // It could not be opened, and that is how the output was closed.
      Err(_) => Err(
        reader.end().await.err().unwrap_or_else(|| fail!(Internal, "Reading {path} ended before it began.")),
      ),
    }
  }

  async fn read_into(
    &self,
    path: &WorkspacePath,
    offset: u64,
    limit: u64,
    writer: &OutputWriter,
    tell: oneshot::Sender<(u64, u32)>,
    stop: &Cancel,
  ) -> Result<()> {
    self
      .operate(stop, |cancel| async move {
        let mut file = self.sandbox().read_stream(path, offset, limit, &cancel).await?;
        // Nobody may wait for it any more.
        tell.send((file.size, file.mode)).ok();
        let what = format!("Reading {path}");
        while let Some(piece) = file.bytes.next().await.transpose()? {
          writer.push(OutputStream::Stdout, piece);
          let room = async {
            writer.room().await;
            Ok(())
          };
          cancel.guard(&what, room).await?;
        }
        Ok(())
      })
      .await
  }

  /// The path of a file that is about to be written, checked.
  pub fn path_to_write(path: &str) -> Result<WorkspacePath> {
    WorkspacePath::parse(path)
  }

  /// Writes a file until `contents` end, whole or not at all; an error of theirs is the error of the whole.
  pub async fn write_file_stream(
    &self,
    path: &WorkspacePath,
    contents: ByteStream,
    mode: Option<u32>,
    caller: &Cancel,
  ) -> Result<u64> {
    let work = async {
      let mode = checked_mode(path, mode)?;
      self
        .operate(caller, |cancel| async move {
          let _change = self.begin_change(By::Write).await?;
          self.sandbox().write_stream(path, contents, mode, &cancel).await
        })
        .await
    };
    self.observed(Operation::WriteFile, 0, work, |_| (DONE, 0)).await
  }
}
