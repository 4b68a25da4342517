//! The public `getArchive`: the archive in one piece, and what it says of the path that was asked for.

use futures_util::StreamExt;
use tar::EntryType;

use super::engine::{Archive, Engine};
use super::model::PathStat;
use crate::error::Result;

/// Permission bits, the set-id and sticky ones included.
const MODE_BITS: u32 = 0o7777;

/// Collects the archive of a path, at most `max_bytes`, and reads what it says of the path itself.
pub async fn get_whole_archive(engine: &dyn Engine, id: &str, path: &str, max_bytes: u64) -> Result<Archive> {
  let mut pieces = engine.get_archive(id, path, max_bytes).await?;
  let mut tar = Vec::new();
  while let Some(piece) = pieces.next().await {
    tar.extend_from_slice(&piece?);
  }
  let name = path.rsplit('/').next().unwrap_or_default();
  let stat =
    own_entry(&tar, name).unwrap_or_else(|| PathStat { name: name.to_owned(), ..PathStat::default() });
  Ok(Archive { tar, stat })
}

/// What the archive's entry for `name` says, which a `tar` that was asked for it writes first. The archive comes from a
/// program in the container: what it says is passed on, not trusted.
fn own_entry(tar: &[u8], name: &str) -> Option<PathStat> {
  let mut archive = tar::Archive::new(tar);
  let entry = archive.entries().ok()?.next()?.ok()?;
  let path = entry.path_bytes();
  if path.strip_suffix(b"/").unwrap_or(&path) != name.as_bytes() {
    return None;
  }
  let kind = entry.header().entry_type();
  let target = entry.link_name_bytes().filter(|_target| kind == EntryType::Symlink);
  Some(PathStat {
    name: name.to_owned(),
    size: if kind.is_file() { entry.size() } else { 0 },
    mode: entry.header().mode().ok()? & MODE_BITS,
    link_target: target.map(|target| String::from_utf8_lossy(&target).into_owned()).unwrap_or_default(),
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  fn archive(kind: EntryType, name: &str, mode: u32, target: Option<&str>, contents: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(contents.len() as u64);
    let mut builder = tar::Builder::new(Vec::new());
    match target {
      Some(target) => builder.append_link(&mut header, name, target).unwrap(),
      None => builder.append_data(&mut header, name, contents).unwrap(),
    }
    builder.into_inner().unwrap()
  }

  #[track_caller]
  fn stat(tar: &[u8], name: &str) -> (u64, u32, String) {
    let stat = own_entry(tar, name).unwrap();
    assert_eq!(stat.name, name);
    (stat.size, stat.mode, stat.link_target)
  }

  #[test]
  fn files_directories_and_links_say_what_they_are() {
    let file = archive(EntryType::Regular, "a", 0o104_755, None, b"12345");
    assert_eq!(stat(&file, "a"), (5, 0o4755, String::new()));
    let directory = archive(EntryType::Directory, "d/", 0o700, None, b"");
    assert_eq!(stat(&directory, "d"), (0, 0o700, String::new()));
    let link = archive(EntryType::Symlink, "l", 0o777, Some("../x"), b"");
    assert_eq!(stat(&link, "l"), (0, 0o777, "../x".to_owned()));
    let long = "ä".repeat(120);
    assert_eq!(
      stat(&archive(EntryType::Regular, &long, 0o600, None, b"1"), &long),
      (1, 0o600, String::new())
    );
  }

  #[test]
  fn an_archive_of_something_else_says_nothing() {
    let other = archive(EntryType::Regular, "other", 0o644, None, b"1");
    for tar in [&other[..], &other[..100], &[0; 1024], &[0xff; 1024], b""] {
      assert_eq!(own_entry(tar, "a"), None);
    }
  }
}
