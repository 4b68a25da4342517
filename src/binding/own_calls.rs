//! Calls of a store or Docker client that the application wrote. Each goes to JavaScript through a weak threadsafe function, which never
//! keeps a process alive, as an object that JavaScript answers when it can. Nothing is read from what the callback
//! returns or throws, and a call ends however JavaScript fares: answered, refused, forgotten, too late, or torn down with
//! its environment.

use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use napi::Status;
use napi::bindgen_prelude::Uint8Array;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode, UnknownReturnValue};
use napi_derive::napi;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::interval;

use super::archive::ArchiveDownload;
use super::convert::copy;
use super::homebound::Homebound;
use super::outcome::Thrown;
use crate::awake::within;
use crate::error::{Error, ErrorCode, Result, fail, shown};
use crate::limits::MAX_OWN_CALLS;

/// Calls on their way to the JavaScript thread: all that may be under way, and as many notices of streams that ended.
const QUEUE: usize = 2 * MAX_OWN_CALLS;
/// How often a call that waits looks whether its JavaScript environment is still there. One that is torn down drops what
/// was queued without a word.
const ALIVE_CHECK: Duration = Duration::from_millis(250);

/// JavaScript's side: a function that takes a [`OwnCall`].
pub type Dispatch = ThreadsafeFunction<OwnCall, UnknownReturnValue, OwnCall, Status, false, true, QUEUE>;

/// What the application answered.
pub enum Answer {
  /// A value as JSON.
  Json(String),
  /// A value as JSON, and bytes beside it.
  Parts(String, Vec<Bytes>),
  /// A piece of a tar.
  Piece(Bytes),
  /// The end of a tar.
  End,
}

/// What is asked of the application.
pub struct Question {
  /// Name of the method.
  pub method: &'static str,
  /// The tar that is read or was saved, or the command that runs: the number that later questions name it by.
  pub stream: u32,
  /// Arguments as a JSON array.
  pub arguments: String,
  /// The tar that is to be saved or unpacked.
  pub tar: Option<ArchiveDownload>,
}

/// One call, for JavaScript to answer once.
#[napi]
pub struct OwnCall {
  question: Question,
  tell: Mutex<Option<oneshot::Sender<Result<Answer>>>>,
}

#[napi]
impl OwnCall {
  /// Name of the method.
  #[napi(catch_unwind)]
  pub fn method(&self) -> &'static str {
    self.question.method
  }

  /// Arguments as a JSON array.
  #[napi(catch_unwind)]
  pub fn arguments_json(&self) -> String {
    self.question.arguments.clone()
  }

  /// Number of the stream that is meant.
  #[napi(catch_unwind)]
  pub fn stream(&self) -> u32 {
    self.question.stream
  }

  /// The tar to save or unpack.
  #[napi(catch_unwind)]
  pub fn tar(&self) -> Option<ArchiveDownload> {
    self.question.tar.clone()
  }

  /// Answers with a value as JSON. False: nobody waits any more.
  #[napi(catch_unwind)]
  pub fn answer(&self, json: String) -> bool {
    self.end(Ok(Answer::Json(json)))
  }

  /// Answers with a piece of a tar, or null for its end. False: nobody waits any more.
  #[napi(catch_unwind)]
  pub fn answer_piece(&self, piece: Option<Uint8Array>) -> bool {
    self.end(Ok(piece.map_or(Answer::End, |piece| Answer::Piece(copy(&piece)))))
  }

  /// Answers with a value as JSON, and bytes beside it. False: nobody waits any more.
  #[napi(catch_unwind)]
  pub fn answer_parts(&self, json: String, parts: Vec<Uint8Array>) -> bool {
    self.end(Ok(Answer::Parts(json, parts.iter().map(copy).collect())))
  }

  /// Refuses; under `cause` JavaScript keeps the application's error. False: nobody waits any more.
  #[napi(catch_unwind)]
  pub fn refuse(&self, code: String, message: String, cause: u32) -> bool {
    // A conflict over a run is ours to find; an engine's over a name is its own.
    let known = ErrorCode::ALL.iter().find(|known| {
      known.as_str() == code && (**known != ErrorCode::Conflict || self.question.method == "createContainer")
    });
    let error = Error::new(known.copied().unwrap_or(ErrorCode::ConfigInvalid), message);
    self.end(Err(error.with_source(Thrown(cause))))
  }

  fn end(&self, result: Result<Answer>) -> bool {
    let tell = self.tell.lock().unwrap_or_else(PoisonError::into_inner).take();
    tell.is_some_and(|tell| tell.send(result).is_ok())
  }
}

/// A store or client of the application's own.
pub struct Callbacks {
  dispatch: Homebound<Dispatch>,
  places: Semaphore,
  /// The option that it was passed as, for messages.
  option: &'static str,
  /// What it is, for messages.
  what: &'static str,
}

impl Callbacks {
  /// The `what` ("store", "client") that was passed as `option`, behind a dispatcher of this thread.
  pub fn new(dispatch: Dispatch, option: &'static str, what: &'static str) -> Self {
    Self { dispatch: Homebound::new(dispatch), places: Semaphore::new(MAX_OWN_CALLS), option, what }
  }

  /// Asks, and waits for the answer until `patience` ends.
  pub(super) async fn ask(
    &self,
    question: Question,
    patience: impl Future<Output = Duration>,
  ) -> Result<Answer> {
    let method = question.method;
    let asked = async {
      let _place = self.places.acquire().await.map_err(|_| self.gone(method))?;
      let (tell, told) = oneshot::channel();
      self.send(question, Some(tell))?;
      // The object that held the other end was collected: nobody can answer any more.
      told.await.unwrap_or_else(|_| Err(self.unanswered(method)))
    };
    tokio::select! {
      biased;
      answer = asked => answer,
      () = self.torn_down() => Err(self.gone(method)),
      passed = patience => Err(fail!(
        Timeout,
        "{} did not answer within {} s. Check that the {} settles every promise that it returns.",
        self.name(method),
        passed.as_secs(),
        self.what
      )),
    }
  }

  /// Tells without waiting for an answer.
  pub fn tell(&self, question: Question) {
    // Where JavaScript is gone, so is what it should have been told of.
    self.send(question, None).ok();
  }

  /// How a method is called in messages.
  pub fn name(&self, method: &str) -> String {
    match method {
      _ if method == self.option => format!("{method}()"),
      "next" => format!("{}.load() tar.next()", self.option),
      _ => format!("{}.{method}()", self.option),
    }
  }

  /// The error for an answer that is none of the method's.
  pub fn rubbish(&self, method: &str, why: &str) -> Error {
    fail!(ConfigInvalid, "{} answered what it may not: {}.", self.name(method), shown(why))
  }

  fn send(&self, question: Question, tell: Option<oneshot::Sender<Result<Answer>>>) -> Result<()> {
    let method = question.method;
    let call = OwnCall { question, tell: Mutex::new(tell) };
    let mode = ThreadsafeFunctionCallMode::NonBlocking;
    // With a return value asked for, what the callback throws comes here; without, it would end the process.
    let Some(dispatch) = self.dispatch.get() else { return Err(self.gone(method)) };
    match dispatch.call_with_return_value(call, mode, |_, _| Ok(())) {
      Status::Ok => Ok(()),
      Status::QueueFull => Err(fail!(
        Limit,
        "{} could not be called: {QUEUE} calls wait for the JavaScript thread already. Do not block it.",
        self.name(method)
      )),
      _ => Err(self.gone(method)),
    }
  }

  async fn torn_down(&self) {
    let mut check = interval(ALIVE_CHECK);
    while self.dispatch.get().is_some_and(|dispatch| !dispatch.aborted()) {
      check.tick().await;
    }
  }

  fn gone(&self, method: &str) -> Error {
    fail!(
      Released,
      "{} could not be called: the JavaScript environment that the {} lives in has ended.",
      self.name(method),
      self.what
    )
  }

  fn unanswered(&self, method: &str) -> Error {
    fail!(
      Timeout,
      "{} was never answered: its promise can settle no more. Check that the {} settles every promise that it returns.",
      self.name(method),
      self.what
    )
  }
}

/// Patience that ends after a time in which this process was awake: while it was stopped, JavaScript could not answer.
pub(super) async fn at_most(limit: Duration) -> Duration {
  within(limit, pending::<()>()).await;
  limit
}
