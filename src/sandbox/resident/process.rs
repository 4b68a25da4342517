//! Commands over the supervisor whose output is read while they run.

use std::future::Future;
use std::time::{Duration, Instant};

use super::command::{WHAT, complaint, last_word, outcome};
use super::watch::{Patience, Watch};
use super::{ResidentSandbox, unexpected};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::sandbox::Command;
use crate::sandbox::output::{OutputStream, OutputWriter, ProcessEnd};
use crate::supervisor::link::{Event, Sink};
use crate::supervisor::wire::{CommandEnd, Started, Stream};

/// Passes events of a command on to whoever reads its output.
struct Passing<'a> {
  output: &'a OutputWriter,
  begun: Instant,
  exited: Option<CommandEnd>,
}

impl Passing<'_> {
  fn end(&self, end: CommandEnd) -> Result<ProcessEnd> {
    let (outcome, exit_code, signal) = outcome(end)?;
    Ok(ProcessEnd { exit_code, signal, outcome, duration: self.begun.elapsed() })
  }
}

impl Sink for Passing<'_> {
  fn has_room(&self) -> bool {
    self.output.has_room()
  }

  fn room(&self) -> impl Future<Output = ()> + Send {
    self.output.room()
  }

  fn take(&mut self, event: Event) -> Result<()> {
    match event {
      Event::Data(Stream::Output, bytes) => self.output.push(OutputStream::Stdout, bytes),
      Event::Data(Stream::Error, bytes) => self.output.push(OutputStream::Stderr, bytes),
      Event::Data(Stream::Input, _) | Event::Started(Started::File { .. }) => {
        return Err(unexpected("a command"));
      }
      Event::Exited(end) => {
        self.exited = Some(end);
        // That it was stopped, here, is the error of the whole.
        if let Ok(end) = self.end(end) {
          self.output.exited(end);
        }
      }
      Event::Started(Started::Command { .. }) | Event::End(_) | Event::Credit(_) | Event::Done(_) => {}
    }
    Ok(())
  }
}

impl ResidentSandbox {
  /// Runs a command. The host's own deadline holds until it has ended; its output may wait for its reader for ever.
  pub(super) async fn run_streamed(
    &self,
    command: Command,
    output: &OutputWriter,
    cancel: &Cancel,
  ) -> Result<ProcessEnd> {
    let mut passing = Passing { output, begun: Instant::now(), exited: None };
    let mut watch = Watch::new(Patience::command(command.timeout.unwrap_or(Duration::MAX)));
    let program = command.program.clone();
    let (operation, stdin) = self.start(command, u64::MAX, cancel).await?;
    let reply = {
      let work = operation.run_paced(stdin, WHAT, cancel, &mut passing);
      tokio::select! {
        biased;
        reply = work => reply?,
        Err(late) = watch.over(&self.link, WHAT, output.has_exited()) => return Err(late),
      }
    };
    let end = last_word(reply, passing.exited, &program)?;
    if let Some(why) = complaint(end, &program) {
      output.push(OutputStream::Stderr, why.into());
    }
    passing.end(end)
  }
}
