use super::*;

fn entry(path: &str, kind: EntryKind, size: u64) -> Entry {
  let path = EntryPath::parse(path.as_bytes()).unwrap();
  Entry { path, kind, mode: 0o644, mtime: 0, size, implied: false }
}

fn file(path: &str, size: u64) -> Entry {
  entry(path, EntryKind::File, size)
}

fn limits() -> ArchiveLimits {
  ArchiveLimits { max_entries: 5, max_file_bytes: 100, max_total_bytes: 150, symlinks: SymlinkRule::Inside }
}

fn paths(fresh: &[EntryPath]) -> Vec<&[u8]> {
  fresh.iter().map(EntryPath::as_bytes).collect()
}

#[test]
fn says_which_directories_are_new() {
  let mut gate = Gate::new(ArchiveLimits::default());
  assert_eq!(paths(&gate.admit(&file("a/b/c", 1)).unwrap()), [b"a".as_slice(), b"a/b"]);
  assert_eq!(paths(&gate.admit(&file("a/b/d", 1)).unwrap()), [] as [&[u8]; 0]);
  assert_eq!(paths(&gate.admit(&file("a/x/y/z", 1)).unwrap()), [b"a/x".as_slice(), b"a/x/y"]);
  assert_eq!(paths(&gate.admit(&entry("a", EntryKind::Directory, 0)).unwrap()), [] as [&[u8]; 0]);
  assert_eq!((gate.entries(), gate.bytes()), (8, 3));
}

#[test]
fn budgets_hold_before_the_entry_that_passes_them() {
  let mut gate = Gate::new(limits());
  let name = "\"big\"".to_owned();
  assert_eq!(
    gate.admit(&file("big", 101)).unwrap_err(),
    ArchiveError::Limit { name: name.clone(), what: "bytes in one file", max: 100 }
  );
  let mut gate = Gate::new(limits());
  gate.admit(&file("a", 100)).unwrap();
  gate.admit(&file("b", 50)).unwrap();
  assert_eq!(
    gate.admit(&file("big", 1)).unwrap_err(),
    ArchiveError::Limit { name, what: "bytes in all files", max: 150 }
  );
}

#[test]
fn empty_files_directories_and_links_count() {
  let link = EntryKind::Symlink { target: b"x".to_vec() };
  let mut gate = Gate::new(limits());
  gate.admit(&file("a", 0)).unwrap();
  gate.admit(&entry("l", link, 0)).unwrap();
  gate.admit(&file("d/e/f", 0)).unwrap();
  assert_eq!(gate.entries(), 5);
  let error = gate.admit(&file("g", 0)).unwrap_err();
  assert_eq!(error, ArchiveError::Limit { name: "\"g\"".to_owned(), what: "entries", max: 5 });
  // Directories that nobody names are inodes too.
  let error = Gate::new(limits()).admit(&file("1/2/3/4/5/6", 0)).unwrap_err();
  assert_eq!(error, ArchiveError::Limit { name: "\"1/2/3/4/5/6\"".to_owned(), what: "entries", max: 5 });
  // And so is the same file over and over.
  let mut gate = Gate::new(limits());
  assert_eq!((0..9).filter(|_| gate.admit(&file("a", 0)).is_ok()).count(), 5);
}

#[test]
fn no_file_of_8_gib_whatever_the_budget() {
  let mut gate = Gate::new(ArchiveLimits {
    max_file_bytes: u64::MAX,
    max_total_bytes: u64::MAX,
    ..ArchiveLimits::default()
  });
  gate.admit(&file("a", MAX_ARCHIVE_FILE_BYTES)).unwrap();
  let error = gate.admit(&file("b", MAX_ARCHIVE_FILE_BYTES + 1)).unwrap_err();
  assert_eq!(
    error,
    ArchiveError::Limit { name: "\"b\"".to_owned(), what: "bytes in one file", max: (1 << 33) - 1 }
  );
}

#[test]
fn a_refused_entry_leaves_no_name() {
  let mut gate = Gate::new(ArchiveLimits::default());
  gate.admit(&file("f", 0)).unwrap();
  gate.admit(&file("f/x/y", 0)).unwrap_err();
  assert!(!gate.names.is_file(&EntryPath::parse(b"f/x/y").unwrap()));
  assert_eq!(gate.names.0.len(), 2);
}

#[test]
fn a_hard_link_does_not_lead_to_itself() {
  let link =
    |path, target: &[u8]| entry(path, EntryKind::HardLink { target: EntryPath::parse(target).unwrap() }, 0);
  let mut gate = Gate::new(ArchiveLimits::default());
  gate.admit(&file("a", 1)).unwrap();
  gate.admit(&link("b", b"a")).unwrap();
  gate.admit(&link("c", b"b")).unwrap();
  gate.admit(&link("b", b"c")).unwrap();
  assert_eq!(gate.admit(&link("b", b"b")), Err(ArchiveError::refused(b"b", Refusal::HardLink)));
}
