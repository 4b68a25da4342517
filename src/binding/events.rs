//! The application's listener: events cross as JSON text, without ever waiting for it and without keeping its process
//! alive.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};

use crate::environment::event::Events;

/// Events that wait for a busy JavaScript thread; those beyond are counted and left out. At some 300 bytes each they take
/// a third of a megabyte.
const QUEUE: usize = 1024;

/// Called with text, handled by nobody's error-first convention, and weak: it does not keep the event loop running.
type Callback = ThreadsafeFunction<String, (), String, Status, false, true, QUEUE>;

/// A listener, for the environment's handle and its core.
#[derive(Clone)]
pub struct Listener(Arc<Homebound>);

/// A callback that is released on the thread that it belongs to, or by that thread's end.
struct Homebound {
  callback: Option<Callback>,
  home: ThreadId,
}

impl Listener {
  /// Of a function of JavaScript, on its thread.
  pub fn new(function: Function<'_, String, ()>) -> napi::Result<Self> {
    let callback = function
      .build_threadsafe_function()
      .callee_handled::<false>()
      .weak::<true>()
      .max_queue_size::<QUEUE>()
      .build()?;
    Ok(Self(Arc::new(Homebound { callback: Some(callback), home: thread::current().id() })))
  }

  /// Events that go to it.
  pub fn events(&self) -> Events {
    let listener = self.clone();
    Events::counted(move |event| {
      let (Some(callback), Ok(json)) = (&listener.0.callback, serde_json::to_string(event)) else {
        return false;
      };
      callback.call(json, ThreadsafeFunctionCallMode::NonBlocking) == Status::Ok
    })
  }
}

impl Drop for Homebound {
  fn drop(&mut self) {
    // Elsewhere, a worker that ends at this moment frees the callback between napi's look whether it still is and its
    // release. There the end of the worker or process releases it.
    if thread::current().id() != self.home {
      std::mem::forget(self.callback.take());
    }
  }
}
