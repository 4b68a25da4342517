//! The tmpfs mounts: the workspace, `/tmp` if there is one, and masks over what the image would have on the host's disk.

use std::collections::BTreeMap;

use crate::docker::model::ImageInspection;
use crate::environment::options::{Options, inodes};
use crate::workspace::path::WORKSPACE_ROOT;

/// Where the optional tmpfs for temporary files is.
pub const TMP: &str = "/tmp";
/// Over a volume of the image. Engines make a disk volume for each, writable on a read-only root file system, unless
/// something is mounted there.
pub const MASK: &str = "ro,nosuid,nodev,noexec,size=4096,nr_inodes=1,mode=0555";

/// Path → mount options.
pub fn tmpfs(options: &Options, image: &ImageInspection) -> BTreeMap<String, String> {
  let mut mounts = BTreeMap::new();
  for volume in image.config.volumes.iter().flatten().map(|(path, _)| path) {
    let place = clean(volume);
    // Nothing can be mounted over the root; an engine fails to start such an image, which is safe too.
    if place == "/" {
      continue;
    }
    let inside = place.strip_prefix(WORKSPACE_ROOT).is_some_and(|rest| rest.starts_with('/'));
    let mask = if inside { full(options) } else { MASK.to_owned() };
    mounts.insert(place, mask);
  }
  mounts.insert(WORKSPACE_ROOT.to_owned(), workspace(options));
  if let Some(mount) = tmp(options) {
    mounts.insert(TMP.to_owned(), mount);
  }
  mounts
}

/// Mount options of the workspace.
pub fn workspace(options: &Options) -> String {
  let bytes = options.limits.max_workspace_bytes;
  // Engines add noexec to a tmpfs unless told otherwise.
  let exec = if options.workspace.exec { "exec" } else { "noexec" };
  format!(
    "rw,nosuid,nodev,{exec},size={bytes},nr_inodes={},{}",
    options.limits.workspace_inodes(),
    owner(options)
  )
}

/// Mount options of `/tmp`, if there is one.
pub fn tmp(options: &Options) -> Option<String> {
  let bytes = options.tmp_mb? * 1024 * 1024;
  Some(format!("rw,nosuid,nodev,noexec,size={bytes},nr_inodes={},{}", inodes(bytes), owner(options)))
}

/// Over a volume inside the workspace: a directory of the user's that has no room for anything, its only inode being
/// itself. A read-only one would break restoring a snapshot, which sets the modes of directories.
fn full(options: &Options) -> String {
  format!("rw,nosuid,nodev,noexec,size=4096,nr_inodes=1,{}", owner(options))
}

fn owner(options: &Options) -> String {
  format!("uid={},gid={},mode=0700", options.user.uid, options.user.gid)
}

/// Where an engine mounts a volume, whatever its spelling: `data`, `/data/`, `/var/../data` are all `/data`.
fn clean(path: &str) -> String {
  let mut parts: Vec<&str> = Vec::new();
  for part in path.split('/') {
    match part {
      "" | "." => {}
      ".." => {
        parts.pop();
      }
      name => parts.push(name),
    }
  }
  format!("/{}", parts.join("/"))
}
