//! Every input that the fuzzer kept, and every one that it found something with, once more: what was found stays found.
#![cfg(target_os = "linux")]
#![expect(
  clippy::unwrap_used,
  clippy::expect_used,
  clippy::panic,
  clippy::indexing_slicing,
  clippy::cognitive_complexity,
  reason = "tests"
)]

#[path = "../fuzz/src/lib.rs"]
mod fuzz;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Memory is counted for the whole process: one at a time.
static ONE: Mutex<()> = Mutex::new(());
/// A task that panics does not take its test with it.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn inputs(folder: &Path) -> Vec<PathBuf> {
  let mut inputs: Vec<_> =
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
  inputs.sort();
  inputs
}

fn repeat(target: &str) {
  let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
  let (_, check) = fuzz::TARGETS.into_iter().find(|(name, _)| *name == target).unwrap();
  let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
  let corpus = inputs(&root.join("corpus").join(target));
  assert!(corpus.len() > 20, "only {} inputs for {target}", corpus.len());
  let before = std::panic::take_hook();
  std::panic::set_hook(Box::new(move |panic| {
    PANICS.fetch_add(1, Ordering::Relaxed);
    before(panic);
  }));
  for path in corpus.into_iter().chain(inputs(&root.join("regressions").join(target))) {
    let input = fs::read(&path).unwrap();
    let panics = PANICS.load(Ordering::Relaxed);
    let held = std::panic::catch_unwind(|| check(&input)).is_ok() && PANICS.load(Ordering::Relaxed) == panics;
    assert!(held, "{}: see above", path.display());
  }
}

#[test]
fn archives_are_read_as_they_were_when_fuzzed() {
  repeat("archive");
}

#[test]
fn a_hostile_container_gains_what_it_did_when_fuzzed() {
  repeat("host");
}

#[test]
fn hostile_bytes_gain_inside_what_they_did_when_fuzzed() {
  repeat("inside");
}

#[test]
fn what_clients_of_the_proxy_send_is_read_as_it_was_when_fuzzed() {
  repeat("proxy");
}

#[test]
fn frames_and_messages_are_read_as_they_were_when_fuzzed() {
  repeat("wire");
}
