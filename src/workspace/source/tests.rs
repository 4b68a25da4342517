use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;
use crate::error::ErrorCode;

const BUDGET: SourceBudget = SourceBudget { max_file_bytes: 100, max_total_bytes: 250, max_entries: 20 };

fn tree(files: &[(&str, &str)]) -> TempDir {
  let temp = TempDir::new().unwrap();
  for (path, contents) in files {
    let path = temp.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
  }
  temp
}

/// Collects by the kernel's way and by ours, which must not differ.
fn run(
  temp: &TempDir,
  include: &[&str],
  budget: &SourceBudget,
) -> Result<Vec<PackEntry>, (ErrorCode, String)> {
  let include: Vec<_> = include.iter().map(|text| (*text).to_owned()).collect();
  let plain = |error: Error| (error.code(), error.message().to_owned());
  let first =
    collect(&HostSource { root: temp.path().to_owned(), include: include.clone() }, budget).map_err(plain);
  let includes: Result<Vec<_>> = include.iter().map(|text| Include::parse(text)).collect();
  if let Ok(includes) = includes {
    let portable = Beneath::portable(temp.path()).unwrap();
    assert_eq!(collect_from(&portable, &includes, budget).map_err(plain), first);
  }
  first
}

/// Paths of what is collected, directories with a slash.
#[track_caller]
fn paths(temp: &TempDir, include: &[&str]) -> Vec<String> {
  let shown = |entry: &PackEntry| {
    let slash = if matches!(entry, PackEntry::Directory { .. }) { "/" } else { "" };
    format!("{}{slash}", entry.path().as_bytes().escape_ascii())
  };
  run(temp, include, &BUDGET).unwrap().iter().map(shown).collect()
}

#[track_caller]
fn refusal(temp: &TempDir, include: &[&str]) -> String {
  let (code, message) = run(temp, include, &BUDGET).unwrap_err();
  assert_eq!(code, ErrorCode::ConfigInvalid, "{message}");
  message
}

#[track_caller]
fn over(temp: &TempDir, include: &[&str]) -> String {
  let (code, message) = run(temp, include, &BUDGET).unwrap_err();
  assert_eq!(code, ErrorCode::Limit, "{message}");
  message
}

fn project() -> TempDir {
  tree(&[
    ("README.md", "read"),
    ("src/a.ts", "a"),
    ("src/.hidden.ts", "h"),
    ("src/sub/b.ts", "b"),
    ("src/sub/c.js", "c"),
    ("app/[id].tsx", "id"),
    (".env", "e"),
  ])
}

#[test]
fn a_path_brings_what_is_below_it() {
  let temp = project();
  assert_eq!(paths(&temp, &["src/sub"]), ["src/sub/", "src/sub/b.ts", "src/sub/c.js"]);
  assert_eq!(paths(&temp, &["./src//sub/"]), ["src/sub/", "src/sub/b.ts", "src/sub/c.js"]);
  assert_eq!(paths(&temp, &["README.md"]), ["README.md"]);
  assert_eq!(paths(&temp, &["."]).len(), 10);
  assert_eq!(paths(&temp, &[]), [] as [&str; 0]);
  // Named twice, copied once.
  assert_eq!(paths(&temp, &["src/sub/b.ts", "src/sub", "**/b.ts"]).len(), 3);
}

#[test]
fn contents_and_permissions_come_along() {
  let temp = tree(&[("d/run.sh", "#!/bin/sh\n")]);
  fs::set_permissions(temp.path().join("d/run.sh"), fs::Permissions::from_mode(0o4750)).unwrap();
  fs::set_permissions(temp.path().join("d"), fs::Permissions::from_mode(0o1711)).unwrap();
  let path = |name: &[u8]| EntryPath::parse(name).unwrap();
  let expected = [
    PackEntry::Directory { path: path(b"d"), mode: 0o711 },
    PackEntry::File { path: path(b"d/run.sh"), contents: Bytes::from_static(b"#!/bin/sh\n"), mode: 0o750 },
  ];
  assert_eq!(run(&temp, &["d"], &BUDGET).unwrap(), expected);
}

#[test]
fn globs_match_as_documented() {
  let temp = project();
  assert_eq!(paths(&temp, &["src/*.ts"]), ["src/.hidden.ts", "src/a.ts"]);
  assert_eq!(paths(&temp, &["**/*.ts"]), ["src/.hidden.ts", "src/a.ts", "src/sub/b.ts"]);
  assert_eq!(
    paths(&temp, &["src/**/*.{js,ts}"]),
    ["src/.hidden.ts", "src/a.ts", "src/sub/b.ts", "src/sub/c.js"]
  );
  assert_eq!(paths(&temp, &["*.md"]), ["README.md"]);
  assert_eq!(paths(&temp, &[".*"]), [".env"]);
  // A directory that matches brings what is below it.
  assert_eq!(paths(&temp, &["src/s*"]), ["src/sub/", "src/sub/b.ts", "src/sub/c.js"]);
  assert_eq!(paths(&temp, &["**"]).len(), 10);
  // A path that exists is no glob.
  assert_eq!(paths(&temp, &["app/[id].tsx"]), ["app/[id].tsx"]);
  assert_eq!(paths(&temp, &["app/[[]id].tsx"]), ["app/[id].tsx"]);
}

#[test]
fn an_include_that_finds_nothing_is_named() {
  let temp = project();
  for include in [
    "no-such",
    "src/*.py",
    "no-such/**",
    "README.md/x",
    "src/a.ts/*",
    "*.ts",
    &("q*".to_owned() + &"x".repeat(300)),
  ] {
    let expected = format!("workspace.source.include has {}, which finds nothing.", quote(include));
    assert_eq!(refusal(&temp, &["README.md", include]), expected);
  }
}

#[test]
fn wrong_includes_are_named() {
  let temp = project();
  for (include, why) in [
    ("", "is empty; use \".\" for everything below the root"),
    ("/etc/passwd", "is absolute; name it relative to the root"),
    ("..", "contains \"..\"; only what is below the root can be copied"),
    ("src/../../x", "contains \"..\"; only what is below the root can be copied"),
    ("../*", "contains \"..\"; only what is below the root can be copied"),
    ("a\0", "contains a NUL byte"),
    ("src/[", "is neither a path nor a glob"),
    ("src/{a", "is neither a path nor a glob"),
  ] {
    let expected = format!("workspace.source.include has {include:?}, which {why}.");
    assert_eq!(refusal(&temp, &[include]), expected);
  }
  let long = refusal(&temp, &[&"x/".repeat(2048)]);
  assert!(long.ends_with("which is longer than any path."), "{long}");
}

#[test]
fn the_root_must_be_absolute_and_there() {
  let with = |root: &str| {
    let error =
      collect(&HostSource { root: root.into(), include: vec![".".to_owned()] }, &BUDGET).unwrap_err();
    (error.code(), error.message().to_owned())
  };
  let message = "workspace.source.root is \"src\"; it must be an absolute path.".to_owned();
  assert_eq!(with("src"), (ErrorCode::ConfigInvalid, message));
  let (code, message) = with("/no/such/root");
  assert_eq!(code, ErrorCode::ConfigInvalid);
  assert!(message.starts_with("workspace.source.root \"/no/such/root\" cannot be opened: "), "{message}");
}

#[test]
fn links_inside_are_copied_as_what_they_lead_to() {
  let temp = tree(&[("real/f", "text"), ("x", "")]);
  symlink("real/f", temp.path().join("link")).unwrap();
  symlink("real", temp.path().join("dir")).unwrap();
  assert_eq!(paths(&temp, &["link", "dir"]), ["dir/", "dir/f", "link"]);
  let entries = run(&temp, &["link"], &BUDGET).unwrap();
  assert!(matches!(&entries[..], [PackEntry::File { contents, .. }] if contents == "text"));
  assert_eq!(paths(&temp, &["dir/f"]), ["dir/f"]);
  // A search does not go through them, but finds them.
  assert_eq!(paths(&temp, &["**/f"]), ["real/f"]);
  assert_eq!(paths(&temp, &["di*"]), ["dir/", "dir/f"]);
  assert_eq!(paths(&temp, &["dir/*"]), ["dir/f"]);
}

#[test]
fn links_that_leave_are_refused_by_name() {
  let temp = tree(&[("root/d/f", ""), ("secret", "s"), ("root-too/f", "s")]);
  let root = temp.path().join("root");
  for (name, target) in
    [("d/a", "../../secret"), ("d/b", "/etc/passwd"), ("d/c", "../../root-too"), ("d/e", "../..")]
  {
    symlink(target, root.join(name)).unwrap();
    let source = |include: &str| HostSource { root: root.clone(), include: vec![include.to_owned()] };
    for include in [name, "d", "."] {
      let error = collect(&source(include), &BUDGET).unwrap_err();
      let expected = format!(
        "{name:?} of workspace.source leaves the root through a symbolic link; it is not copied. Leave it out of include."
      );
      assert_eq!((error.code(), error.message()), (ErrorCode::ConfigInvalid, expected.as_str()), "{include}");
    }
    let through = collect(&source(&format!("{name}/f")), &BUDGET).unwrap_err();
    assert_eq!(through.code(), ErrorCode::ConfigInvalid);
    // What is not included does not matter.
    assert_eq!(collect(&source("d/f"), &BUDGET).unwrap().len(), 1);
    assert_eq!(collect(&source("**/f"), &BUDGET).unwrap().len(), 1);
    fs::remove_file(root.join(name)).unwrap();
  }
}

#[test]
fn links_that_go_round_or_nowhere_are_refused_by_name() {
  let temp = tree(&[("d/e/f", "")]);
  symlink("../..", temp.path().join("d/e/up")).unwrap();
  assert!(
    refusal(&temp, &["."])
      .starts_with("\"d/e/up\" of workspace.source is a symbolic link to a directory around")
  );
  fs::remove_file(temp.path().join("d/e/up")).unwrap();
  symlink("no-such", temp.path().join("d/dangling")).unwrap();
  assert!(
    refusal(&temp, &["d"])
      .starts_with("\"d/dangling\" of workspace.source is a symbolic link that leads nowhere;")
  );
  fs::remove_file(temp.path().join("d/dangling")).unwrap();
  symlink("loop", temp.path().join("d/loop")).unwrap();
  let error = collect(&HostSource { root: temp.path().to_owned(), include: vec!["d".to_owned()] }, &BUDGET)
    .unwrap_err();
  assert!(error.message().starts_with("\"d/loop\" of workspace.source cannot be read: "), "{error}");
}

#[test]
fn special_files_are_refused_by_name() {
  let temp = tree(&[("d/f", "")]);
  let _listener = UnixListener::bind(temp.path().join("d/socket")).unwrap();
  let expected = "\"d/socket\" of workspace.source is a socket; it is not copied. Leave it out of include.";
  for include in ["d", "d/socket", "d/s*"] {
    assert_eq!(refusal(&temp, &[include]), expected);
  }
  assert_eq!(paths(&temp, &["d/f"]), ["d/f"]);
  fs::remove_file(temp.path().join("d/socket")).unwrap();
  assert!(std::process::Command::new("mkfifo").arg(temp.path().join("d/pipe")).status().unwrap().success());
  assert!(refusal(&temp, &["d"]).starts_with("\"d/pipe\" of workspace.source is a pipe;"));
}

#[test]
fn the_budget_holds_at_the_limit_and_one_past_it() {
  let full = "x".repeat(100);
  let temp = tree(&[("a", &full), ("b", &full), ("c", &full[..50])]);
  assert_eq!(paths(&temp, &["."]), ["a", "b", "c"]);
  fs::write(temp.path().join("c"), &full[..51]).unwrap();
  let message = "\"c\" of workspace.source has 51 bytes, but only 50 of 250 are left. Include less.";
  assert_eq!(over(&temp, &["."]), message);
  fs::write(temp.path().join("c"), format!("{full}x")).unwrap();
  assert_eq!(over(&temp, &["c"]), "\"c\" of workspace.source has 101 bytes; a file may have 100.");
  let names: Vec<_> = (0..19).map(|n| format!("d/{n:02}")).collect();
  let temp = tree(&names.iter().map(|name| (name.as_str(), "")).collect::<Vec<_>>());
  assert_eq!(paths(&temp, &["d"]).len(), 20);
  fs::write(temp.path().join("d/19"), "").unwrap();
  let message =
    "workspace.source has more than 20 files and directories; \"d/19\" is one too many. Include less.";
  assert_eq!(over(&temp, &["d"]), message);
}

#[test]
fn a_sparse_file_is_measured_before_it_is_read() {
  let temp = tree(&[("hole", "")]);
  fs::File::options().write(true).open(temp.path().join("hole")).unwrap().set_len(1 << 40).unwrap();
  assert_eq!(
    over(&temp, &["hole"]),
    "\"hole\" of workspace.source has 1099511627776 bytes; a file may have 100."
  );
}

/// Gives `left` bytes and counts them; what is read from a file that grew.
struct Growing(usize);

impl Read for Growing {
  fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
    let length = buffer.len().min(self.0);
    buffer[..length].fill(b'x');
    self.0 -= length;
    Ok(length)
  }
}

#[test]
fn a_file_that_grows_meanwhile_overruns_nothing() {
  let path = Path::new("log");
  let mut growing = Growing(1 << 40);
  let error = read_measured(path, &mut growing, 7, &BUDGET, 250).unwrap_err();
  let message =
    "\"log\" of workspace.source grew while it was read; it is not copied. Leave it out of include.";
  assert_eq!((error.code(), error.message()), (ErrorCode::ConfigInvalid, message));
  assert_eq!(growing.0, (1 << 40) - 8);
  assert_eq!(read_measured(path, Growing(7), 7, &BUDGET, 7).unwrap(), "xxxxxxx");
  // One that shrank is what it is now.
  assert_eq!(read_measured(path, Growing(3), 7, &BUDGET, 7).unwrap(), "xxx");
}

#[test]
fn names_are_bytes_and_escaped_in_messages() {
  let temp = tree(&[]);
  for name in [b"\xff".as_slice(), b"\xfe", b"a\nb", b"fo\\o", b"-rf"] {
    fs::write(temp.path().join(OsStr::from_bytes(name)), "").unwrap();
  }
  assert_eq!(paths(&temp, &["."]), ["-rf", r"a\nb", r"fo\\o", r"\xfe", r"\xff"]);
  fs::write(temp.path().join("a\nb"), "x".repeat(101)).unwrap();
  assert_eq!(over(&temp, &["."]), "\"a\\nb\" of workspace.source has 101 bytes; a file may have 100.");
}

#[test]
fn too_deep_is_refused_by_name() {
  let deep = vec!["d"; 64].join("/");
  let temp = tree(&[(&format!("{deep}/f"), "")]);
  let budget = SourceBudget { max_entries: 100, ..BUDGET };
  let (code, message) = run(&temp, &["."], &budget).unwrap_err();
  assert_eq!(code, ErrorCode::ConfigInvalid);
  assert!(
    message.ends_with("of workspace.source cannot be copied: it is more than 64 directories deep."),
    "{message}"
  );
}

#[test]
fn what_is_collected_can_be_packed() {
  let temp = project();
  let options = crate::archive::PackOptions {
    owner: crate::archive::Owner { uid: 1, gid: 1 },
    mtime: 0,
    limits: crate::archive::ArchiveLimits::default(),
  };
  crate::archive::pack(run(&temp, &["."], &BUDGET).unwrap(), &options).unwrap();
}
