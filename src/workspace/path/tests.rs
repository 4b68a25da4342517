use proptest::prelude::*;

use super::*;
use crate::error::ErrorCode;

#[track_caller]
fn parsed(input: &str) -> String {
  WorkspacePath::parse(input).unwrap().as_str().to_owned()
}

#[track_caller]
fn refused(input: &str) {
  let error = WorkspacePath::parse(input).unwrap_err();
  assert_eq!(error.code(), ErrorCode::PathInvalid, "{input:?}: {error}");
}

#[test]
fn folds_dots_and_slashes() {
  assert_eq!(parsed("a//b/./c/"), "a/b/c");
  assert_eq!(parsed("/workspace/a"), "a");
  assert_eq!(parsed("/workspace"), "");
  assert_eq!(parsed(""), "");
  assert_eq!(parsed("."), "");
  assert_eq!(parsed("ordner/größe ✓/…"), "ordner/größe ✓/…");
  assert_eq!(parsed("fo\\o.txt"), "fo\\o.txt");
  assert_eq!(parsed("-rf"), "-rf");
}

#[test]
fn refuses_what_leaves() {
  for input in
    ["..", "a/..", "a/../b", "../a", "/etc/passwd", "/workspace/../etc", "/workspace2/a", "/", "//workspace"]
  {
    refused(input);
  }
  refused("a\0b");
}

#[test]
fn bounds_lengths_at_the_limit_and_one_past_it() {
  let name = "n".repeat(MAX_NAME_BYTES);
  assert_eq!(parsed(&name), name);
  refused(&format!("{name}n"));
  let deep = vec!["d"; MAX_PATH_DEPTH].join("/");
  assert_eq!(parsed(&deep), deep);
  refused(&format!("{deep}/d"));
  let long = "./".repeat(MAX_PATH_BYTES / 2) + "x";
  assert_eq!(long.len(), MAX_PATH_BYTES);
  assert_eq!(parsed(&long), "x");
  refused(&format!("{long}x"));
}

#[test]
fn knows_its_parts() {
  let path = WorkspacePath::parse("a/b/c.txt").unwrap();
  assert_eq!(path.parent().unwrap().as_str(), "a/b");
  assert_eq!(path.name(), Some("c.txt"));
  assert_eq!(path.absolute(), "/workspace/a/b/c.txt");
  assert_eq!(WorkspacePath::root().absolute(), "/workspace");
  assert!(WorkspacePath::root().parent().is_none());
  assert_eq!(WorkspacePath::parse("top").unwrap().parent(), Some(WorkspacePath::root()));
}

proptest! {
  #[test]
  fn what_is_accepted_stays_inside(input in "[a./\\\\ \u{0}-\u{ff}]{0,40}") {
    if let Ok(path) = WorkspacePath::parse(&input) {
      prop_assert!(path.components().all(|part| part != ".." && part != "." && !part.contains('\0')));
      prop_assert_eq!(WorkspacePath::parse(&path.absolute()).unwrap(), path);
    }
  }
}
