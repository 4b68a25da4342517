//! The application's listener: events cross as JSON text, without ever waiting for it and without keeping its process
//! alive.

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};

use super::homebound::Homebound;
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
  let listener = Homebound::new(callback);
  Ok(Events::counted(move |event| tell(&listener, event)))
}

/// False where the queue is full, or the thread ends.
fn tell(listener: &Homebound<Callback>, event: &Event) -> bool {
  let (Some(callback), Ok(json)) = (listener.get(), serde_json::to_string(event)) else { return false };
  callback.call(json, ThreadsafeFunctionCallMode::NonBlocking) == Status::Ok
}
