//! Commands and files that are read while they go on.

use napi::bindgen_prelude::{Env, Uint8Array};
use napi_derive::napi;

use super::convert::exit_code;
use super::outcome::{Promised, spawn};
use crate::environment::processes::{Running, Term};
use crate::sandbox::Outcome as CommandOutcome;
use crate::sandbox::output::{OutputStream, Piece, ProcessEnd};

/// A running command, or a file that is being read.
#[napi]
pub struct ProcessHandle {
  running: Running,
  term: Term,
}

impl ProcessHandle {
  pub(super) const fn new(running: Running, term: Term) -> Self {
    Self { running, term }
  }
}

impl Drop for ProcessHandle {
  fn drop(&mut self) {
    // Nobody can read it any more. What was put into the background goes on.
    if self.term == Term::Limited {
      self.running.stop();
    }
  }
}

/// A piece of output.
#[napi(object, object_from_js = false)]
pub struct OutputPiece {
  /// `stdout` or `stderr`.
  pub stream: &'static str,
  /// The bytes.
  pub data: Uint8Array,
}

/// How a command ended.
#[napi(object, object_from_js = false)]
pub struct ProcessReport {
  /// Its exit code, where it has one.
  pub exit_code: Option<f64>,
  /// The signal that ended it, where that is known.
  pub signal: Option<&'static str>,
  /// How it ended.
  pub outcome: &'static str,
  /// The time limit passed.
  pub timed_out: bool,
  /// How long it ran, in milliseconds.
  pub duration_ms: f64,
}

#[napi]
impl ProcessHandle {
  /// What came since the last call, or null at the end.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | Array<OutputPiece> | null>")]
  pub fn next<'env>(&self, env: &'env Env) -> Promised<'env, Option<Vec<OutputPiece>>> {
    let running = self.running.clone();
    spawn(env, async move { Ok(running.next().await?.map(|batch| batch.into_iter().map(piece).collect())) })
  }

  /// How it ended.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | ProcessReport>")]
  pub fn result<'env>(&self, env: &'env Env) -> Promised<'env, ProcessReport> {
    let running = self.running.clone();
    spawn(env, async move { running.end().await.map(report) })
  }

  /// Kills it with all that it started, and waits until that is done.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn stop<'env>(&self, env: &'env Env) -> Promised<'env, Option<u32>> {
    let running = self.running.clone();
    running.stop();
    spawn(env, async move {
      running.closed().await;
      Ok(None)
    })
  }
}

fn piece(piece: Piece) -> OutputPiece {
  let stream = match piece.stream {
    OutputStream::Stdout => "stdout",
    OutputStream::Stderr => "stderr",
  };
  OutputPiece { stream, data: Vec::from(piece.data).into() }
}

fn report(end: ProcessEnd) -> ProcessReport {
  ProcessReport {
    exit_code: end.exit_code.map(exit_code),
    signal: end.signal,
    outcome: end.outcome.as_str(),
    timed_out: end.outcome == CommandOutcome::TimedOut,
    duration_ms: end.duration.as_secs_f64() * 1000.0,
  }
}
