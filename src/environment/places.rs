//! The places of what goes on in a session at the same time: commands, `limits.maxConcurrentProcesses` of them, and
//! operations on files.

use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::cancel::Cancel;
use crate::error::{Result, fail};
use crate::sandbox::Capabilities;

/// All places of a session.
pub struct Places {
  /// As many as the transport takes of both, of which neither can have all.
  operations: Semaphore,
  files: Semaphore,
  free: Semaphore,
  all: u32,
  /// Those of processes that run until somebody ends them.
  background: watch::Sender<u32>,
}

/// One place, free again when this goes.
pub struct Place<'a> {
  _permits: [SemaphorePermit<'a>; 2],
  background: Option<&'a watch::Sender<u32>>,
}

impl Drop for Place<'_> {
  fn drop(&mut self) {
    if let Some(background) = self.background {
      background.send_modify(|count| *count -= 1);
    }
  }
}

impl Places {
  /// For so many commands, or as many as the transport takes.
  pub fn new(commands: u32, capabilities: &Capabilities) -> Self {
    let all = commands.min(capabilities.most_commands);
    Self {
      operations: Semaphore::new(capabilities.most_operations),
      files: Semaphore::new(capabilities.most_file_operations),
      free: Semaphore::new(all as usize),
      all,
      background: watch::Sender::new(0),
    }
  }

  /// Takes a place for an operation on files that ends by itself; waits until others have ended.
  pub async fn take_for_file(&self, cancel: &Cancel) -> Result<Place<'_>> {
    let both = async { Ok([permit(&self.files).await?, permit(&self.operations).await?]) };
    let permits = cancel.guard("Waiting for other operations on files", both).await?;
    Ok(Place { _permits: permits, background: None })
  }

  /// Takes a place for a command, for a process without a time limit where `background` is true. Waits until a command ends.
  ///
  /// # Errors
  ///
  /// `LIMIT` where all places are taken by processes without a time limit, since none may ever be free.
  pub async fn take(&self, background: bool, cancel: &Cancel) -> Result<Place<'_>> {
    let both = async {
      let free = tokio::select! {
        biased;
        free = permit(&self.free) => free?,
        () = self.taken_for_good() => return Err(fail!(
          Limit,
          "All {} places of limits.maxConcurrentProcesses are taken by spawned processes. Kill one, or raise the limit.",
          self.all
        )),
      };
      Ok([free, permit(&self.operations).await?])
    };
    let permits = cancel.guard("Waiting for a place among the running commands", both).await?;
    let background = background.then_some(&self.background);
    if let Some(background) = background {
      background.send_modify(|count| *count += 1);
    }
    Ok(Place { _permits: permits, background })
  }

  /// Waits until no place may ever be free.
  async fn taken_for_good(&self) {
    // The sender is held here, so this cannot fail.
    self.background.subscribe().wait_for(|count| *count >= self.all).await.ok();
  }
}

async fn permit(of: &Semaphore) -> Result<SemaphorePermit<'_>> {
  of.acquire().await.map_err(|error| fail!(Internal, "The session's places are gone.").with_source(error))
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::error::ErrorCode;

  /// Places for so many commands, where the transport takes five operations, three of them commands or two on files.
  fn places(commands: u32) -> Places {
    let capabilities = Capabilities {
      transport: "exec",
      outcomes: &[],
      race_free_paths: true,
      commands_end: true,
      most_operations: 5,
      most_commands: 3,
      most_file_operations: 2,
    };
    Places::new(commands, &capabilities)
  }

  #[tokio::test]
  async fn a_command_waits_for_commands_and_not_for_what_may_never_end() {
    let (places, never) = (places(2), Cancel::new());
    let server = places.take(true, &never).await.unwrap();
    let command = places.take(false, &never).await.unwrap();
    let (next, ()) = tokio::join!(places.take(true, &never), async { drop(command) });
    let next = next.unwrap();
    let refused = places.take(false, &never).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::Limit);
    drop(next);
    assert!(places.take(false, &never).await.is_ok());
    drop(server);
  }

  #[tokio::test]
  async fn what_waits_behind_a_process_that_may_never_end_is_refused_once_that_has_the_last_place() {
    let (places, never) = (places(1), Cancel::new());
    let command = places.take(false, &never).await.unwrap();
    let (server, refused, ()) =
      tokio::join!(places.take(true, &never), places.take(false, &never), async { drop(command) });
    assert_eq!(refused.err().unwrap().code(), ErrorCode::Limit);
    drop(server.unwrap());
    assert!(places.take(false, &never).await.is_ok());
  }

  #[tokio::test]
  async fn no_number_of_commands_keeps_out_files_nor_files_commands() {
    let (places, never) = (places(100), Cancel::new());
    let mut servers = Vec::new();
    for _ in 0..3 {
      servers.push(places.take(true, &never).await.unwrap());
    }
    assert_eq!(places.take(false, &never).await.err().unwrap().code(), ErrorCode::Limit);
    let mut files = Vec::new();
    for _ in 0..2 {
      files.push(places.take_for_file(&never).await.unwrap());
    }
    let (third, ()) = tokio::join!(places.take_for_file(&never), async { files.truncate(1) });
    servers.clear();
    assert!(third.is_ok() && places.take(false, &never).await.is_ok());
  }
}
