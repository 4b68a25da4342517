use proptest::prelude::*;

use super::*;

fn path(name: &[u8]) -> EntryPath {
  EntryPath::parse(name).unwrap()
}

fn inside(link: &str, target: &[u8]) -> Result<(), Refusal> {
  SymlinkRule::Inside.check(&path(link.as_bytes()), target)
}

#[test]
fn names_are_folded_bytes() {
  for (name, folded) in [
    (b"./a//b/./c/".as_slice(), b"a/b/c".as_slice()),
    (b"./", b""),
    (b".", b""),
    (b"fo\\o.txt", b"fo\\o.txt"),
    (b"bad-\xff\xfe.bin", b"bad-\xff\xfe.bin"),
    (b"-rf", b"-rf"),
    (b"a\nb\t ", b"a\nb\t "),
    (b"...", b"..."),
    (b"a..b", b"a..b"),
    (b"\x1b[2K\r", b"\x1b[2K\r"),
  ] {
    assert_eq!(path(name).as_bytes(), folded, "{:?}", name.escape_ascii().to_string());
  }
}

#[test]
fn names_that_leave_are_refused() {
  for (name, why) in [
    (b"".as_slice(), Refusal::EmptyName),
    (b"/etc/passwd", Refusal::Absolute),
    (b"//a", Refusal::Absolute),
    (b"..", Refusal::Parent),
    (b"../up", Refusal::Parent),
    (b"a/../b", Refusal::Parent),
    (b"a/..", Refusal::Parent),
    (b"safe\0/../evil", Refusal::Nul),
  ] {
    assert_eq!(EntryPath::parse(name), Err(why), "{:?}", name.escape_ascii().to_string());
  }
}

#[test]
fn names_are_bounded_at_the_limit_and_one_past_it() {
  let name = vec![b'n'; MAX_NAME_BYTES];
  assert_eq!(path(&name).as_bytes(), name);
  assert_eq!(EntryPath::parse(&[&name[..], b"n"].concat()), Err(Refusal::LongComponent));
  let deep = vec![b"d".as_slice(); MAX_PATH_DEPTH].join(&b'/');
  assert_eq!(path(&deep).components().count(), MAX_PATH_DEPTH);
  assert_eq!(EntryPath::parse(&[&deep[..], b"/d"].concat()), Err(Refusal::Deep));
  let long = vec![name.as_slice(); 16].join(&b'/');
  assert_eq!(long.len(), MAX_PATH_BYTES);
  // A leading `./`, as the container's own tar writes it, does not count.
  assert_eq!(path(&[b"./", &long[..]].concat()).as_bytes(), long);
  assert_eq!(EntryPath::parse(&[&long[..], b"/d"].concat()), Err(Refusal::LongPath));
}

#[test]
fn parents_come_outermost_first() {
  let parents: Vec<_> = path(b"a/b/c").parents().collect();
  assert_eq!(parents, [path(b"a"), path(b"a/b")]);
  assert_eq!(path(b"a").parents().count(), 0);
  assert_eq!(EntryPath::root().parents().count(), 0);
}

#[test]
fn names_in_messages_cannot_fool_a_terminal() {
  assert_eq!(path(b"a\x1b[2K\rb").to_string(), r#""a\u{1b}[2K\rb""#);
  assert_eq!(path(b"\xff\r").to_string(), r#""\xff\r""#);
  assert_eq!(EntryPath::root().to_string(), r#"".""#);
  let long = path(&[0xff; 200]).to_string();
  assert_eq!(long, format!("\"{}\"…", "\\xff".repeat(120)));
}

#[test]
fn symbolic_links_stay_inside() {
  for (link, target) in [
    ("a", b"b".as_slice()),
    ("a", b"./b//c"),
    ("a", b"."),
    ("d/a", b".."),
    ("d/e/a", b"../../x/y"),
    ("a", b"/workspace"),
    ("a", b"/workspace/b"),
    ("a", b"no-such-file"),
    ("a", b"\xff\xfe"),
    ("a", b"..."),
  ] {
    assert_eq!(inside(link, target), Ok(()), "{link} {:?}", target.escape_ascii().to_string());
  }
  for (link, target) in [
    ("a", b"..".as_slice()),
    ("a", b"../b"),
    ("d/a", b"../../b"),
    ("d/a", b"./../../b"),
    ("a", b"/"),
    ("a", b"/etc/passwd"),
    ("a", b"//workspace/b"),
    ("a", b"/workspace/.."),
    ("a", b"/workspace/../etc"),
    ("a", b"/workspace/b/../c"),
    // What a name leads to may be another link, so `..` after it may be anywhere.
    ("d/a", b"b/../../../x"),
    ("a", b"b/../c"),
  ] {
    assert_eq!(
      inside(link, target),
      Err(Refusal::LinkOutside),
      "{link} {:?}",
      target.escape_ascii().to_string()
    );
  }
}

#[test]
fn a_prefix_of_the_workspaces_name_is_not_the_workspace() {
  assert_eq!(inside("a", b"/workspace-evil/f"), Err(Refusal::LinkOutside));
  assert_eq!(inside("a", b"/workspace2"), Err(Refusal::LinkOutside));
  assert_eq!(inside("a", b"/work"), Err(Refusal::LinkOutside));
}

#[test]
fn a_chain_of_links_cannot_climb() {
  // `up` leads to the workspace itself, so `d/e/up/..` would be the directory above it.
  assert_eq!(inside("d/e/up", b"../.."), Ok(()));
  assert_eq!(inside("x", b"d/e/up/../etc"), Err(Refusal::LinkOutside));
}

#[test]
fn link_targets_are_bounded_under_every_rule() {
  for rule in [SymlinkRule::Inside, SymlinkRule::Anywhere] {
    let check = |target: &[u8]| rule.check(&path(b"a"), target);
    assert_eq!(check(b""), Err(Refusal::EmptyTarget));
    assert_eq!(check(b"a\0b"), Err(Refusal::Nul));
    assert_eq!(check(&[b'n'; MAX_NAME_BYTES]), Ok(()));
    assert_eq!(check(&[b'n'; MAX_NAME_BYTES + 1]), Err(Refusal::LongComponent));
    assert_eq!(check(&b"./".repeat(MAX_PATH_BYTES / 2)), Ok(()));
    assert_eq!(check(&b"./".repeat(MAX_PATH_BYTES / 2 + 1)), Err(Refusal::LongPath));
  }
  assert_eq!(SymlinkRule::Anywhere.check(&path(b"a"), b"/usr/bin/python3"), Ok(()));
}

#[test]
fn a_workspace_path_is_an_entry_path() {
  let workspace = WorkspacePath::parse("/workspace/ü/./b").unwrap();
  assert_eq!(EntryPath::from(&workspace), path("ü/b".as_bytes()));
  assert_eq!(EntryPath::from(&WorkspacePath::root()), EntryPath::root());
}

proptest! {
  #[test]
  fn what_is_accepted_is_plain(name in prop::collection::vec(prop::sample::select(b"a./\\\0\xff".to_vec()), 0..40)) {
    if let Ok(parsed) = EntryPath::parse(&name) {
      let bytes = parsed.as_bytes();
      prop_assert!(!bytes.starts_with(b"/") && !bytes.ends_with(b"/") && !bytes.contains(&0));
      prop_assert!(bytes.is_empty() || bytes.split(|b| *b == b'/').all(|p| !p.is_empty() && p != b"." && p != b".."));
      prop_assert!(bytes.is_empty() || EntryPath::parse(bytes) == Ok(parsed.clone()));
    }
  }

  #[test]
  fn accepted_links_never_climb(depth in 1_usize..4, target in "[a./]{1,20}") {
    let link = path(vec!["d"; depth].join("/").as_bytes());
    if SymlinkRule::Inside.check(&link, target.as_bytes()).is_ok() {
      prop_assert!(!target.starts_with('/'));
      let mut here = depth as i64 - 1;
      for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        here += if part == ".." { -1 } else { 1 };
        prop_assert!(here >= 0);
      }
    }
  }
}
