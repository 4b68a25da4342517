//! Writes archives of ours: fresh headers in GNU's form, contents, padding, end marker.
//!
//! A name or link target that does not fit a header goes before it in an `L` or `K` record, never in a PAX one:
//! BusyBox reads the former and skips the latter. The time is base-256 where octal digits do not reach.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use tar::{EntryType, Header};

use super::entry::{Entry, EntryKind};
use super::pack::Owner;
use super::{BLOCK, padding};

/// Longest name in a header. The field has 100 bytes; its closing NUL is optional, but not every reader knows.
const MAX_HEADER_NAME: usize = 99;
/// Largest time in 11 octal digits, in the year 2242.
const MAX_OCTAL_TIME: i64 = 0o77_777_777_777;
/// Bits that every directory gets. BusyBox sets a directory's mode before it writes what is in it, and does not change
/// it when the directory comes again: what is read-only for its owner would stay empty, and the unpacking fail.
const OWNER_ACCESS: u32 = 0o700;
/// Headers, padding and small contents are gathered into chunks of about this many bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Contents from this size on are passed on without copying.
const COPY_BELOW_BYTES: usize = 8 * 1024;

/// Writes one archive into chunks.
#[derive(Debug)]
pub struct Writer {
  owner: Owner,
  gathered: BytesMut,
  ready: VecDeque<Bytes>,
  padding: usize,
}

impl Writer {
  /// A writer of an empty archive.
  pub fn new(owner: Owner) -> Self {
    Self { owner, gathered: BytesMut::new(), ready: VecDeque::new(), padding: 0 }
  }

  /// Writes the header of an entry; its contents and [`Self::end_entry`] follow.
  /// A [`super::gate::Gate`] has let it through, so its size fits 11 octal digits.
  pub fn entry(&mut self, entry: &Entry) {
    let mut name = entry.path.as_bytes().to_vec();
    let (kind, link) = match &entry.kind {
      EntryKind::File => (EntryType::Regular, b"".as_slice()),
      EntryKind::Directory => (EntryType::Directory, b"".as_slice()),
      EntryKind::Symlink { target } => (EntryType::Symlink, target.as_slice()),
      EntryKind::HardLink { target } => (EntryType::Link, target.as_bytes()),
    };
    if kind.is_dir() {
      if name.is_empty() {
        name.push(b'.');
      }
      name.push(b'/');
    }
    self.long_record(EntryType::GNULongLink, link);
    self.long_record(EntryType::GNULongName, &name);
    let mut header = self.header(kind, &name, entry.size);
    header.set_mode(entry.mode | if kind.is_dir() { OWNER_ACCESS } else { 0 });
    set_time(&mut header, entry.mtime);
    if let Some(gnu) = header.as_gnu_mut() {
      copy_front(&mut gnu.linkname, link);
    }
    self.put_header(header);
    self.padding = usize::try_from(padding(entry.size)).unwrap_or_default();
  }

  /// Writes a part of the contents.
  pub fn data(&mut self, data: Bytes) {
    if data.len() < COPY_BELOW_BYTES {
      self.gathered.extend_from_slice(&data);
      return self.flush_if_full();
    }
    self.flush();
    self.ready.push_back(data);
  }

  /// Fills up the contents to whole blocks.
  pub fn end_entry(&mut self) {
    self.gathered.put_bytes(0, std::mem::take(&mut self.padding));
    self.flush_if_full();
  }

  /// Writes the end marker.
  pub fn end_archive(&mut self) {
    self.gathered.put_bytes(0, 2 * BLOCK);
    self.flush();
  }

  /// The next chunk that is complete.
  pub fn pop(&mut self) -> Option<Bytes> {
    self.ready.pop_front()
  }

  /// Forgets what has not been taken.
  pub fn discard(&mut self) {
    self.gathered.clear();
    self.ready.clear();
  }

  /// Bytes that have not been taken.
  #[cfg(test)]
  pub fn waiting(&self) -> usize {
    self.gathered.len() + self.ready.iter().map(Bytes::len).sum::<usize>()
  }

  fn long_record(&mut self, kind: EntryType, text: &[u8]) {
    if text.len() <= MAX_HEADER_NAME {
      return;
    }
    let size = text.len() as u64 + 1;
    let header = self.header(kind, b"././@LongLink", size);
    self.put_header(header);
    self.gathered.extend_from_slice(text);
    self.gathered.put_bytes(0, 1 + usize::try_from(padding(size)).unwrap_or_default());
  }

  fn header(&self, kind: EntryType, name: &[u8], size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0);
    header.set_uid(self.owner.uid.into());
    header.set_gid(self.owner.gid.into());
    if let Some(gnu) = header.as_gnu_mut() {
      copy_front(&mut gnu.name, name);
    }
    header
  }

  fn put_header(&mut self, mut header: Header) {
    header.set_cksum();
    self.gathered.extend_from_slice(header.as_bytes());
    self.flush_if_full();
  }

  fn flush_if_full(&mut self) {
    if self.gathered.len() >= CHUNK_BYTES {
      self.flush();
    }
  }

  fn flush(&mut self) {
    if !self.gathered.is_empty() {
      self.ready.push_back(self.gathered.split().freeze());
    }
  }
}

fn set_time(header: &mut Header, mtime: i64) {
  if let Ok(seconds @ 0..) = u64::try_from(mtime)
    && mtime <= MAX_OCTAL_TIME
  {
    return header.set_mtime(seconds);
  }
  if let Some(gnu) = header.as_gnu_mut() {
    // Base-256: two's complement, and the first bit of a positive number set as well.
    let fill = if mtime < 0 { [0xff; 4] } else { [0x80, 0, 0, 0] };
    let bytes = fill.into_iter().chain(mtime.to_be_bytes());
    gnu.mtime.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
  }
}

/// As much of a name as a field holds, without its last byte, which stays NUL.
fn copy_front(field: &mut [u8; 100], name: &[u8]) {
  field.iter_mut().take(MAX_HEADER_NAME).zip(name).for_each(|(to, from)| *to = *from);
}
