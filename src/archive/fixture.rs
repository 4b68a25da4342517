//! Archives for tests, byte by byte: what no honest writer would make.

use bytes::Bytes;

use super::{ArchiveError, ArchiveLimits, BLOCK, Event, Refusal, Unpacker};

/// A header of the given format (`ustar` magic unless changed) that a test may bend before it is sealed.
#[derive(Clone)]
pub struct Raw(pub [u8; BLOCK]);

impl Raw {
  pub fn new(kind: u8, name: &[u8], size: u64) -> Self {
    let mut raw = Self([0; BLOCK]);
    raw.set(0, name).set(100, b"0000644\0").set(108, b"0001750\0").set(116, b"0001750\0");
    raw.set(124, format!("{size:011o}\0").as_bytes()).set(136, b"00000000007\0");
    raw.set(156, &[kind]).set(257, b"ustar\x0000");
    raw
  }

  pub fn set(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
    self.0[at..at + bytes.len()].copy_from_slice(bytes);
    self
  }

  /// The block with its checksum.
  pub fn seal(&self) -> Vec<u8> {
    let mut block = self.clone();
    block.set(148, b"        ");
    let sum: u32 = block.0.iter().map(|byte| u32::from(*byte)).sum();
    block.set(148, format!("{sum:06o}\0 ").as_bytes());
    block.0.to_vec()
  }
}

/// Contents and their padding.
pub fn padded(data: &[u8]) -> Vec<u8> {
  let mut data = data.to_vec();
  data.resize(data.len().next_multiple_of(BLOCK), 0);
  data
}

/// Any entry with contents.
pub fn entry(kind: u8, name: &[u8], data: &[u8]) -> Vec<u8> {
  [Raw::new(kind, name, data.len() as u64).seal(), padded(data)].concat()
}

pub fn file(name: &[u8], data: &[u8]) -> Vec<u8> {
  entry(b'0', name, data)
}

pub fn dir(name: &[u8]) -> Vec<u8> {
  entry(b'5', name, b"")
}

/// A symbolic (`2`) or hard (`1`) link.
pub fn link(kind: u8, name: &[u8], target: &[u8]) -> Vec<u8> {
  Raw::new(kind, name, 0).set(157, target).seal()
}

/// One PAX record.
pub fn record(key: &str, value: &[u8]) -> Vec<u8> {
  let rest = key.len() + value.len() + 3;
  let mut length = rest + 1;
  while length != rest + length.to_string().len() {
    length = rest + length.to_string().len();
  }
  [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

/// A PAX extended header.
pub fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
  entry(
    b'x',
    b"PaxHeaders/x",
    &records.iter().flat_map(|(key, value)| record(key, value)).collect::<Vec<_>>(),
  )
}

/// The parts and an end marker.
pub fn archive(parts: &[Vec<u8>]) -> Bytes {
  [parts.concat(), vec![0; 2 * BLOCK]].concat().into()
}

/// An entry as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
  pub entry: super::Entry,
  pub data: Vec<u8>,
}

pub fn limits() -> ArchiveLimits {
  ArchiveLimits { max_entries: 100, max_file_bytes: 4096, max_total_bytes: 8192, ..ArchiveLimits::default() }
}

/// Reads an archive in chunks of the given size.
pub fn read_in(archive: &[u8], limits: ArchiveLimits, chunk: usize) -> Result<Vec<Seen>, ArchiveError> {
  let mut reader = Unpacker::new(limits);
  let mut seen: Vec<Seen> = Vec::new();
  let mut open = false;
  for chunk in archive.chunks(chunk) {
    reader.push(Bytes::copy_from_slice(chunk), &mut |event| {
      match event {
        Event::Entry(entry) => {
          assert!(!std::mem::replace(&mut open, true), "an entry inside another");
          seen.push(Seen { entry, data: Vec::new() });
        }
        Event::Data(data) => {
          assert!(open && !data.is_empty());
          seen.last_mut().unwrap().data.extend_from_slice(&data);
        }
        Event::End => assert!(std::mem::replace(&mut open, false), "an end without an entry"),
      }
      Ok(())
    })?;
  }
  let summary = reader.finish()?;
  assert!(!open);
  assert!(seen.iter().all(|seen| seen.entry.size == seen.data.len() as u64));
  assert_eq!(summary.bytes, seen.iter().map(|seen| seen.entry.size).sum::<u64>());
  Ok(seen)
}

/// Reads an archive whole; and byte by byte, which must not differ.
#[track_caller]
pub fn read(archive: &[u8]) -> Result<Vec<Seen>, ArchiveError> {
  let whole = read_in(archive, limits(), archive.len().max(1));
  assert_eq!(read_in(archive, limits(), 1), whole);
  whole
}

/// Names as an archive gives them, those of implied directories left out.
#[track_caller]
pub fn names(archive: &[u8]) -> Vec<String> {
  let seen = read(archive).unwrap();
  let given = seen.iter().filter(|seen| !seen.entry.implied);
  given.map(|seen| seen.entry.path.as_bytes().escape_ascii().to_string()).collect()
}

/// The rule that refuses an archive.
#[track_caller]
pub fn refusal(archive: &[u8]) -> Refusal {
  match read(archive).unwrap_err() {
    ArchiveError::Refused { why, .. } => why,
    other => panic!("{other:?}"),
  }
}

/// What is damaged in an archive.
#[track_caller]
pub fn damage(archive: &[u8]) -> &'static str {
  match read(archive).unwrap_err() {
    ArchiveError::Damaged { what, .. } => what,
    other => panic!("{other:?}"),
  }
}

/// The limit that an archive passes.
#[track_caller]
pub fn limit(archive: &[u8]) -> (&'static str, u64) {
  match read(archive).unwrap_err() {
    ArchiveError::Limit { what, max, .. } => (what, max),
    other => panic!("{other:?}"),
  }
}
