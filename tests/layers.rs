//! Which room may use which, read from the `use` lines. One direction only: what is below never knows what is above.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A room and the rooms that it may use.
const TABLE: &[(&str, &[&str])] = &[
  ("limits", &[]),
  ("error", &[]),
  ("cancel", &["error"]),
  ("awake", &["clock"]),
  ("clock", &[]),
  ("random", &["error"]),
  ("stream", &["error", "limits"]),
  ("workspace", &["error", "limits", "archive"]),
  ("archive", &["error", "limits", "workspace"]),
  ("store", &["error", "limits", "clock", "random", "stream"]),
  ("proxy", &["error", "limits", "cancel"]),
  ("docker", &["error", "limits", "clock", "random", "cancel", "stream", "archive"]),
  (
    "supervisor",
    &["error", "limits", "clock", "random", "awake", "cancel", "stream", "archive", "workspace", "docker"],
  ),
  (
    "sandbox",
    &[
      "error",
      "limits",
      "clock",
      "random",
      "awake",
      "cancel",
      "stream",
      "archive",
      "workspace",
      "docker",
      "supervisor",
    ],
  ),
  (
    "environment",
    &[
      "error",
      "limits",
      "clock",
      "random",
      "awake",
      "cancel",
      "stream",
      "archive",
      "workspace",
      "docker",
      "supervisor",
      "sandbox",
      "store",
      "proxy",
    ],
  ),
  (
    "binding",
    &["error", "limits", "awake", "cancel", "stream", "docker", "sandbox", "store", "proxy", "environment"],
  ),
];

/// Files that take values and return values: no runtime, no files, no sockets, no clock.
const PURE: &[&str] = &[
  "stream",
  "archive",
  "workspace/path.rs",
  "workspace/policy.rs",
  "proxy/host.rs",
  "proxy/authority.rs",
  "proxy/policy.rs",
  "proxy/refusal.rs",
  "proxy/quotas.rs",
  "proxy/address",
  "proxy/http",
  "proxy/tls",
  "supervisor/wire",
  "docker/model.rs",
  "docker/chunked.rs",
  "docker/address.rs",
  "environment/options",
  "environment/manifest.rs",
  "environment/spec.rs",
  "environment/authorize.rs",
  "environment/search_path.rs",
  "environment/status.rs",
];
const IMPURE: &[&str] = &[
  "tokio::",
  "std::fs",
  "std::net",
  "std::process",
  "SystemTime",
  "Instant::now",
  "std::env",
  "crate::clock",
  "crate::random",
  "crate::awake",
];

fn source() -> PathBuf {
  Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every file below `folder` that is no test, with its path below `src` and its text.
fn files(folder: &Path, found: &mut Vec<(String, String)>) {
  for entry in fs::read_dir(folder).unwrap() {
    let path = entry.unwrap().path();
    let name = path.strip_prefix(source()).unwrap().to_string_lossy().into_owned();
    let is_test = name.contains("tests") || name.ends_with("fixture.rs");
    if path.is_dir() {
      files(&path, found);
    } else if name.ends_with(".rs") && !is_test {
      let text = fs::read_to_string(&path).unwrap();
      // Tests at the end of a file may use what they like.
      let text = text.split("#[cfg(test)]\nmod ").next().unwrap().to_owned();
      found.push((name, text));
    }
  }
}

fn all() -> Vec<(String, String)> {
  let mut found = Vec::new();
  files(&source(), &mut found);
  assert!(found.len() > 60, "only {} files were found", found.len());
  found
}

fn room(file: &str) -> &str {
  file.split('/').next().unwrap().trim_end_matches(".rs")
}

/// Rooms that a text names as `crate::room`.
fn used(text: &str) -> BTreeSet<&str> {
  let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
  let mentions = lines.flat_map(|line| line.split("crate::").skip(1));
  mentions
    .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
    .collect()
}

#[test]
fn every_room_uses_only_what_is_below_it() {
  for (file, text) in all() {
    let room = room(&file);
    if matches!(room, "lib" | "bin") {
      continue;
    }
    let Some((_, allowed)) = TABLE.iter().find(|(name, _)| *name == room) else {
      panic!("{file} is in a room that the table does not know");
    };
    for other in used(&text) {
      let known = TABLE.iter().any(|(name, _)| *name == other);
      assert!(!known || other == room || allowed.contains(&other), "{file} uses {other}, and {room} may not");
    }
  }
}

#[test]
fn only_the_binding_knows_node() {
  for (file, text) in all() {
    let knows = text.contains("napi::") || text.contains("napi_derive");
    assert!(!knows || room(&file) == "binding", "{file} knows napi");
  }
  // One door: every promise is made by `outcome::spawn`, which turns panics into errors.
  let makers: Vec<_> =
    all().into_iter().filter(|(_, text)| text.contains(".spawn_future(")).map(|(file, _)| file).collect();
  assert_eq!(makers, ["binding/outcome.rs"]);
}

#[test]
fn only_the_engines_connection_knows_tls() {
  let knows = |text: &str| text.contains("rustls");
  let files: Vec<_> = all().into_iter().filter(|(_, text)| knows(text)).map(|(file, _)| file).collect();
  let mut files: Vec<_> = files.iter().map(String::as_str).collect();
  files.sort_unstable();
  assert_eq!(files, ["docker/bridge.rs", "docker/connection.rs", "docker/tls.rs"]);
}

#[test]
fn no_class_has_an_async_method() {
  for (file, text) in all().into_iter().filter(|(file, _)| room(file) == "binding") {
    assert!(!text.contains("pub async fn"), "{file}: an async method's receiver may be freed while it runs");
  }
}

#[test]
fn what_is_pure_stays_pure() {
  for (file, text) in all().into_iter().filter(|(file, _)| PURE.iter().any(|pure| file.starts_with(pure))) {
    let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    for word in IMPURE {
      assert!(!code.iter().any(|line| line.contains(word)), "{file} uses {word}");
    }
  }
}
