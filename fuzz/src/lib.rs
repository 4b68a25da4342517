//! What is fuzzed, and what must hold for every input: a room for each target, with a `check` that takes the fuzzer's
//! bytes and panics where something does not hold. `npm run fuzz` runs them, tests/fuzz_corpus.rs repeats what was found.

pub mod archive;
pub mod host;
pub mod inside;
mod messages;
mod pieces;
pub mod proxy;
pub mod wire;

// The host's target speaks with the engine of the other tests.
#[expect(dead_code, reason = "the other tests use more of it")]
#[path = "../../tests/support/replies.rs"]
mod replies;
#[expect(dead_code, reason = "the other tests use more of it")]
#[path = "../../tests/support/scripted_engine.rs"]
mod scripted_engine;

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// A target's check.
pub type Check = fn(&[u8]);

/// All targets, by the names of their folders in `corpus` and `regressions`.
pub const TARGETS: [(&str, Check); 5] = [
  ("archive", archive::check),
  ("host", host::check),
  ("inside", inside::check),
  ("proxy", proxy::check),
  ("wire", wire::check),
];

/// Does `work`, which may have no more than `most` bytes of memory at any time. One at a time in a process.
fn bounded<T>(most: usize, work: impl FnOnce() -> T) -> T {
  let before = MEMORY.current_usage();
  MEMORY.reset_peak_usage();
  let result = work();
  let peak = MEMORY.peak_usage().saturating_sub(before);
  assert!(peak <= most, "{peak} bytes of memory were in use, of at most {most}");
  result
}
