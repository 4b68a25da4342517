//! The tmpfs mounts: the workspace, `/tmp` if there is one, and masks over what the image would have on the host's disk.

use std::collections::{BTreeMap, BTreeSet};

use crate::docker::dialect::Dialect;
use crate::docker::model::ImageInspection;
use crate::environment::options::{Options, inodes};
use crate::workspace::path::WORKSPACE_ROOT;

/// Where the optional tmpfs for temporary files is.
pub const TMP: &str = "/tmp";
/// What Podman makes writable on a read-only root file system, of any size, unless something is mounted there.
const WRITABLE_IN_PODMAN: [&str; 3] = ["/run", TMP, "/var/tmp"];

/// Path → mount options.
pub fn tmpfs(options: &Options, image: &ImageInspection, dialect: Dialect) -> BTreeMap<String, String> {
  let mut mounts = BTreeMap::new();
  for volume in image.config.volumes.iter().flatten().map(|(path, _)| path) {
    let place = clean(volume);
    // Nothing can be mounted over the root; an engine fails to start such an image, which is safe too.
    if place == "/" {
      continue;
    }
    let inside = place.strip_prefix(WORKSPACE_ROOT).is_some_and(|rest| rest.starts_with('/'));
    mounts.insert(place, if inside { full(options, dialect) } else { mask(dialect) });
  }
  for place in always_masked(dialect) {
    mounts.insert((*place).to_owned(), mask(dialect));
  }
  mounts.insert(WORKSPACE_ROOT.to_owned(), workspace(options, dialect));
  if let Some(mount) = tmp(options, dialect) {
    mounts.insert(TMP.to_owned(), mount);
  }
  mounts
}

/// What is masked whatever the image, unless the options have something there.
pub const fn always_masked(dialect: Dialect) -> &'static [&'static str] {
  match dialect {
    Dialect::Docker => &[],
    Dialect::Podman => &WRITABLE_IN_PODMAN,
  }
}

/// Over a volume of the image. Engines make a disk volume for each, writable on a read-only root file system, unless
/// something is mounted there.
pub fn mask(dialect: Dialect) -> String {
  format!("ro,nosuid,nodev,noexec,size=4096,{}mode=0555{}", inodes_of(1, dialect), no_copy(dialect))
}

/// Mount options of the workspace.
pub fn workspace(options: &Options, dialect: Dialect) -> String {
  let bytes = options.limits.max_workspace_bytes;
  // Engines add noexec to a tmpfs unless told otherwise.
  let exec = if options.workspace.exec { "exec" } else { "noexec" };
  let inodes = inodes_of(options.limits.workspace_inodes(), dialect);
  format!("rw,nosuid,nodev,{exec},size={bytes},{inodes}{}", owner(options, dialect))
}

/// Mount options of `/tmp`, if there is one.
pub fn tmp(options: &Options, dialect: Dialect) -> Option<String> {
  let bytes = options.tmp_mb? * 1024 * 1024;
  let inodes = inodes_of(inodes(bytes), dialect);
  Some(format!("rw,nosuid,nodev,noexec,size={bytes},{inodes}{}", owner(options, dialect)))
}

/// Over a volume inside the workspace: a directory of the user's that has no room for anything, its only inode being
/// itself. A read-only one would break restoring a snapshot, which sets the modes of directories.
fn full(options: &Options, dialect: Dialect) -> String {
  format!("rw,nosuid,nodev,noexec,size=4096,{}{}", inodes_of(1, dialect), owner(options, dialect))
}

/// Whether an engine mounted what was asked for. Podman tells `U` by what it stands for, leaves out what is no option of
/// the kernel's, and adds the propagation.
pub fn is_as_asked(found: &str, asked: &str, options: &Options, dialect: Dialect) -> bool {
  if dialect == Dialect::Docker {
    return found == asked;
  }
  let parts = |text: &str| -> BTreeSet<String> {
    let parts = text.split(',').filter(|part| !matches!(*part, "rprivate" | "notmpcopyup"));
    let parts = parts.map(|part| if part == "U" { ids(options) } else { part.to_owned() });
    parts.flat_map(|part| part.split(',').map(str::to_owned).collect::<Vec<_>>()).collect()
  };
  parts(found) == parts(asked)
}

/// Podman knows no such option.
fn inodes_of(most: u64, dialect: Dialect) -> String {
  match dialect {
    Dialect::Docker => format!("nr_inodes={most},"),
    Dialect::Podman => String::new(),
  }
}

/// Podman knows no ids either: `U` is the container's user.
fn owner(options: &Options, dialect: Dialect) -> String {
  match dialect {
    Dialect::Docker => format!("{},mode=0700", ids(options)),
    Dialect::Podman => format!("U,mode=0700{}", no_copy(dialect)),
  }
}

fn ids(options: &Options) -> String {
  format!("uid={},gid={}", options.user.uid, options.user.gid)
}

/// Podman copies what the image has there into a tmpfs, unless told otherwise.
const fn no_copy(dialect: Dialect) -> &'static str {
  match dialect {
    Dialect::Docker => "",
    Dialect::Podman => ",notmpcopyup",
  }
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
