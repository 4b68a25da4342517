//! Archives that somebody else wrote: what the reader lets through is safe, and written afresh it is the same to our reader,
//! to another one, and when it is written afresh once more.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use sandbox_docker::archive::{
  ArchiveLimits, Entry, EntryKind, EntryPath, Event, Owner, ReemitOptions, SymlinkRule, Unpacker, reemit,
  single_file,
};
use sandbox_docker::error::ErrorCode;

use super::messages;
use super::pieces::pieces;

/// Names and contents of an input, several times over.
const MEMORY: usize = 32 * 1024 * 1024;
const BLOCK: usize = 512;
/// Longest archive that is made of an input.
const LONGEST: usize = 512 * 1024;
const OWNER: Owner = Owner { uid: 65534, gid: 65534 };
/// The directory that engines put a workspace in.
const BASE: &str = "workspace";
/// How deep and long a path may be (`MAX_PATH_DEPTH`, `MAX_PATH_BYTES`, `MAX_NAME_BYTES`).
const PATH: (usize, usize, usize) = (64, 4095, 255);

pub fn check(data: &[u8]) {
  let [how, seed, rest @ ..] = data else { return };
  super::bounded(MEMORY, || {
    let archive = match how % 4 {
      0 => rest.to_vec(),
      // Headers whose sums are right, whatever is in them.
      1 => summed(rest),
      _ => made(&mut Unstructured::new(rest)),
    };
    for base in [None, Some(BASE)] {
      vet(&archive, &options(base, *how), *seed);
    }
    one(&archive, *seed);
  });
}

fn options(base: Option<&'static str>, how: u8) -> ReemitOptions {
  let symlinks = if how & 4 == 0 { SymlinkRule::Inside } else { SymlinkRule::Anywhere };
  let limits = match how >> 3 & 3 {
    0 => ArchiveLimits { max_entries: 5, max_file_bytes: 1000, max_total_bytes: 1500, symlinks },
    1 => ArchiveLimits { max_entries: 70, ..ArchiveLimits::default() },
    _ => ArchiveLimits::default(),
  };
  ReemitOptions {
    base,
    owner: OWNER,
    limits: ArchiveLimits { symlinks, ..limits },
    code: ErrorCode::SnapshotInvalid,
  }
}

fn vet(archive: &[u8], options: &ReemitOptions, seed: u8) {
  let whole = afresh(archive, 7, options);
  assert_eq!(afresh(archive, seed, options), whole, "in pieces");
  let events = read(archive, options.base, options.limits, seed);
  let Ok(whole) = whole else {
    assert!(events.is_none(), "the archive is read and not written afresh");
    return;
  };
  let events = events.unwrap();
  safe(&events, options.limits);
  // The new archive has no entry for the workspace, and one for each directory that the old one only implied.
  let expected: Vec<_> = events
    .into_iter()
    .filter(|(entry, _)| !entry.path.is_root())
    .map(|(entry, contents)| {
      let mode = if entry.kind == EntryKind::Directory { entry.mode | 0o700 } else { entry.mode };
      (Entry { implied: false, mode, ..entry }, contents)
    })
    .collect();
  assert_eq!(read(&whole, None, options.limits, seed).as_ref(), Some(&expected), "the second pass");
  let again = afresh(&whole, seed, &ReemitOptions { base: None, ..*options });
  assert_eq!(again.as_ref(), Ok(&whole), "written afresh a second time");
  same_to_another(&whole, &expected);
}

/// The archive as we would write it, or what is said instead.
fn afresh(archive: &[u8], seed: u8, options: &ReemitOptions) -> std::result::Result<Vec<u8>, String> {
  let chunks: Vec<_> = pieces(archive, seed).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
  let mut out = reemit(stream::iter(chunks).boxed(), *options);
  let mut whole = Vec::new();
  // It waits for nothing but its input, which is there.
  while let Some(chunk) = out.next().now_or_never().unwrap() {
    match chunk {
      Ok(chunk) => whole.extend_from_slice(&chunk),
      Err(error) => {
        assert!(matches!(error.code(), ErrorCode::SnapshotInvalid | ErrorCode::Limit), "{error}");
        assert!(out.next().now_or_never().unwrap().is_none(), "it goes on after an error");
        return Err(error.to_string());
      }
    }
  }
  Ok(whole)
}

type Read = Vec<(Entry, Vec<u8>)>;

fn read(archive: &[u8], base: Option<&'static str>, limits: ArchiveLimits, seed: u8) -> Option<Read> {
  let mut unpacker = base.map_or_else(|| Unpacker::new(limits), |base| Unpacker::of_directory(base, limits));
  let mut entries: Read = Vec::new();
  let mut open = false;
  let mut sink = |event| {
    match event {
      Event::Entry(entry) => {
        assert!(!std::mem::replace(&mut open, true), "an entry in an entry");
        entries.push((entry, Vec::new()));
      }
      Event::Data(bytes) => {
        assert!(open && !bytes.is_empty());
        entries.last_mut().unwrap().1.extend_from_slice(&bytes);
      }
      Event::End => assert!(std::mem::replace(&mut open, false), "an end of nothing"),
    }
    Ok(())
  };
  for piece in pieces(archive, seed) {
    if let Err(error) = unpacker.push(Bytes::copy_from_slice(piece), &mut sink) {
      assert_eq!(unpacker.push(Bytes::from_static(b"x"), &mut sink), Err(error.clone()));
      assert_eq!(unpacker.finish(), Err(error));
      return None;
    }
  }
  let summary = unpacker.finish().ok()?;
  assert!(!open);
  assert_eq!(summary.bytes, entries.iter().map(|(_, contents)| contents.len() as u64).sum::<u64>());
  // Global headers count too, and say nothing of an entry.
  assert!(summary.entries >= entries.len() as u64 && summary.entries <= limits.max_entries);
  Some(entries)
}

/// What nobody may unpack never passes, by rules of their own: a file system is played through.
fn safe(entries: &Read, limits: ArchiveLimits) {
  let mut places: BTreeMap<&[u8], &EntryKind> = BTreeMap::new();
  for (entry, contents) in entries {
    let path = entry.path.as_bytes();
    let parts: Vec<_> = path.split(|byte| *byte == b'/').filter(|_| !path.is_empty()).collect();
    let names = parts.iter().all(|part| !matches!(*part, b"" | b"." | b"..") && part.len() <= PATH.2);
    assert!(names && !path.contains(&0) && parts.len() <= PATH.0 && path.len() <= PATH.1, "{entry:?}");
    assert!(entry.mode <= 0o777, "{entry:?}");
    assert_eq!(entry.size, contents.len() as u64, "{entry:?}");
    assert!(
      entry.size == 0 || (entry.kind == EntryKind::File && entry.size <= limits.max_file_bytes),
      "{entry:?}"
    );
    for up in 1..parts.len() {
      let parent = parts[..up].join(&b'/');
      assert_eq!(places.get(parent.as_slice()), Some(&&EntryKind::Directory), "above {entry:?}");
    }
    let before = places.insert(path, &entry.kind);
    let same =
      before.is_none_or(|before| std::mem::discriminant(before) == std::mem::discriminant(&entry.kind));
    assert!(
      same && (!path.is_empty() || entry.kind == EntryKind::Directory),
      "{entry:?} in place of {before:?}"
    );
    match &entry.kind {
      EntryKind::Symlink { target } => {
        assert!(!target.is_empty() && !target.contains(&0) && target.len() <= PATH.1, "{entry:?}");
        assert!(limits.symlinks == SymlinkRule::Anywhere || stays(&parts, target), "{entry:?}");
      }
      EntryKind::HardLink { target } => {
        assert_ne!(target, &entry.path, "a link to itself");
        let found = places.get(target.as_bytes());
        assert!(matches!(found, Some(EntryKind::File | EntryKind::HardLink { .. })), "{entry:?}: {found:?}");
      }
      EntryKind::File | EntryKind::Directory => {}
    }
  }
  let all: u64 = entries.iter().map(|(entry, _)| entry.size).sum();
  assert!(all <= limits.max_total_bytes);
}

/// Whether the target of a link at `link` is in the workspace, read as text and with every name on the way a link to the
/// workspace's top.
fn stays(link: &[&[u8]], target: &[u8]) -> bool {
  let rest = target.strip_prefix(b"/workspace").filter(|rest| rest.is_empty() || rest[0] == b'/');
  if target.starts_with(b"/") && rest.is_none() {
    return false;
  }
  let mut depth = if rest.is_some() { 0 } else { link.len() - 1 };
  for part in rest.unwrap_or(target).split(|byte| *byte == b'/') {
    match part {
      b"" | b"." => {}
      b".." if depth == 0 => return false,
      b".." => depth -= 1,
      _ => depth = 0,
    }
  }
  true
}

/// What another reader makes of what we wrote.
fn same_to_another(archive: &[u8], expected: &Read) {
  let mut other = tar::Archive::new(archive);
  let mut found = Vec::new();
  for entry in other.entries().unwrap() {
    let mut entry = entry.unwrap();
    let mut contents = Vec::new();
    std::io::Read::read_to_end(&mut entry, &mut contents).unwrap();
    let header = entry.header();
    assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (OWNER.uid.into(), OWNER.gid.into()));
    let link = entry.link_name_bytes().map(|link| link.to_vec());
    let path = EntryPath::parse(&entry.path_bytes()).unwrap();
    let kind = match header.entry_type() {
      tar::EntryType::Regular => EntryKind::File,
      tar::EntryType::Directory => EntryKind::Directory,
      tar::EntryType::Symlink => EntryKind::Symlink { target: link.unwrap() },
      tar::EntryType::Link => EntryKind::HardLink { target: EntryPath::parse(&link.unwrap()).unwrap() },
      other => panic!("{other:?}"),
    };
    found.push((path, kind, header.mode().unwrap(), contents));
  }
  let expected: Vec<_> = expected
    .iter()
    .map(|(entry, contents)| (entry.path.clone(), entry.kind.clone(), entry.mode, contents.clone()))
    .collect();
  assert_eq!(found, expected, "read by another");
}

/// One file of the archive, for who asked for it.
fn one(archive: &[u8], seed: u8) {
  let wanted = EntryPath::parse(b"a/b").unwrap();
  let read = |seed| {
    let chunks: Vec<_> = pieces(archive, seed).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let file = single_file(stream::iter(chunks).boxed(), wanted.clone(), 1000, ErrorCode::DockerApi);
    file.now_or_never().unwrap().map_err(|error| error.to_string())
  };
  let file = read(7);
  assert_eq!(read(seed), file, "one file in pieces");
  if let Ok(file) = file {
    assert!(file.size() <= 1000 && file.mode <= 0o777);
    let limits = ArchiveLimits { max_file_bytes: 1000, ..ArchiveLimits::default() };
    let entries = self::read(archive, None, limits, seed).unwrap();
    let [(entry, contents)] = entries.iter().filter(|(entry, _)| !entry.implied).collect::<Vec<_>>()[..]
    else {
      panic!("one of {entries:?}");
    };
    assert_eq!(
      (&entry.path, contents.as_slice(), &entry.kind),
      (&wanted, &file.contents[..], &EntryKind::File)
    );
  }
}

/// The same blocks, with right sums in those that say that they are headers.
fn summed(bytes: &[u8]) -> Vec<u8> {
  let mut blocks = bytes.to_vec();
  blocks.resize(blocks.len().next_multiple_of(BLOCK), 0);
  for block in
    blocks.chunks_mut(BLOCK).filter(|block| block[257..262] == *b"ustar" || block[257..262] == [0; 5])
  {
    if block.iter().any(|byte| *byte != 0) {
      sum(block);
    }
  }
  blocks
}

fn sum(block: &mut [u8]) {
  block[148..156].fill(b' ');
  let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
  block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// An archive of entries and records that mean something, and of some that do not.
pub fn made(u: &mut Unstructured<'_>) -> Vec<u8> {
  let mut archive = Vec::new();
  while !u.is_empty() && archive.len() < LONGEST {
    // An input may end anywhere.
    if entry(u, &mut archive).is_err() {
      break;
    }
  }
  archive.extend_from_slice(&[0; 2 * BLOCK]);
  archive
}

fn entry(u: &mut Unstructured<'_>, archive: &mut Vec<u8>) -> Result<()> {
  let kind = *u.choose(b"0005522112LKxg\0S3467A")?;
  let contents = match kind {
    b'x' | b'g' => records(u)?,
    b'L' | b'K' => [name(u)?, if u.arbitrary()? { vec![0] } else { Vec::new() }].concat(),
    _ if u.ratio(1, 3)? => messages::bytes(u, 3000)?.to_vec(),
    _ => Vec::new(),
  };
  let mut block = vec![0; BLOCK];
  put(&mut block[..100], &name(u)?);
  number(u, &mut block[100..108], 0o644)?;
  number(u, &mut block[124..136], contents.len() as u64)?;
  number(u, &mut block[136..148], 1_700_000_000)?;
  block[156] = kind;
  if matches!(kind, b'1' | b'2' | b'0') {
    let own = block[..100].to_vec();
    let link = if u.ratio(1, 8)? { own } else { name(u)? };
    put(&mut block[157..257], &link);
  }
  match u.int_in_range(0..=5u8)? {
    0 => {}
    1 => {
      block[257..265].copy_from_slice(b"ustar\x0000");
      put(&mut block[345..500], &name(u)?);
    }
    2 => block[257..265].copy_from_slice(b"ustar\x0000"),
    _ => block[257..265].copy_from_slice(b"ustar  \0"),
  }
  if u.ratio(15, 16)? {
    sum(&mut block);
  }
  archive.extend(block);
  archive.extend(&contents);
  if u.ratio(15, 16)? {
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
  }
  Ok(())
}

fn records(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
  let mut all = Vec::new();
  for _ in 0..u.int_in_range(0..=3u8)? {
    let key = *u.choose(&[
      "path",
      "linkpath",
      "size",
      "mtime",
      "uid",
      "GNU.sparse.major",
      "SCHILY.realsize",
      "comment",
    ])?;
    let value = match key {
      "size" => messages::number(u)?.to_string().into_bytes(),
      "mtime" => u.choose(&["1.5", "-1.5", "0", "99999999999999999999", "1.", "-0.000"])?.as_bytes().to_vec(),
      _ => name(u)?,
    };
    // The length counts its own digits.
    let rest = 1 + key.len() + 1 + value.len() + 1;
    let length = (rest + 1..).find(|length| length.to_string().len() + rest == *length).unwrap();
    all.extend(format!("{length} {key}=").into_bytes());
    all.extend(value);
    all.push(b'\n');
  }
  Ok(all)
}

fn name(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
  const NAMES: [&[u8]; 24] = [
    b"a",
    b"a/b",
    b"a/b/c",
    b"b",
    b"a/",
    b"./a",
    b".",
    b"./",
    b"..",
    b"a/../b",
    b"../a",
    b"/a",
    b"/workspace/a",
    b"workspace",
    b"workspace/",
    b"workspace/a",
    b"workspace/a/b",
    b"workspace/b",
    b"",
    b"a//b",
    b"/workspace",
    b"/workspace/../a",
    b"a/.",
    b"../../a",
  ];
  Ok(match u.int_in_range(0..=9u8)? {
    0 => messages::bytes(u, 300)?.to_vec(),
    1 => vec![b'n'; u.int_in_range(90..=260usize)?],
    2 => b"d/".repeat(u.int_in_range(30..=70usize)?),
    3 => [*u.choose(&NAMES)?, b"/", u.choose(&NAMES)?].concat(),
    _ => u.choose(&NAMES)?.to_vec(),
  })
}

/// As much as fits.
fn put(field: &mut [u8], text: &[u8]) {
  field.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
}

/// A number in one of the ways to write it, mostly the right one.
fn number(u: &mut Unstructured<'_>, field: &mut [u8], right: u64) -> Result<()> {
  let value = if u.ratio(7, 8)? { right } else { messages::number(u)? };
  let digits = field.len() - 1;
  match u.int_in_range(0..=9u8)? {
    0 => put(field, u.bytes(field.len().min(u.len()))?),
    1 => {
      let bytes = i128::from(value).to_be_bytes();
      let from = bytes.len() - field.len();
      field.copy_from_slice(&bytes[from..]);
      field[0] |= 0x80;
    }
    2 => field.fill(*u.choose(&[0xff, 0, b' '])?),
    _ => {
      let text = format!("{value:0digits$o}");
      put(field, &text.as_bytes()[text.len().saturating_sub(digits)..]);
    }
  }
  Ok(())
}
