//! The digest of a program that can be taken from its file and from its memory alike.
//!
//! Its file cannot be read inside (mode 0111, another owner), and a program cannot hold the digest of itself. But the
//! segments that are not writable are the same bytes in both.

use sha2::{Digest, Sha256};

/// Sizes of a 64-bit little-endian ELF file: header, program header.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// `PT_LOAD` and `PF_W` (`elf.h`).
const LOAD: u32 = 1;
const WRITABLE: u32 = 2;
/// A static program of ours has fewer than ten.
const MAX_SEGMENTS: usize = 64;

/// SHA-256 over the segments of a 64-bit little-endian ELF file that are loaded and not writable, in order. `None`: it
/// is no such file. The supervisor takes the same digest of its own memory, [`super::Welcome::digest`].
pub fn image_digest(file: &[u8]) -> Option<[u8; 32]> {
  if file.get(..6)? != b"\x7fELF\x02\x01" {
    return None;
  }
  let table = usize::try_from(u64_at(file, 32)?).ok()?;
  let (size, count) = (usize::from(u16_at(file, 54)?), usize::from(u16_at(file, 56)?));
  if file.len() < HEADER || size != PROGRAM_HEADER || count > MAX_SEGMENTS {
    return None;
  }
  let mut digest = Sha256::new();
  for number in 0..count {
    let header = file.get(table.checked_add(number * size)?..)?.get(..size)?;
    if u32_at(header, 0)? == LOAD && u32_at(header, 4)? & WRITABLE == 0 {
      let offset = usize::try_from(u64_at(header, 8)?).ok()?;
      let length = usize::try_from(u64_at(header, 32)?).ok()?;
      digest.update(file.get(offset..)?.get(..length)?);
    }
  }
  Some(digest.finalize().into())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
  Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
  Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
  Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
