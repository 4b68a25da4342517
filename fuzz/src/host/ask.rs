//! Every kind of operation, and what its result can be.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::{ByteStream, Stdin};
use sandbox_docker::error::Result;
use sandbox_docker::sandbox::output::output;
use sandbox_docker::sandbox::resident::ResidentSandbox;
use sandbox_docker::sandbox::{Command, Outcome, Sandbox};
use sandbox_docker::workspace::path::WorkspacePath;

/// What is read, or written to an output, at most.
const CAP: u64 = 8;
const ENTRIES: usize = 3;
const DEPTH: u32 = 2;
/// Most bytes of a tar: two windows.
const TAR: u64 = 1024 * 1024;
/// What is written: more than may be sent before more is granted, and more than waits for a stream that nobody reads.
pub const LONG: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
  Exec,
  /// With input, and no limit of its time: it ends by being cancelled, or by the link.
  Fed,
  Streamed,
  Read,
  ReadStream,
  Write,
  WriteStream,
  List,
  Import,
  Export,
  KillAll,
}

pub const ASKS: [Ask; 11] = [
  Ask::Exec,
  Ask::Fed,
  Ask::Streamed,
  Ask::Read,
  Ask::ReadStream,
  Ask::Write,
  Ask::WriteStream,
  Ask::List,
  Ask::Import,
  Ask::Export,
  Ask::KillAll,
];

impl Ask {
  /// Does it; panics at a result that it cannot have.
  pub async fn on(self, sandbox: &ResidentSandbox, cancel: &Cancel) -> Result<()> {
    let (file, directory) = (WorkspacePath::parse("f").unwrap(), WorkspacePath::parse("d").unwrap());
    match self {
      Self::Exec | Self::Fed => self.command(sandbox, cancel).await?,
      Self::Streamed => self.streamed(sandbox, cancel).await?,
      Self::Read => {
        let range = sandbox.read_file(&file, 0, CAP, cancel).await?;
        assert!(range.data.len() as u64 <= CAP && range.mode <= 0o7777);
      }
      Self::ReadStream => {
        let read = sandbox.read_stream(&file, 0, TAR, cancel).await?;
        assert!(read.mode <= 0o7777);
        let size = drain(read.bytes).await?;
        assert!(size <= read.size.min(TAR));
      }
      Self::Write => sandbox.write_file(&file, vec![b'x'; LONG].into(), 0o644, cancel).await?,
      Self::WriteStream => {
        let written = sandbox.write_stream(&file, long(), 0o644, cancel).await?;
        assert_eq!(written, LONG as u64);
      }
      Self::List => {
        let listing = sandbox.list(&directory, DEPTH, ENTRIES, cancel).await?;
        assert!(listing.entries.len() <= ENTRIES);
        for entry in &listing.entries {
          let levels = entry.path.strip_prefix("d/").unwrap().split('/').count();
          assert!(levels <= DEPTH as usize && WorkspacePath::parse(&entry.path).is_ok(), "{entry:?}");
        }
        assert!(listing.entries.is_sorted_by(|a, b| a.path <= b.path));
      }
      Self::Import => sandbox.import(long(), cancel).await?,
      Self::Export => {
        let size = drain(sandbox.export(TAR, cancel).await?.tar).await?;
        assert!(size <= TAR);
      }
      Self::KillAll => sandbox.kill_all().await?,
    }
    Ok(())
  }

  async fn command(self, sandbox: &ResidentSandbox, cancel: &Cancel) -> Result<()> {
    let command = match self {
      Self::Fed => Command { stdin: Stdin::Stream(long()), ..command() },
      _ => command(),
    };
    let result = sandbox.exec(command, cancel).await?;
    assert!(result.stdout.len() as u64 <= CAP);
    // That it never ran is said there.
    assert!(result.stderr.len() as u64 <= CAP || result.outcome == Outcome::NotStarted);
    assert_eq!(result.truncated, result.outcome == Outcome::OutputLimit);
    self.told(sandbox, result.outcome, true, true);
    Ok(())
  }

  /// Its output is read, all of it.
  async fn streamed(self, sandbox: &ResidentSandbox, cancel: &Cancel) -> Result<()> {
    let (writer, reader) = output();
    // Without a limit of its time: but who gives it up gives it up.
    let patience = cancel.child();
    let give_up = patience.clone();
    let timer = async move {
      tokio::time::sleep(Duration::from_secs(100)).await;
      give_up.cancel();
      std::future::pending::<()>().await;
    };
    let command = Command { timeout: None, ..command() };
    let running = async {
      let ended = sandbox.stream(command, &writer, &patience).await;
      writer.close(ended.clone().map(drop));
      ended
    };
    let reading = async { while let Ok(Some(_)) = reader.next().await {} };
    let ended = tokio::select! {
      (ended, ()) = async { tokio::join!(running, reading) } => ended,
      () = timer => unreachable!(),
    };
    match ended {
      Ok(end) => self.told(sandbox, end.outcome, false, false),
      // By the timer above.
      Err(error) if error.is_cancelled() && !cancel.is_cancelled() => {}
      Err(error) => return Err(error),
    }
    Ok(())
  }

  /// How a command ended is one of the ways that were asked for, and that this process 1 can tell.
  fn told(self, sandbox: &ResidentSandbox, outcome: Outcome, timed: bool, capped: bool) {
    assert!(sandbox.capabilities().outcomes.contains(&outcome), "{self:?}: {outcome:?}");
    assert!(timed || outcome != Outcome::TimedOut, "{self:?} timed out");
    assert!(capped || outcome != Outcome::OutputLimit, "{self:?} passed its cap");
  }
}

fn command() -> Command {
  Command {
    program: "p".to_owned(),
    args: Vec::new(),
    cwd: WorkspacePath::root(),
    env: BTreeMap::new(),
    stdin: Stdin::Empty,
    timeout: Some(Duration::from_secs(1)),
    max_output_bytes: CAP,
  }
}

fn long() -> ByteStream {
  let pieces = (0..LONG / 1024).map(|_| Ok(Bytes::from_static(&[b'x'; 1024])));
  stream::iter(pieces).boxed()
}

async fn drain(mut bytes: ByteStream) -> Result<u64> {
  let mut all = 0;
  while let Some(piece) = bytes.try_next().await? {
    all += piece.len() as u64;
  }
  Ok(all)
}
