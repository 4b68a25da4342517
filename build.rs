//! Sets the link arguments that a Node-API addon needs, and embeds the supervisor's binaries where they were built.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// `scripts/build-supervisor.mjs` puts them here, named as Node names architectures; engines name them differently. There is
/// nothing else in it, so that the folder can be watched: cargo would run this at every build for a file that is not there.
const BUILT: &str = "target/embed";
const EMBED: &str = "SANDBOX_EMBED";
const ARCHITECTURES: [(&str, &str); 2] = [("x64", "amd64"), ("arm64", "arm64")];

fn main() {
  #[cfg(feature = "binding")]
  napi_build::setup();
  embed_supervisors();
}

/// A package cannot depend on a binary of its own: it is built first, or the slot stays empty and says so at run time.
fn embed_supervisors() {
  let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
  let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
  // The supervisor is built from this crate too: it holds no other supervisor, and a new one is no reason to build it again.
  println!("cargo::rerun-if-env-changed={EMBED}");
  let is_supervisor = env::var_os(EMBED).is_some_and(|what| what == "nothing");
  if !is_supervisor {
    // Where it cannot be made, cargo runs this again at the next build; nothing else is lost.
    let _ = fs::create_dir_all(root.join(BUILT));
    println!("cargo::rerun-if-changed={BUILT}");
  }
  for (node, engine) in ARCHITECTURES {
    let built = root.join(BUILT).join(format!("supervisor-{node}"));
    let slot = out.join(format!("supervisor-{engine}"));
    if is_supervisor {
      fill(&slot, &[]);
    } else {
      fill(&slot, &fs::read(&built).unwrap_or_default());
    }
  }
}

fn fill(slot: &Path, contents: &[u8]) {
  if let Err(error) = fs::write(slot, contents) {
    println!("cargo::error=the supervisor cannot be embedded at {}: {error}", slot.display());
  }
}
