//! Commands of a session whose output is read while they run, and those that go on in the background.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use super::changes::By;
use super::event::Operation;
use super::operations::ExecArguments;
use super::session::Session;
use crate::cancel::Cancel;
use crate::error::{Error, Result, fail};
use crate::sandbox::output::{OutputReader, OutputWriter, Piece, ProcessEnd, output};
use crate::sandbox::{Command, Outcome};

/// How long a command may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
  /// As long as every command: within the environment's time limit.
  Limited,
  /// Until it ends, is killed, or the session ends; a limit only where the caller gives one.
  Background,
}

/// Something that goes on by itself and is read meanwhile. Cheap to clone; dropping it changes nothing.
#[derive(Clone)]
pub struct Running {
  reader: OutputReader,
  stop: Cancel,
}

impl Running {
  pub(super) const fn new(reader: OutputReader, stop: Cancel) -> Self {
    Self { reader, stop }
  }

  /// What came, `None` at the end.
  pub async fn next(&self) -> Result<Option<Vec<Piece>>> {
    self.reader.next().await
  }

  /// How the command ended, as soon as it did.
  pub async fn end(&self) -> Result<ProcessEnd> {
    self.reader.end().await
  }

  /// Ends it, if it has not ended; it need not be waited for.
  pub fn stop(&self) {
    self.stop.cancel();
  }

  /// Waits until all of it is over.
  pub async fn closed(&self) {
    self.reader.closed().await;
  }
}

impl Session {
  /// Starts a command. What it may not do is refused here; that it could not be started is how it ends.
  pub async fn start(&self, arguments: ExecArguments, term: Term, caller: &Cancel) -> Result<Running> {
    let (bytes_in, limit) = (arguments.stdin_bytes(), arguments.timeout);
    let (writer, reader) = output();
    let (ready, is_ready) = oneshot::channel();
    let (session, caller, stop) = (self.clone(), caller.clone(), caller.child());
    let running = Running::new(reader.clone(), stop.clone());
    tokio::spawn(async move {
      let begun = Instant::now();
      let work = async {
        let command = session.command_of(arguments, term, limit)?;
        let ran = session.run_into(command, &writer, ready, &stop).await;
        ran.or_else(|error| killed(error, begun.elapsed(), caller.is_cancelled()))
      };
      let seen =
        |end: &ProcessEnd| (end.outcome.as_str(), usize::try_from(writer.passed()).unwrap_or(usize::MAX));
      let result = session.observed(Operation::Exec, bytes_in, work, seen).await;
      let closed = result.map(|end| writer.exited(end));
      writer.close(closed);
    });
    match is_ready.await {
      Ok(()) => Ok(running),
      // It was refused, and that is how the output was closed.
      Err(_) => {
        Err(reader.end().await.err().unwrap_or_else(|| fail!(Internal, "A command ended before it began.")))
      }
    }
  }

  fn command_of(&self, arguments: ExecArguments, term: Term, limit: Option<Duration>) -> Result<Command> {
    let command = self.checked_command(arguments)?;
    Ok(match term {
      Term::Limited => command,
      Term::Background => Command { timeout: limit, ..command },
    })
  }

  async fn run_into(
    &self,
    command: Command,
    writer: &OutputWriter,
    ready: oneshot::Sender<()>,
    stop: &Cancel,
  ) -> Result<ProcessEnd> {
    self
      .operate(stop, |cancel| async move {
        let place = self.places().take(command.timeout.is_none(), &cancel).await?;
        let change = self.begin_change(By::Command).await?;
        cancel.check("The sandbox command")?;
        // Nobody may wait for it any more.
        ready.send(()).ok();
        let stream = pin!(self.sandbox().stream(command, writer, &cancel));
        match select(stream, pin!(writer.has_exited())).await {
          Either::Left((ended, _)) => ended,
          // Its output may wait for a reader for as long as that likes.
          Either::Right((_, stream)) => {
            drop((place, change));
            stream.await
          }
        }
      })
      .await
  }
}

/// A command that was stopped by [`Running::stop`] ended by our SIGKILL; by the caller's signal, it was cancelled.
fn killed(error: Error, duration: Duration, by_caller: bool) -> Result<ProcessEnd> {
  if !error.is_cancelled() || by_caller {
    return Err(error);
  }
  Ok(ProcessEnd { exit_code: None, signal: Some("SIGKILL"), outcome: Outcome::Signaled, duration })
}
