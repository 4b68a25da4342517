//! The application's listener: events cross as JSON text, without ever waiting for it and without keeping its process
//! alive.

use std::thread::{self, ThreadId};

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};

use crate::environment::event::{Event, Events};

/// Events that wait for a busy JavaScript thread; those beyond are counted and left out. At some 300 bytes each they take
/// a third of a megabyte.
const QUEUE: usize = 1024;

/// Called with text, handled by nobody's error-first convention, and weak: it does not keep the event loop running.
type Callback = ThreadsafeFunction<String, (), String, Status, false, true, QUEUE>;

/// Events that go to a function of JavaScript, whose thread this must be.
pub fn events_to(function: Function<'_, String, ()>) -> napi::Result<Events> {
  let callback = function
    .build_threadsafe_function()
    .callee_handled::<false>()
    .weak::<true>()
    .max_queue_size::<QUEUE>()
    .build()?;
  let listener = Homebound { callback: Some(callback), home: thread::current().id() };
  Ok(Events::counted(move |event| listener.tell(event)))
}

/// A callback that is released on the thread that it belongs to, or by that thread's end.
struct Homebound {
  callback: Option<Callback>,
  home: ThreadId,
}

impl Homebound {
  /// False where the queue is full, or the thread ends.
  fn tell(&self, event: &Event) -> bool {
    let (Some(callback), Ok(json)) = (&self.callback, serde_json::to_string(event)) else { return false };
    callback.call(json, ThreadsafeFunctionCallMode::NonBlocking) == Status::Ok
  }
}

impl Drop for Homebound {
  fn drop(&mut self) {
    // Elsewhere, a worker that ends at this moment could free the callback between napi's look whether it is still there
    // and its release. Such a one is left to the end of the thread, which frees it.
    if thread::current().id() != self.home {
      std::mem::forget(self.callback.take());
    }
  }
}
