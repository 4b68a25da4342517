//! Sets the link arguments that a Node-API addon needs, and embeds the supervisor's binaries where they were built.

use std::env;

fn main() {
  #[cfg(feature = "binding")]
  napi_build::setup();
  fold_identical_code();
  #[cfg(feature = "host")]
  embed::supervisors();
  println!("cargo::rerun-if-changed=build.rs");
}

/// Functions that came out the same are kept once: with link-time optimisation the addon is a tenth smaller. rustc's own
/// linker for this target can do that (`rust-lld`, its default since Rust 1.90); of one that somebody named it is not known.
fn fold_identical_code() {
  let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
  let own_linker = env::var_os("RUSTC_LINKER").is_none();
  if is("TARGET", "x86_64-unknown-linux-gnu") && is("PROFILE", "release") && own_linker {
    println!("cargo::rustc-link-arg-cdylib=-Wl,--icf=all");
  }
}

/// The supervisor is built from this crate too, without the host's part: it holds no other supervisor.
#[cfg(feature = "host")]
mod embed {
  use std::path::{Path, PathBuf};
  use std::{env, fs};

  /// `scripts/build-supervisor.mjs` puts them here, named as Node names architectures; engines name them differently. There
  /// is nothing else in it, so that the folder can be watched: cargo would run this at every build for a file that is not
  /// there.
  const BUILT: &str = "target/embed";
  const ARCHITECTURES: [(&str, &str); 2] = [("x64", "amd64"), ("arm64", "arm64")];
  /// They are compressed as far as it goes: half of each is a C library of which a tenth runs.
  const LEVEL: u8 = 10;

  /// A package cannot depend on a binary of its own: it is built first, or the slot stays empty and says so at run time.
  pub fn supervisors() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    // Where it cannot be made, cargo runs this again at the next build; nothing else is lost.
    let _ = fs::create_dir_all(root.join(BUILT));
    println!("cargo::rerun-if-changed={BUILT}");
    for (node, engine) in ARCHITECTURES {
      let built = fs::read(root.join(BUILT).join(format!("supervisor-{node}"))).unwrap_or_default();
      let packed =
        if built.is_empty() { built } else { miniz_oxide::deflate::compress_to_vec(&built, LEVEL) };
      fill(&out.join(format!("supervisor-{engine}")), &packed);
    }
  }

  fn fill(slot: &Path, contents: &[u8]) {
    if let Err(error) = fs::write(slot, contents) {
      println!("cargo::error=the supervisor cannot be embedded at {}: {error}", slot.display());
    }
  }
}
