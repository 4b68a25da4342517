//! The border to Node: the only room that knows napi. Types across, errors as data, callbacks; no decisions.
//!
//! Every method that waits is a plain function that converts and copies on the JavaScript thread, clones handles and
//! hands a future to [`outcome::spawn`]. No `async fn` on a class: its receiver would be freed under a running future
//! when a worker ends.

pub mod archive;
pub mod cancel;
pub mod convert;
pub mod docker;
pub mod environment;
mod events;
mod homebound;
pub mod input;
mod js_client;
pub mod js_resolver;
pub mod js_stores;
pub mod outcome;
pub mod own_calls;
mod pieces;
pub mod process;
pub mod session;
pub mod stores;
pub mod watched_tar;

use napi_derive::napi;

use crate::error::ErrorCode;
use crate::limits::MAX_LOOKUPS;

/// Grows with every change of the exports; JavaScript refuses another one.
const ABI: u32 = 9;
/// The work waits for sockets: few threads carry many runs.
const WORKER_THREADS: usize = 2;
/// Reading host sources and file stores, and looking names up for the proxy, is all that blocks. Look-ups, which a run may
/// have many slow ones of, leave the others their threads. They are started when they are needed.
const BLOCKING_THREADS: usize = 4 + MAX_LOOKUPS;

/// The version of these exports.
#[napi(catch_unwind)]
pub fn abi() -> u32 {
  ABI
}

/// Every error code of the core, `CONFLICT` included.
#[napi(catch_unwind)]
pub fn error_codes() -> Vec<&'static str> {
  ErrorCode::ALL.iter().map(|code| code.as_str()).collect()
}

/// The reference profile as JSON.
#[napi(catch_unwind)]
pub fn security_defaults_json() -> String {
  crate::environment::options::security_defaults().to_string()
}

#[napi_derive::module_init]
fn init() {
  let runtime = tokio::runtime::Builder::new_multi_thread()
    .worker_threads(WORKER_THREADS)
    .max_blocking_threads(BLOCKING_THREADS)
    .thread_name("sandbox-docker")
    .enable_all()
    .build();
  // Without it napi makes one of its own at the first call.
  if let Ok(runtime) = runtime {
    napi::bindgen_prelude::create_custom_tokio_runtime(runtime);
  }
}
