use std::io::Read;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A directory `in` with files and links, beside a directory `out` that none of them may reach.
fn tree() -> TempDir {
  let temp = TempDir::new().unwrap();
  let root = temp.path().join("in");
  fs::create_dir_all(root.join("d/e")).unwrap();
  fs::create_dir_all(temp.path().join("in-too")).unwrap();
  fs::write(root.join("d/f"), "inside").unwrap();
  fs::write(temp.path().join("secret"), "outside").unwrap();
  fs::write(temp.path().join("in-too/f"), "outside").unwrap();
  for (name, target) in [
    ("file", "d/f"),
    ("dir", "d"),
    ("d/e/up", "../../d"),
    ("around", "d/e/../f"),
    ("out", "../secret"),
    ("d/out", "../../secret"),
    ("beside", "../in-too"),
    ("back", "../in/d/f"),
    ("nowhere", "no-such"),
    ("loop", "loop"),
    ("proc", "/proc/self/cwd"),
  ] {
    symlink(target, root.join(name)).unwrap();
  }
  symlink(root.join("d/f"), root.join("absolute")).unwrap();
  temp
}

/// The kernel's way and ours: they must not differ.
fn both(temp: &TempDir) -> [Beneath; 2] {
  let root = temp.path().join("in");
  let first = Beneath::open(&root).unwrap();
  #[cfg(target_os = "linux")]
  assert!(matches!(first, Beneath::Kernel(_)));
  [first, Beneath::portable(&root).unwrap()]
}

fn text(beneath: &Beneath, path: &str) -> io::Result<String> {
  let mut text = String::new();
  beneath.read(Path::new(path))?.read_to_string(&mut text)?;
  Ok(text)
}

#[test]
fn links_are_followed_inside() {
  let temp = tree();
  for beneath in both(&temp) {
    for path in ["d/f", "./d//f", "file", "dir/f", "d/e/up/f", "around", "d/e/up/e/up/f"] {
      assert_eq!(text(&beneath, path).unwrap(), "inside", "{path} {beneath:?}");
    }
    assert!(beneath.stat(Path::new("file"), false).unwrap().is_symlink());
    assert!(beneath.stat(Path::new("file"), true).unwrap().is_file());
    assert!(beneath.stat(Path::new("dir/e"), false).unwrap().is_dir());
    assert!(beneath.stat(Path::new(""), false).unwrap().is_dir());
  }
}

#[test]
fn nothing_outside_is_reached() {
  let temp = tree();
  for beneath in both(&temp) {
    for path in
      ["out", "d/out", "d/e/up/out", "beside/f", "back", "absolute", "proc", "proc/x", "../secret", "/etc"]
    {
      for error in [text(&beneath, path).unwrap_err(), beneath.stat(Path::new(path), true).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::CrossesDevices, "{path} {beneath:?}: {error}");
      }
    }
    assert_eq!(beneath.names(Path::new("beside"), 9).unwrap_err().kind(), ErrorKind::CrossesDevices);
    assert!(beneath.stat(Path::new("out"), false).unwrap().is_symlink());
  }
}

#[test]
fn what_is_not_there_is_an_error() {
  let temp = tree();
  for beneath in both(&temp) {
    for path in ["no-such", "d/no-such", "nowhere"] {
      assert_eq!(text(&beneath, path).unwrap_err().kind(), ErrorKind::NotFound, "{path} {beneath:?}");
    }
    assert_eq!(text(&beneath, "d/f/x").unwrap_err().kind(), ErrorKind::NotADirectory);
    text(&beneath, "loop").unwrap_err();
    beneath.names(Path::new("d/f"), 9).unwrap_err();
  }
  assert_eq!(Beneath::open(&temp.path().join("no-such")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn names_are_sorted_and_bounded() {
  let temp = tree();
  for beneath in both(&temp) {
    assert_eq!(beneath.names(Path::new("dir"), 9).unwrap(), ["e", "f", "out"]);
    assert_eq!(beneath.names(Path::new("dir"), 2).unwrap().len(), 2);
    assert_eq!(beneath.names(Path::new(""), 99).unwrap().len(), 11);
  }
}
