//! Reads an archive that somebody else wrote, from chunks of any size, without I/O of its own.
//!
//! It reads ustar and old headers, GNU long names, and of PAX what changes an entry's meaning. Where programs differ
//! about what bytes mean, the archive is refused: two records that name one entry, contents of a link or directory,
//! a file's name with a closing slash, anything but zeros after the end. Memory is bounded by one header block, the
//! records of one entry (64 KiB each) and the names of what was accepted; an announced length reserves nothing.
//!
//! An archive ends with two zero blocks. One is enough if the stream ends right after it, since nothing can be missing
//! then; any other end is [`ArchiveError::Cut`].

use bytes::{Buf, Bytes};

use super::entry::{Entry, EntryKind, EntryPath, MODE_MASK};
use super::error::{ArchiveError, Refusal};
use super::gate::{ArchiveLimits, Gate};
use super::header::Header;
use super::pax::{Pax, PaxError};
use super::{BLOCK, padding};
use crate::limits::{MAX_ARCHIVE_RECORD_BYTES, MAX_ARCHIVE_TRAILER_BYTES};

/// Mode of a directory that the archive needs but does not hold.
const IMPLIED_MODE: u32 = 0o755;
/// Sizes and times beyond 2^53 are refused or cut off: JavaScript could not hold them, and no file has them.
const MAX_NUMBER: i128 = 1 << 53;

/// What an archive says, in its order. Each entry has one `Entry`, then its contents, then one `End`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
  /// The next entry; the rules and budgets let it through.
  Entry(Entry),
  /// A part of its contents, never empty.
  Data(Bytes),
  /// Its end.
  End,
}

/// What an archive held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
  /// Entries, implied directories included.
  pub entries: u64,
  /// Bytes of all files.
  pub bytes: u64,
}

/// Reads one archive. After an error it only repeats that error.
#[derive(Debug)]
pub struct Unpacker {
  gate: Gate,
  base: Option<&'static str>,
  state: State,
  pending: Pending,
  at: u64,
  failed: Option<ArchiveError>,
}

#[derive(Debug)]
enum State {
  Header(Block),
  Record(Record),
  /// Bytes of contents, and of padding, still to come.
  Body(u64, u64),
  Padding(u64),
  /// One zero block has been read.
  Marker(Block),
  /// Two have; so many bytes followed.
  Trailer(u64),
}

#[derive(Debug)]
struct Block {
  bytes: [u8; BLOCK],
  filled: usize,
}

#[derive(Debug)]
struct Record {
  kind: u8,
  data: Vec<u8>,
  left: u64,
  padding: u64,
}

/// What the records before a header said about its entry.
#[derive(Debug, Default)]
struct Pending {
  name: Option<Vec<u8>>,
  link: Option<Vec<u8>>,
  pax: Option<Pax>,
}

impl Unpacker {
  /// A reader that has read nothing.
  pub fn new(limits: ArchiveLimits) -> Self {
    Self {
      gate: Gate::new(limits),
      base: None,
      state: State::Header(Block::EMPTY),
      pending: Pending::default(),
      at: 0,
      failed: None,
    }
  }

  /// A reader of an archive that holds one directory under its own name, as engines give it: paths are those below it.
  pub fn of_directory(name: &'static str, limits: ArchiveLimits) -> Self {
    Self { base: Some(name), ..Self::new(limits) }
  }

  /// Reads the next bytes of the archive; `sink` gets what they complete. An error of the sink ends the reading.
  pub fn push(
    &mut self,
    mut chunk: Bytes,
    sink: &mut impl FnMut(Event) -> Result<(), ArchiveError>,
  ) -> Result<(), ArchiveError> {
    if let Some(error) = &self.failed {
      return Err(error.clone());
    }
    while chunk.has_remaining() {
      let state = std::mem::replace(&mut self.state, State::Header(Block::EMPTY));
      let stepped = self.step(state, &mut chunk, sink);
      self.state = stepped.inspect_err(|error| self.failed = Some(error.clone()))?;
    }
    Ok(())
  }

  /// Says that the stream ended.
  pub fn finish(self) -> Result<Summary, ArchiveError> {
    if let Some(error) = self.failed {
      return Err(error);
    }
    match self.state {
      State::Trailer(_) | State::Marker(Block { filled: 0, .. }) => {
        Ok(Summary { entries: self.gate.entries(), bytes: self.gate.bytes() })
      }
      _ => Err(ArchiveError::Cut { at: self.at }),
    }
  }

  fn step(
    &mut self,
    state: State,
    chunk: &mut Bytes,
    sink: &mut impl FnMut(Event) -> Result<(), ArchiveError>,
  ) -> Result<State, ArchiveError> {
    match state {
      State::Header(mut block) => {
        if self.fill(&mut block, chunk) {
          self.header(&block.bytes, sink)
        } else {
          Ok(State::Header(block))
        }
      }
      State::Record(mut record) => {
        let part = self.take(chunk, &mut record.left);
        record.data.extend_from_slice(&part);
        if record.left > 0 { Ok(State::Record(record)) } else { self.record(record) }
      }
      State::Body(mut left, padding) => {
        sink(Event::Data(self.take(chunk, &mut left)))?;
        if left > 0 {
          return Ok(State::Body(left, padding));
        }
        sink(Event::End)?;
        Ok(after(padding))
      }
      State::Padding(mut left) => {
        self.take(chunk, &mut left);
        Ok(after(left))
      }
      State::Marker(mut block) => match self.fill(&mut block, chunk) {
        false => Ok(State::Marker(block)),
        true if is_zero(&block.bytes) => Ok(State::Trailer(0)),
        true => Err(self.damaged("a zero block stands between entries")),
      },
      State::Trailer(read) => self.trailer(read, chunk),
    }
  }

  fn trailer(&mut self, read: u64, chunk: &mut Bytes) -> Result<State, ArchiveError> {
    let mut left = MAX_ARCHIVE_TRAILER_BYTES - read;
    let zeros = chunk.iter().position(|byte| *byte != 0).unwrap_or(chunk.len());
    let taken = self.take(&mut chunk.split_to(zeros), &mut left);
    if taken.len() < zeros {
      return Err(self.damaged("it goes on after its end marker for longer than any writer's padding"));
    }
    if chunk.has_remaining() {
      return Err(self.damaged("data follows its end marker"));
    }
    Ok(State::Trailer(MAX_ARCHIVE_TRAILER_BYTES - left))
  }

  /// Takes what `left` allows off the front of `chunk`, and counts it off.
  fn take(&mut self, chunk: &mut Bytes, left: &mut u64) -> Bytes {
    let length = usize::try_from(*left).map_or(chunk.len(), |left| left.min(chunk.len()));
    *left -= length as u64;
    self.at += length as u64;
    chunk.split_to(length)
  }

  /// Takes what `block` lacks off the front of `chunk`; true once it is complete.
  fn fill(&mut self, block: &mut Block, chunk: &mut Bytes) -> bool {
    let mut left = (BLOCK - block.filled) as u64;
    let part = self.take(chunk, &mut left);
    if let Some(room) = block.bytes.get_mut(block.filled..block.filled + part.len()) {
      room.copy_from_slice(&part);
    }
    block.filled += part.len();
    left == 0
  }

  fn header(
    &mut self,
    block: &[u8; BLOCK],
    sink: &mut impl FnMut(Event) -> Result<(), ArchiveError>,
  ) -> Result<State, ArchiveError> {
    if is_zero(block) {
      if self.pending.is_empty() {
        return Ok(State::Marker(Block::EMPTY));
      }
      return Err(self.damaged("a record names an entry that does not follow"));
    }
    let header = Header::parse(block).map_err(|what| self.damaged(what))?;
    if let kind @ (b'L' | b'K' | b'x' | b'g') = header.kind() {
      return self.announce(kind, &header);
    }
    let entry = self.entry(&header)?;
    let parents = self.gate.admit(&entry)?;
    for path in parents {
      let mtime = entry.mtime;
      let kind = EntryKind::Directory;
      sink(Event::Entry(Entry { path, kind, mode: IMPLIED_MODE, mtime, size: 0, implied: true }))?;
      sink(Event::End)?;
    }
    let size = entry.size;
    sink(Event::Entry(entry))?;
    if size > 0 {
      return Ok(State::Body(size, padding(size)));
    }
    sink(Event::End)?;
    Ok(State::Header(Block::EMPTY))
  }

  /// A record that says something about the next entry follows.
  fn announce(&mut self, kind: u8, header: &Header<'_>) -> Result<State, ArchiveError> {
    let left = self.size(header)?;
    if left > MAX_ARCHIVE_RECORD_BYTES {
      return Err(ArchiveError::limit(
        &header.name(),
        "bytes in one header record",
        MAX_ARCHIVE_RECORD_BYTES,
      ));
    }
    if kind == b'g' {
      // There may be any number of these without an entry, so each costs as much as one.
      self.gate.count(&header.name(), 1)?;
    }
    let record = Record { kind, data: Vec::new(), left, padding: padding(left) };
    if left > 0 { Ok(State::Record(record)) } else { self.record(record) }
  }

  fn record(&mut self, record: Record) -> Result<State, ArchiveError> {
    let fits = match record.kind {
      b'L' => self.pending.name.replace(long_name(record.data)?).is_none(),
      b'K' => self.pending.link.replace(long_name(record.data)?).is_none(),
      b'x' => self.pending.pax.replace(self.pax(&record.data)?).is_none(),
      _ if self.pax(&record.data)?.is_harmless() => true,
      _ => return Err(self.damaged("a global PAX header names, sizes or links all entries")),
    };
    if fits { Ok(after(record.padding)) } else { Err(refused(b"", Refusal::Ambiguous)) }
  }

  fn pax(&self, data: &[u8]) -> Result<Pax, ArchiveError> {
    Pax::parse(data).map_err(|error| match error {
      PaxError::Damaged(what) => self.damaged(what),
      PaxError::Refused(why) => refused(b"", why),
    })
  }

  fn entry(&mut self, header: &Header<'_>) -> Result<Entry, ArchiveError> {
    let Pending { name, link, pax } = std::mem::take(&mut self.pending);
    let pax = pax.unwrap_or_default();
    let name = one_of(name, pax.path)?.unwrap_or_else(|| header.name());
    let link = one_of(link, pax.link)?.unwrap_or_else(|| header.link());
    let refuse = |why| refused(&name, why);
    if pax.sparse {
      return Err(refuse(Refusal::Sparse));
    }
    let path = self.path(&name).map_err(refuse)?;
    let kind = self.kind(header.kind(), &name, link).map_err(refuse)?;
    let mode =
      header.mode().filter(|mode| *mode >= 0).ok_or_else(|| self.damaged("a header's mode is no number"))?;
    let mtime = header.mtime().ok_or_else(|| self.damaged("a header's time is no number"))?;
    let mtime = pax.mtime.map_or(mtime, i128::from).clamp(-MAX_NUMBER, MAX_NUMBER);
    let size = pax.size.map_or_else(|| self.size(header), Ok)?;
    Ok(Entry {
      path,
      kind,
      mode: u32::try_from(mode & i128::from(MODE_MASK)).unwrap_or_default(),
      mtime: i64::try_from(mtime).unwrap_or_default(),
      size,
      implied: false,
    })
  }

  fn path(&self, name: &[u8]) -> Result<EntryPath, Refusal> {
    let Some(base) = self.base else { return EntryPath::parse(name) };
    match name.strip_prefix(base.as_bytes()) {
      Some([] | b"/") => Ok(EntryPath::root()),
      Some([b'/', below @ ..]) => EntryPath::parse(below),
      _ => Err(Refusal::Elsewhere),
    }
  }

  fn kind(&self, byte: u8, name: &[u8], link: Vec<u8>) -> Result<EntryKind, Refusal> {
    match byte {
      b'0' | 0 if name.ends_with(b"/") => Err(Refusal::FileWithSlash),
      b'0' | 0 => Ok(EntryKind::File),
      b'5' => Ok(EntryKind::Directory),
      b'2' => Ok(EntryKind::Symlink { target: link }),
      // A target that is no path of an entry cannot be a file of this archive.
      b'1' => Ok(EntryKind::HardLink { target: self.path(&link).map_err(|_| Refusal::HardLink)? }),
      b'S' => Err(Refusal::Sparse),
      other => Err(Refusal::Type(other)),
    }
  }

  fn size(&self, header: &Header<'_>) -> Result<u64, ArchiveError> {
    match header.size() {
      Some(size @ 0..=MAX_NUMBER) => {
        u64::try_from(size).map_err(|_| self.damaged("a header's size is impossible"))
      }
      Some(_) => Err(self.damaged("a header's size is impossible")),
      None => Err(self.damaged("a header's size is no number")),
    }
  }

  fn damaged(&self, what: &'static str) -> ArchiveError {
    ArchiveError::Damaged { at: self.at, what }
  }
}

fn refused(name: &[u8], why: Refusal) -> ArchiveError {
  ArchiveError::refused(name, why)
}

/// The contents of an `L` or `K` record: with a closing NUL (GNU) or without (others).
fn long_name(mut data: Vec<u8>) -> Result<Vec<u8>, ArchiveError> {
  if data.last() == Some(&0) {
    data.pop();
  }
  match data.as_slice() {
    [] => Err(refused(&data, Refusal::EmptyName)),
    name if name.contains(&0) => Err(refused(&data, Refusal::Nul)),
    _ => Ok(data),
  }
}

fn one_of(long: Option<Vec<u8>>, pax: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, ArchiveError> {
  match (long, pax) {
    (Some(name), Some(_)) => Err(refused(&name, Refusal::Ambiguous)),
    (long, pax) => Ok(long.or(pax)),
  }
}

const fn after(padding: u64) -> State {
  if padding > 0 { State::Padding(padding) } else { State::Header(Block::EMPTY) }
}

fn is_zero(block: &[u8; BLOCK]) -> bool {
  block.iter().all(|byte| *byte == 0)
}

impl Block {
  const EMPTY: Self = Self { bytes: [0; BLOCK], filled: 0 };
}

impl Pending {
  const fn is_empty(&self) -> bool {
    self.name.is_none() && self.link.is_none() && self.pax.is_none()
  }
}

#[cfg(test)]
mod tests;
