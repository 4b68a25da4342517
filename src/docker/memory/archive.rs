//! `tar -x -C directory` and `tar -c -C parent name` over a [`Tree`], with the words and the exit of BusyBox's tar.

use std::io::{Cursor, Read, Write};
use std::path::Path;

use bytes::Bytes;
use tar::{Archive, Builder, Entry, EntryType, Header};

use super::tree::{Last, Name, Node, Refusal, Tree, path_of};
use crate::limits::{MAX_ARCHIVE_ENTRIES, MAX_PATH_BYTES};

/// What tar says where it fails; for the engine's error.
pub type Said = String;

/// Unpacks an archive below a directory. What came before a failure stays, as with a real tar.
pub fn unpack(tree: &mut Tree, directory: &str, tar: &[u8]) -> Result<(), Said> {
  let base = match tree.existing(&[], directory.as_bytes(), Last::Follow) {
    Ok((place, Node::Directory { .. })) => place,
    Ok(_) => return Err(format!("tar: can't change directory to '{directory}': {}", Refusal::NotDirectory)),
    Err(refusal) => return Err(format!("tar: can't change directory to '{directory}': {refusal}")),
  };
  let mut archive = Archive::new(Cursor::new(tar));
  let entries = archive.entries().map_err(|error| format!("tar: {error}"))?;
  for (count, entry) in entries.enumerate() {
    if count as u64 >= MAX_ARCHIVE_ENTRIES {
      return Err(format!("tar: more than {MAX_ARCHIVE_ENTRIES} entries"));
    }
    let mut entry = entry.map_err(|error| format!("tar: {error}"))?;
    put_entry(tree, &base, &mut entry)?;
  }
  Ok(())
}

fn put_entry(tree: &mut Tree, base: &[Name], entry: &mut Entry<'_, Cursor<&[u8]>>) -> Result<(), Said> {
  let raw = entry.path_bytes().into_owned();
  let shown = String::from_utf8_lossy(&raw).into_owned();
  let names = names_of(&raw).ok_or_else(|| format!("tar: name with '..' encountered: '{shown}'"))?;
  let Some((name, parents)) = names.split_last() else { return Ok(()) };
  let failed = |refusal: Refusal| match refusal {
    Refusal::NoSpace => format!("tar: write error: {refusal}"),
    _ => format!("tar: can't open '{shown}': {refusal}"),
  };
  let mut place = make_parents(tree, base, parents).map_err(failed)?;
  place.push(name.clone());
  let node = read_node(tree, base, entry, &shown)?;
  match (tree.get(&place), &node) {
    (Some(Node::Directory { .. }), Node::Directory { mode, .. }) => {
      return tree.set_mode(&place, *mode).map_err(failed);
    }
    (Some(Node::Directory { .. }), _) => {
      return Err(format!("tar: can't remove old file {shown}: {}", Refusal::IsDirectory));
    }
    // What is there is replaced, never written through.
    (Some(_), _) => drop(tree.take(&place).map_err(failed)?),
    (None, _) => {}
  }
  tree.put(&place, node).map_err(failed)
}

/// Components of an entry's name; a leading slash and dots are dropped.
fn names_of(raw: &[u8]) -> Option<Vec<Name>> {
  let parts = raw.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
  let names: Vec<Name> = parts.map(<[u8]>::to_vec).collect();
  (raw.len() <= MAX_PATH_BYTES && !names.iter().any(|name| name == b"..")).then_some(names)
}

/// Missing parents are made; links among those that exist are followed, as by a real tar.
fn make_parents(tree: &mut Tree, base: &[Name], parents: &[Name]) -> Result<Vec<Name>, Refusal> {
  let mut place = base.to_vec();
  for name in parents {
    let next = tree.place(&place, name, Last::Follow)?;
    match tree.get(&next) {
      Some(Node::Directory { .. }) => {}
      Some(_) => return Err(Refusal::NotDirectory),
      None => tree.put(&next, Node::directory(0o755))?,
    }
    place = next;
  }
  Ok(place)
}

fn read_node(
  tree: &Tree,
  base: &[Name],
  entry: &mut Entry<'_, Cursor<&[u8]>>,
  shown: &str,
) -> Result<Node, Said> {
  let mode = entry.header().mode().map_err(|error| format!("tar: {error}"))? & 0o7777;
  let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
  match entry.header().entry_type() {
    EntryType::Regular | EntryType::Continuous => {
      let mut data = Vec::new();
      entry.read_to_end(&mut data).map_err(|error| format!("tar: {error}"))?;
      if data.len() as u64 != entry.size() {
        return Err("tar: short read".to_owned());
      }
      Ok(Node::File { data: data.into(), mode })
    }
    EntryType::Directory => Ok(Node::directory(mode)),
    EntryType::Symlink if target.is_empty() => {
      Err(format!("tar: can't create symlink '{shown}': Invalid argument"))
    }
    EntryType::Symlink => Ok(Node::Symlink { target }),
    EntryType::Fifo => Ok(Node::Pipe { mode }),
    // A copy: later changes of one name do not show under the other.
    EntryType::Link => match tree.existing(base, &target, Last::Keep) {
      Ok((_, Node::File { data, mode })) => Ok(Node::File { data: data.clone(), mode: *mode }),
      Ok(_) => Err(format!("tar: can't create hardlink '{shown}': Operation not permitted")),
      Err(refusal) => Err(format!("tar: can't create hardlink '{shown}': {refusal}")),
    },
    other => Err(format!("tar: unsupported entry type {:?} of '{shown}'", char::from(other.as_byte()))),
  }
}

/// Why no archive was made.
pub enum NotPacked {
  /// The path is not there.
  Missing(Said),
  /// It would be longer than that.
  TooLong,
  /// The archive could not be written.
  Failed(Said),
}

/// An archive of what is at a path, at most `max_bytes` long; names begin with the path's last component.
pub fn pack(tree: &Tree, path: &str, owner: (u64, u64), max_bytes: u64) -> Result<Bytes, NotPacked> {
  let (place, node) = tree
    .existing(&[], path.as_bytes(), Last::Keep)
    .map_err(|refusal| NotPacked::Missing(format!("tar: {path}: {refusal}")))?;
  let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
  let mut builder = Builder::new(Bounded { out: Vec::new(), left: max_bytes, full: false });
  let mut written = append(&mut builder, owner, &name, node);
  if written.is_ok() {
    written = builder.finish();
  }
  let full = builder.get_ref().full;
  match written.and_then(|()| builder.into_inner()) {
    _ if full => Err(NotPacked::TooLong),
    Ok(bounded) => Ok(bounded.out.into()),
    Err(error) => {
      Err(NotPacked::Failed(format!("tar: {}: {error}", String::from_utf8_lossy(&path_of(&place)))))
    }
  }
}

fn append(
  builder: &mut Builder<Bounded>,
  owner: (u64, u64),
  name: &[u8],
  node: &Node,
) -> std::io::Result<()> {
  let mut header = Header::new_gnu();
  header.set_uid(owner.0);
  header.set_gid(owner.1);
  header.set_mtime(0);
  header.set_size(0);
  match node {
    Node::File { data, mode } => {
      header.set_mode(*mode);
      header.set_entry_type(EntryType::Regular);
      header.set_size(data.len() as u64);
      builder.append_data(&mut header, as_path(name), data.as_ref())
    }
    Node::Directory { entries, mode } => {
      header.set_mode(*mode);
      header.set_entry_type(EntryType::Directory);
      let inside = [name, b"/"].concat();
      builder.append_data(&mut header, as_path(&inside), std::io::empty())?;
      entries
        .iter()
        .try_for_each(|(child, node)| append(builder, owner, &[&inside, child.as_slice()].concat(), node))
    }
    Node::Symlink { target } => {
      header.set_mode(0o777);
      header.set_entry_type(EntryType::Symlink);
      builder.append_link(&mut header, as_path(name), as_path(target))
    }
    Node::Pipe { mode } => {
      header.set_mode(*mode);
      header.set_entry_type(EntryType::Fifo);
      builder.append_data(&mut header, as_path(name), std::io::empty())
    }
  }
}

fn as_path(name: &[u8]) -> &Path {
  use std::os::unix::ffi::OsStrExt;
  Path::new(std::ffi::OsStr::from_bytes(name))
}

/// A buffer that refuses what passes its bound.
struct Bounded {
  out: Vec<u8>,
  left: u64,
  full: bool,
}

impl Write for Bounded {
  fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
    match self.left.checked_sub(data.len() as u64) {
      Some(left) => self.left = left,
      None => {
        self.full = true;
        return Err(std::io::Error::other("the archive is too long"));
      }
    }
    self.out.extend_from_slice(data);
    Ok(data.len())
  }

  fn flush(&mut self) -> std::io::Result<()> {
    Ok(())
  }
}
