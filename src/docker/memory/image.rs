//! Images of the double.

use std::collections::BTreeMap;

use super::state::digest;
use super::tree::Node;
use crate::docker::model::{ContainerConfig, ImageInspection};

/// Directories of every image.
const DIRECTORIES: &[&[u8]] =
  &[b"bin", b"dev", b"etc", b"home", b"proc", b"root", b"run", b"sbin", b"sys", b"tmp", b"usr", b"var"];
/// The usual search path, which every small image sets.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An image.
#[derive(Clone)]
pub struct Image {
  /// `sha256:…`.
  pub id: String,
  /// Its names, each with a tag or a digest.
  pub references: Vec<String>,
  /// What containers of it inherit.
  pub config: ContainerConfig,
  /// Its files.
  pub root: Node,
}

impl Image {
  /// The image that a registry would give for a reference; the same one every time.
  pub fn of_registry(reference: &str) -> Self {
    let reference = normal(reference);
    let directories = DIRECTORIES.iter().map(|name| (name.to_vec(), Node::directory(0o755))).collect();
    let mut root = Node::Directory { entries: directories, mode: 0o755 };
    if let Node::Directory { entries, .. } = &mut root {
      entries.insert(b"tmp".to_vec(), Node::directory(0o1777));
      let bin = BTreeMap::from([(b"bin".to_vec(), Node::directory(0o755))]);
      entries.insert(b"usr".to_vec(), Node::Directory { entries: bin, mode: 0o755 });
    }
    Self {
      id: format!("sha256:{}", digest(&format!("image {reference}"))),
      config: ContainerConfig { env: Some(vec![PATH.to_owned()]), ..ContainerConfig::default() },
      references: vec![reference],
      root,
    }
  }

  /// True where `asked` is one of its names, its id, or the beginning of its id's digits.
  pub fn is(&self, asked: &str) -> bool {
    let digits = asked.strip_prefix("sha256:").unwrap_or(asked);
    let id = self.id.strip_prefix("sha256:").unwrap_or(&self.id);
    let by_id =
      digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && id.starts_with(digits);
    by_id || self.references.contains(&normal(asked))
  }

  /// As the engine describes it.
  pub fn inspection(&self) -> ImageInspection {
    let names = self.references.iter().filter_map(|reference| reference.split(['@', ':']).next());
    ImageInspection {
      id: self.id.clone(),
      repo_digests: Some(names.map(|name| format!("{name}@{}", self.id)).collect()),
      config: self.config.clone(),
      architecture: "amd64".to_owned(),
      os: "linux".to_owned(),
    }
  }
}

/// A reference as engines store it: with a tag or a digest, and without what stands for Docker's own registry.
pub fn normal(reference: &str) -> String {
  let short = ["docker.io/library/", "docker.io/"].iter().find_map(|prefix| reference.strip_prefix(prefix));
  let short = short.unwrap_or(reference);
  let last = short.rsplit('/').next().unwrap_or_default();
  if last.contains([':', '@']) { short.to_owned() } else { format!("{short}:latest") }
}
