//! A tmpfs in the double, with its size: what an engine reads in the options of `HostConfig.Tmpfs`.

use super::tree::Name;
use crate::error::{Error, Result, fail};

/// A tmpfs gives space by the page; 4 KiB on the machines that we run on.
pub const PAGE: u64 = 4096;

/// Options without a value that engines accept (moby, `pkg/mount` flags).
const FLAGS: &[&str] = &[
  "ro",
  "rw",
  "suid",
  "nosuid",
  "dev",
  "nodev",
  "exec",
  "noexec",
  "sync",
  "async",
  "atime",
  "noatime",
  "diratime",
  "nodiratime",
  "relatime",
  "norelatime",
  "strictatime",
  "nostrictatime",
];

/// A mounted tmpfs.
#[derive(Clone, Debug)]
pub struct Mount {
  /// Where.
  pub at: Vec<Name>,
  /// Permission bits of its root.
  pub mode: u32,
  /// Nothing can be written.
  pub read_only: bool,
  pages: u64,
  inodes: u64,
  used: (u64, u64),
}

impl Mount {
  /// Reads options such as `rw,noexec,size=64m,mode=0700,nr_inodes=1000`. Unknown ones are refused, as by an engine.
  pub fn parse(path: &str, options: &str) -> Result<Self> {
    let at: Vec<Name> =
      path.split('/').filter(|part| !part.is_empty()).map(|part| part.as_bytes().to_vec()).collect();
    if !path.starts_with('/') || at.is_empty() || at.iter().any(|part| part == b"." || part == b"..") {
      return Err(fail!(
        DockerApi,
        "A tmpfs cannot be mounted at {path:?}; its path must be absolute and plain."
      ));
    }
    let mut mount =
      Self { at, mode: 0o1777, read_only: false, pages: u64::MAX, inodes: u64::MAX, used: (0, 0) };
    for option in options.split(',').filter(|option| !option.is_empty()) {
      mount.apply(option).ok_or_else(|| invalid(path, option))?;
    }
    Ok(mount)
  }

  fn apply(&mut self, option: &str) -> Option<()> {
    match option.split_once('=') {
      None if FLAGS.contains(&option) => match option {
        "ro" => self.read_only = true,
        "rw" => self.read_only = false,
        _ => {}
      },
      Some(("size", size)) => self.pages = parse_size(size)?.map_or(u64::MAX, |bytes| bytes.div_ceil(PAGE)),
      Some(("nr_blocks", blocks)) => self.pages = parse_size(blocks)?.unwrap_or(u64::MAX),
      Some(("nr_inodes", inodes)) => self.inodes = parse_size(inodes)?.unwrap_or(u64::MAX),
      Some(("mode", mode)) => self.mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777)?,
      Some(("uid" | "gid", id)) => drop(id.parse::<u32>().ok()?),
      _ => return None,
    }
    Some(())
  }

  /// Free pages and inodes.
  pub const fn room(&self) -> (u64, u64) {
    (self.pages.saturating_sub(self.used.0), self.inodes.saturating_sub(self.used.1))
  }

  /// Counts what was put in.
  pub const fn add(&mut self, cost: (u64, u64)) {
    self.used = (self.used.0.saturating_add(cost.0), self.used.1.saturating_add(cost.1));
  }

  /// Counts what was taken out.
  pub const fn subtract(&mut self, cost: (u64, u64)) {
    self.used = (self.used.0.saturating_sub(cost.0), self.used.1.saturating_sub(cost.1));
  }

  /// Nothing is in it.
  pub const fn reset(&mut self) {
    self.used = (0, 0);
  }
}

/// A number with `k`, `m` or `g`. Zero means no limit (`tmpfs(5)`), and a part of a memory that nobody has does too.
fn parse_size(text: &str) -> Option<Option<u64>> {
  if let Some(percent) = text.strip_suffix('%') {
    return percent.parse::<u8>().ok().map(|_percent| None);
  }
  let lower = text.to_ascii_lowercase();
  let (digits, shift) = match lower.strip_suffix(['k', 'm', 'g']) {
    None => (lower.as_str(), 0),
    Some(digits) if lower.ends_with('k') => (digits, 10),
    Some(digits) if lower.ends_with('m') => (digits, 20),
    Some(digits) => (digits, 30),
  };
  let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
  Some((bytes > 0).then_some(bytes))
}

fn invalid(path: &str, option: &str) -> Error {
  fail!(
    DockerApi,
    "Invalid tmpfs option {option:?} for {path}; the engine knows size, nr_inodes, mode, uid, gid and flags."
  )
}
