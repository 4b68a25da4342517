//! The supervisor's binaries, one for each architecture of a container.

use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::wire::image_digest;
use crate::error::{Result, fail};

/// More than any of them has.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// A static program for Linux.
pub struct Binary {
  /// The file, compressed (RFC 1951), as `build.rs` left it; empty where there is none.
  packed: &'static [u8],
  bytes: OnceLock<Vec<u8>>,
  digest: OnceLock<[u8; 32]>,
  image: OnceLock<Option<[u8; 32]>>,
}

static AMD64: Binary = Binary::new(include_bytes!(concat!(env!("OUT_DIR"), "/supervisor-amd64")));
static ARM64: Binary = Binary::new(include_bytes!(concat!(env!("OUT_DIR"), "/supervisor-arm64")));

impl Binary {
  const fn new(packed: &'static [u8]) -> Self {
    Self { packed, bytes: OnceLock::new(), digest: OnceLock::new(), image: OnceLock::new() }
  }

  /// The ELF file.
  pub fn bytes(&self) -> &[u8] {
    // `build.rs` wrote it: nothing else can be there.
    let unpack =
      || miniz_oxide::inflate::decompress_to_vec_with_limit(self.packed, MAX_BYTES).unwrap_or_default();
    self.bytes.get_or_init(unpack)
  }

  /// SHA-256 of the file.
  pub fn digest(&self) -> &[u8; 32] {
    self.digest.get_or_init(|| Sha256::digest(self.bytes()).into())
  }

  /// The digest in hexadecimal.
  pub fn hex(&self) -> String {
    hex::encode(self.digest())
  }

  /// What the running program must say of itself ([`image_digest`]); `None` where the file is no program.
  pub fn image_digest(&self) -> Option<[u8; 32]> {
    *self.image.get_or_init(|| image_digest(self.bytes()))
  }
}

/// The binary of that digest in hexadecimal, if this build of the package has it.
pub fn by_digest(hex: &str) -> Option<&'static Binary> {
  [&AMD64, &ARM64].into_iter().find(|binary| !binary.packed.is_empty() && binary.hex() == hex)
}

/// The binary for an engine's architecture, as Go (`amd64`) or `uname -m` (`x86_64`) spells it.
pub fn binary(architecture: &str) -> Result<&'static Binary> {
  let found = match architecture {
    "amd64" | "x86_64" => &AMD64,
    "arm64" | "aarch64" => &ARM64,
    other => {
      return Err(fail!(Unsupported, "There is no supervisor for containers of architecture {other:?}."));
    }
  };
  if found.packed.is_empty() {
    return Err(fail!(
      Unsupported,
      "This build of the package holds no supervisor for architecture {architecture:?}."
    ));
  }
  Ok(found)
}
