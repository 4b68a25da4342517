//! Commands over `docker exec` whose output is read while they run.

use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::command::{Fate, Read};
use super::marks::Marks;
use super::{ExecSandbox, Nonce};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::sandbox::output::{OutputStream, OutputWriter, ProcessEnd};
use crate::sandbox::{Command, CommandResult, Outcome};
use crate::stream::frame::Channel;

/// Pieces between the engine's stream and its reader.
const QUEUE: usize = 4;

impl ExecSandbox {
  pub(super) async fn run_streamed(
    &self,
    command: Command,
    output: &OutputWriter,
    cancel: &Cancel,
  ) -> Result<ProcessEnd> {
    let begun = Instant::now();
    if !self.streams {
      return self.run_whole(command, output, cancel).await;
    }
    let (nonce, program) = (Nonce::new()?, command.program.clone());
    let (sender, taken) = mpsc::channel(QUEUE);
    let mut request = self.request(command, &nonce, cancel);
    request.tap = Some(sender);
    let marks = Marks::new(nonce.as_str());
    let over = Cancel::new();
    let work = async {
      let ran = self.engine.exec(&self.container, request).await;
      over.cancel();
      ran
    };
    let (ran, (rest, fate)) = tokio::join!(work, pass_on(taken, marks, output, &over));
    let ran = self.explained(ran).await?;
    let stderr = match &fate {
      Fate::Unknown => rest,
      _ => {
        output.push(OutputStream::Stderr, rest.into());
        Vec::new()
      }
    };
    let read = Read { output: ran, stderr, fate, cap: u64::MAX, program: &program, begun };
    let result = self.explained(read.into_result()).await?;
    if result.outcome == Outcome::Signaled {
      // What killed the script may have been the end of the container, and then there is no result.
      self.alive().await?;
    }
    Ok(told(result, output))
  }

  /// The double and an application's own client have all output at once, so it comes in one piece at the end, and its cap
  /// counts.
  async fn run_whole(&self, command: Command, output: &OutputWriter, cancel: &Cancel) -> Result<ProcessEnd> {
    let result = self.run(command, cancel).await?;
    output.push(OutputStream::Stdout, result.stdout.clone().into());
    Ok(told(result, output))
  }
}

/// Says on standard error what only the result had, and how it ended.
fn told(result: CommandResult, output: &OutputWriter) -> ProcessEnd {
  output.push(OutputStream::Stderr, result.stderr.into());
  let CommandResult { exit_code, signal, outcome, duration, .. } = result;
  ProcessEnd { exit_code, signal, outcome, duration }
}

/// Passes pieces on as there is room for them, until there are no more; what is left of standard error, and the fate. Once
/// the command is `over`, the last few need no room: its end is not to wait for its reader.
async fn pass_on(
  mut taken: mpsc::Receiver<(Channel, Bytes)>,
  mut marks: Marks,
  output: &OutputWriter,
  over: &Cancel,
) -> (Vec<u8>, Fate) {
  while let Some((channel, data)) = taken.recv().await {
    match channel {
      Channel::Stdout => output.push(OutputStream::Stdout, data),
      Channel::Stderr => output.push(OutputStream::Stderr, marks.pass(&data).into()),
    }
    tokio::select! {
      biased;
      () = over.cancelled() => {}
      () = output.room() => {}
    }
  }
  marks.finish()
}
