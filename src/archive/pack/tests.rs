use std::io::Read;

use futures_util::StreamExt;
use proptest::prelude::*;

use super::super::fixture::{limits, read_in};
use super::*;
use crate::archive::{Refusal, SymlinkRule};

fn path(name: &[u8]) -> EntryPath {
  EntryPath::parse(name).unwrap()
}

fn file(name: &[u8], contents: &[u8], mode: u32) -> PackEntry {
  PackEntry::File { path: path(name), contents: Bytes::copy_from_slice(contents), mode }
}

fn symlink(name: &[u8], target: &[u8]) -> PackEntry {
  PackEntry::Symlink { path: path(name), target: target.to_vec() }
}

fn options() -> PackOptions {
  PackOptions { owner: Owner { uid: 1000, gid: 1001 }, mtime: 1_700_000_000, limits: limits() }
}

/// Name, type, mode, link target and contents.
type Other = (Vec<u8>, u8, u32, Vec<u8>, Vec<u8>);

/// Every entry, as a reader that is not ours sees it.
fn seen_by_tar(archive: &[u8]) -> Vec<Other> {
  let mut archive = tar::Archive::new(archive);
  let entries = archive.entries().unwrap().map(|entry| {
    let mut entry = entry.unwrap();
    let mut data = Vec::new();
    entry.read_to_end(&mut data).unwrap();
    let header = entry.header();
    let link = entry.link_name_bytes().unwrap_or_default().into_owned();
    (entry.path_bytes().into_owned(), header.entry_type().as_byte(), header.mode().unwrap(), link, data)
  });
  entries.collect()
}

#[test]
fn others_read_what_was_packed() {
  let long = [b"d/".as_slice(), "å".repeat(120).as_bytes()].concat();
  let target = [b't'; 150];
  let archive = pack(
    vec![
      PackEntry::Directory { path: path(b"d"), mode: 0o700 },
      file(b"d/f", b"hello", 0o6755),
      file(&long, b"", 0o600),
      symlink(b"d/s", b"f"),
      symlink(b"l", &target),
      file(b"fo\\o.txt", b"", 0o644),
      file(b"bad-\xff\xfe", b"", 0o644),
      file(b"-rf", b"", 0o644),
      file(&[b'n'; 99], b"", 0o644),
      file(&[b'm'; 100], b"", 0o644),
    ],
    &options(),
  );
  let none = Vec::new;
  let expected = [
    (b"d/".to_vec(), b'5', 0o700, none(), none()),
    (b"d/f".to_vec(), b'0', 0o755, none(), b"hello".to_vec()),
    (long, b'0', 0o600, none(), none()),
    (b"d/s".to_vec(), b'2', 0o777, b"f".to_vec(), none()),
    (b"l".to_vec(), b'2', 0o777, target.to_vec(), none()),
    (b"fo\\o.txt".to_vec(), b'0', 0o644, none(), none()),
    (b"bad-\xff\xfe".to_vec(), b'0', 0o644, none(), none()),
    (b"-rf".to_vec(), b'0', 0o644, none(), none()),
    (vec![b'n'; 99], b'0', 0o644, none(), none()),
    (vec![b'm'; 100], b'0', 0o644, none(), none()),
  ];
  assert_eq!(seen_by_tar(&archive.unwrap()), expected);
}

#[test]
fn headers_are_gnus_with_numbers_only() {
  let archive = pack(vec![file(b"f", b"12345", 0o640)], &options()).unwrap();
  assert_eq!(archive.len(), 4 * BLOCK);
  let header = tar::Header::from_byte_slice(&archive[..BLOCK]).as_gnu().unwrap();
  assert_eq!(&header.name[..2], b"f\0");
  assert_eq!((&header.mode, &header.uid, &header.gid), (b"0000640\0", b"0001750\0", b"0001751\0"));
  assert_eq!((&header.size, &header.mtime), (b"00000000005\0", b"14524770400\0"));
  assert_eq!((header.typeflag, header.magic, header.version), ([b'0'], *b"ustar ", *b" \0"));
  assert_eq!((header.uname, header.gname), ([0; 32], [0; 32]));
  assert_eq!(&archive[BLOCK..BLOCK + 6], b"12345\0");
}

#[test]
fn owners_beyond_octal_digits_are_kept() {
  let owner = Owner { uid: (1 << 21) + 1, gid: u32::MAX };
  let archive = pack(vec![file(b"f", b"", 0o644)], &PackOptions { owner, ..options() }).unwrap();
  let header = tar::Header::from_byte_slice(&archive[..BLOCK]);
  assert_eq!((header.uid().unwrap(), header.gid().unwrap()), ((1 << 21) + 1, u64::from(u32::MAX)));
}

#[test]
fn odd_times_come_back() {
  for mtime in [-1, 0, (1 << 33) - 1, 1 << 33, 1 << 53, -(1 << 53), i64::from(i32::MIN)] {
    let archive = pack(vec![file(b"f", b"", 0o644)], &PackOptions { mtime, ..options() }).unwrap();
    assert_eq!(read_in(&archive, limits(), 512).unwrap()[0].entry.mtime, mtime);
  }
}

#[test]
fn directories_above_an_entry_are_written_once() {
  let entries = vec![file(b"a/b/f", b"", 0o600), PackEntry::Directory { path: path(b"a"), mode: 0o700 }];
  let seen = seen_by_tar(&pack(entries, &options()).unwrap());
  let seen: Vec<_> = seen.iter().map(|(name, _, mode, ..)| (name.as_slice(), *mode)).collect();
  assert_eq!(seen, [(b"a/".as_slice(), 0o755), (b"a/b/", 0o755), (b"a/b/f", 0o600), (b"a/", 0o700)]);
}

#[test]
fn every_directory_lets_its_owner_in() {
  let directory = |name, mode| PackEntry::Directory { path: path(name), mode };
  let seen = seen_by_tar(&pack(vec![directory(b"a", 0o555), directory(b"b", 0)], &options()).unwrap());
  assert_eq!((seen[0].2, seen[1].2), (0o755, 0o700));
}

#[test]
fn budgets_and_rules_hold_for_ours_too() {
  let refused = |entries| pack(entries, &options()).unwrap_err();
  let limit = |name: &str, what, max| ArchiveError::Limit { name: format!("{name:?}"), what, max };
  assert!(pack(vec![file(b"f", &[0; 4096], 0o644)], &options()).is_ok());
  assert_eq!(refused(vec![file(b"f", &[0; 4097], 0o644)]), limit("f", "bytes in one file", 4096));
  let three = (0..3).map(|n| file(format!("f{n}").as_bytes(), &[0; 4000], 0o644)).collect();
  assert_eq!(refused(three), limit("f2", "bytes in all files", 8192));
  let many = |count: usize| (0..count).map(|n| file(n.to_string().as_bytes(), b"", 0o644)).collect();
  assert!(pack(many(100), &options()).is_ok());
  assert_eq!(refused(many(101)), limit("100", "entries", 100));
  let why = |entries| match refused(entries) {
    ArchiveError::Refused { why, .. } => why,
    other => panic!("{other:?}"),
  };
  let directory = |name| PackEntry::Directory { path: path(name), mode: 0o755 };
  assert_eq!(why(vec![file(b"a", b"", 0o644), directory(b"a")]), Refusal::OtherType);
  assert_eq!(why(vec![symlink(b"a", b"b"), file(b"a/x", b"", 0o644)]), Refusal::BelowOther);
  assert_eq!(why(vec![symlink(b"a", b"/etc")]), Refusal::LinkOutside);
}

#[tokio::test]
async fn the_stream_is_the_same_archive_without_copying_large_contents() {
  let big = Bytes::from(vec![7; 1_000_000]);
  let large = ArchiveLimits { max_file_bytes: 1 << 20, max_total_bytes: 1 << 22, ..limits() };
  let options = PackOptions { limits: large, ..options() };
  let mut entries = vec![file(b"a", b"small", 0o644)];
  entries.push(PackEntry::File { path: path(b"big"), contents: big.clone(), mode: 0o644 });
  entries.push(file(b"z", b"end", 0o644));
  let chunks: Vec<Bytes> =
    pack_stream(entries.clone(), &options).unwrap().map(Result::unwrap).collect().await;
  assert!(chunks.iter().any(|chunk| chunk.as_ptr() == big.as_ptr() && chunk.len() == big.len()));
  assert!(chunks.iter().all(|chunk| !chunk.is_empty()));
  assert_eq!(chunks.concat(), pack(entries, &options).unwrap());
}

#[tokio::test]
async fn many_small_files_make_few_chunks() {
  let entries: Vec<_> = (0..100).map(|n| file(n.to_string().as_bytes(), &[1; 50], 0o644)).collect();
  let chunks: Vec<Bytes> = pack_stream(entries, &options()).unwrap().map(Result::unwrap).collect().await;
  assert_eq!(chunks.iter().map(Bytes::len).sum::<usize>(), 202 * BLOCK);
  assert_eq!(chunks.len(), 2);
}

proptest! {
  #[test]
  fn what_is_packed_is_read(
    entries in prop::collection::vec(("[a-c\u{e9}\\\\ ]{1,3}(/[a-c]{1,120}){0,2}", 0..3_u8, prop::collection::vec(any::<u8>(), 0..700)), 0..8),
    chunk in 1_usize..3000,
  ) {
    let entries: Vec<_> = entries.into_iter().map(|(name, kind, contents)| match kind {
      0 => file(name.as_bytes(), &contents, 0o640),
      1 => PackEntry::Directory { path: path(name.as_bytes()), mode: 0o750 },
      _ => symlink(name.as_bytes(), name.as_bytes()),
    }).collect();
    let options = PackOptions { limits: ArchiveLimits { symlinks: SymlinkRule::Anywhere, ..limits() }, ..options() };
    if let Ok(archive) = pack(entries.clone(), &options) {
      let seen = read_in(&archive, options.limits, chunk).unwrap();
      let explicit: Vec<_> = entries.into_iter().map(|entry| entry.split(options.mtime)).collect();
      prop_assert_eq!(seen_by_tar(&archive).len(), seen.len());
      let mut seen = seen.into_iter();
      for (entry, contents) in explicit {
        let found = seen.find(|seen| seen.entry == entry);
        prop_assert_eq!(found.map(|found| found.data), Some(contents.to_vec()));
      }
    }
  }
}
