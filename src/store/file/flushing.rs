//! Bytes of a snapshot on their way to the disk while others are still being written.

use tokio::task::JoinHandle;

use super::joined;
use super::snapshot_writer::Writer;
use crate::error::Result;

/// So much is written before the disk is asked to take it: little enough that the end has not much left to wait for,
/// enough that a disk is not asked for every piece.
const FLUSH_BYTES: u64 = 8 * 1024 * 1024;

/// Starts a flush whenever there is enough for one and none is under way.
#[derive(Default)]
pub(super) struct Flushing {
  begun_at: u64,
  under_way: Option<JoinHandle<Result<()>>>,
}

impl Flushing {
  /// To be called after writes. The error of an earlier flush is given here, and nowhere else: the kernel tells of it once.
  pub(super) async fn keep_up(&mut self, writer: &Writer) -> Result<()> {
    let busy = self.under_way.as_ref().is_some_and(|task| !task.is_finished());
    if busy || writer.length() - self.begun_at < FLUSH_BYTES {
      return Ok(());
    }
    self.finish().await?;
    self.begun_at = writer.length();
    self.under_way = Some(tokio::task::spawn_blocking(writer.flusher()?));
    Ok(())
  }

  /// Waits for what is under way.
  pub(super) async fn finish(&mut self) -> Result<()> {
    match self.under_way.take() {
      Some(task) => joined(task).await,
      None => Ok(()),
    }
  }
}
