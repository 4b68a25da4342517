//! Errors cross as data, since JavaScript throws them with the right class and a stack.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use napi::bindgen_prelude::{Either, Env, PromiseRaw, ToNapiValue};
use napi_derive::napi;

use crate::error::{Error, Result, fail};

/// What went wrong.
#[napi(object, object_from_js = false)]
pub struct FailureBody {
  /// `SandboxError.code`, or `CONFLICT`.
  pub code: String,
  /// What was attempted, on what, what to do.
  pub message: String,
  /// Under this number JavaScript keeps the error of the application's own that caused it.
  pub cause: Option<u32>,
}

/// An error in place of a result.
#[napi(object, object_from_js = false)]
pub struct Failure {
  /// What went wrong.
  pub failure: FailureBody,
}

/// A result or an error.
pub type Outcome<T> = Either<Failure, T>;

/// A promise of a result or an error.
pub type Promised<'env, T> = napi::Result<PromiseRaw<'env, Outcome<T>>>;

impl From<Error> for Failure {
  fn from(error: Error) -> Self {
    Self {
      failure: FailureBody {
        code: error.code().as_str().to_owned(),
        message: message_with_causes(&error),
        cause: causes(&error).find_map(|cause| cause.downcast_ref::<Thrown>()).map(|thrown| thrown.0),
      },
    }
  }
}

/// An error of the application's own, which JavaScript keeps under this number. What it says may be a secret, so it goes
/// to the caller as a cause and never into a message: messages of tools are read by the model.
#[derive(Debug)]
pub struct Thrown(pub u32);

impl std::fmt::Display for Thrown {
  fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    Ok(())
  }
}

impl std::error::Error for Thrown {}

fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
  std::iter::successors(std::error::Error::source(error), |cause| cause.source())
}

/// Longest message. Some quote what a caller passed, however long that was.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// Causes of the system (a refused connection) tell what the message does not; they are added once each.
fn message_with_causes(error: &Error) -> String {
  let mut message = error.message().to_owned();
  for cause in causes(error).map(ToString::to_string).take(4) {
    if !cause.is_empty() && !message.contains(&cause) {
      message.push_str(&format!(" ({cause})"));
    }
  }
  if let Some((at, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
    message.truncate(at);
    message.push('…');
  }
  message
}

/// A result as it crosses.
pub fn outcome<T>(result: Result<T>) -> Outcome<T> {
  match result {
    Ok(value) => Either::B(value),
    Err(error) => Either::A(error.into()),
  }
}

/// Runs a future on the runtime and promises its outcome. A panic becomes `INTERNAL`.
pub fn spawn<T, F>(env: &Env, future: F) -> Promised<'_, T>
where
  T: ToNapiValue + Send + 'static,
  F: Future<Output = Result<T>> + Send + 'static,
{
  // Boxed, so that the runtime's machinery is not compiled once more for every future.
  let future: std::pin::Pin<Box<dyn Future<Output = Result<T>> + Send>> = Box::pin(future);
  env.spawn_future(async move {
    Ok(outcome(AssertUnwindSafe(future).catch_unwind().await.unwrap_or_else(panicked)))
  })
}

fn panicked<T>(panic: Box<dyn std::any::Any + Send>) -> Result<T> {
  let text =
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
  Err(fail!(
    Internal,
    "The sandbox core failed in a way that it should not ({}). Please report this.",
    text.unwrap_or("no message")
  ))
}
