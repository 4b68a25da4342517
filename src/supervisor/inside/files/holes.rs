//! A file whose contents come in pieces, and take no more room than they must.

use rustix::fs::Timestamps;
use rustix::io::Errno;

use super::temporary::Temporary;

/// What a file system gives out at once: a tmpfs pages, others seldom less.
const BLOCK: usize = 4096;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// A temporary file in which blocks of nothing but zeros stay holes, as they were before a tar was made of them. However
/// the contents are cut into pieces: a block has room only once something that is not zero is written into it.
pub struct Filling {
  file: Temporary,
  /// How much of the contents there was.
  length: u64,
  /// How far the file goes.
  written: u64,
}

impl Filling {
  /// Fills an empty file.
  pub const fn new(file: Temporary) -> Self {
    Self { file, length: 0, written: 0 }
  }

  /// Appends.
  pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
      let (zeros, full) = (run(self.length, bytes, true), run(self.length, bytes, false));
      let (run, rest) = bytes.split_at(zeros.max(full));
      if full > 0 {
        self.file.write_at(run, self.length)?;
        self.written = self.length + run.len() as u64;
      }
      self.length += run.len() as u64;
      bytes = rest;
    }
    Ok(())
  }

  /// All of it is there: sets the file's length and when it was changed last, and gives it its permissions and its name.
  pub fn place(self, name: &[u8], mode: u32, times: &Timestamps) -> Result<(), Errno> {
    if self.written < self.length {
      self.file.set_length(self.length)?;
    }
    self.file.set_time(times)?;
    self.file.place(name, mode, true)
  }
}

/// With how many bytes they begin that lie in blocks of which these bytes have nothing but zeros, or something else. The
/// first of them is at `offset` of the file.
fn run(offset: u64, bytes: &[u8], zeros: bool) -> usize {
  let mut length = 0;
  while let Some(rest) = bytes.get(length..).filter(|rest| !rest.is_empty()) {
    let left = BLOCK - (offset + length as u64) as usize % BLOCK;
    let part = rest.get(..left).unwrap_or(rest);
    if ZEROS.starts_with(part) != zeros {
      break;
    }
    length += part.len();
  }
  length
}

#[cfg(test)]
mod tests {
  use std::os::unix::fs::MetadataExt;

  use rustix::fs::{Mode, OFlags, Timespec};

  use super::*;

  const MIB: usize = 1 << 20;

  /// What a file holds that was filled with these contents in pieces of such lengths, and the room that it takes.
  fn filled(contents: &[u8], piece: usize) -> (Vec<u8>, u64) {
    let root = tempfile::tempdir().unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = rustix::fs::open(root.path(), flags, Mode::empty()).unwrap();
    let mut file = Filling::new(Temporary::new(directory).unwrap());
    for piece in contents.chunks(piece) {
      file.write(piece).unwrap();
    }
    let second = Timespec { tv_sec: 7, tv_nsec: 0 };
    let times = Timestamps { last_access: second, last_modification: second };
    file.place(b"file", 0o640, &times).unwrap();
    let path = root.path().join("file");
    let metadata = path.metadata().unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.mtime()), (0o640, 7));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    (std::fs::read(path).unwrap(), metadata.blocks() * 512)
  }

  #[test]
  fn a_hole_takes_no_room_however_it_comes() {
    let mut contents = vec![0; 20 * MIB];
    for at in [5 * MIB + 1, 5 * MIB + BLOCK - 1, 5 * MIB + BLOCK, 11 * MIB] {
      contents[at] = 1;
    }
    for piece in [1_000, BLOCK, 65_536, 65_537 - 512, 20 * MIB] {
      let (found, room) = filled(&contents, piece);
      assert!(found == contents, "pieces of {piece}");
      // A file system of this machine may keep its map of the file in a block of its own.
      assert!((3 * BLOCK as u64..=5 * BLOCK as u64).contains(&room), "{room} in pieces of {piece}");
    }
  }

  #[test]
  fn a_file_is_as_long_as_its_contents_whatever_they_end_with() {
    for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
      for byte in [0, 1] {
        for last in [0, 1] {
          let mut contents = vec![byte; length];
          contents.extend([last]);
          for piece in [1, 7, BLOCK, 4 * BLOCK] {
            assert!(filled(&contents, piece).0 == contents, "{length} times {byte}, {last}, {piece}");
          }
        }
      }
    }
    assert_eq!(filled(&[], 1), (Vec::new(), 0));
  }
}
