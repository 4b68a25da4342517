//! The handle by which an abort signal reaches a call.

use napi_derive::napi;

use crate::cancel::Cancel;

/// Cancels the calls that it was passed to.
#[napi]
#[derive(Default)]
pub struct CancelToken {
  cancel: Cancel,
}

#[napi]
impl CancelToken {
  /// A token that nothing has cancelled.
  #[napi(constructor)]
  pub fn new() -> Self {
    Self::default()
  }

  /// Cancels; the second time changes nothing.
  #[napi(catch_unwind)]
  pub fn cancel(&self) {
    self.cancel.cancel();
  }
}

/// The core's side of an optional token.
pub fn cancel_of(token: Option<&CancelToken>) -> Cancel {
  token.map(|token| token.cancel.clone()).unwrap_or_default()
}
