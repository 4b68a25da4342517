//! The way of a process into a container, as an engine's runtime goes it.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::{chroot, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::kernel::{self, BIND, MOVE, NO_DEV, NO_EXEC, NO_SUID, PRIVATE, READ_ONLY, RECURSIVE, REMOUNT};

/// The user of all containers of the tests.
const USER: u32 = 65534;
/// The image's root, and where a container's root is put together; both are folders of the machine.
const IMAGE: &str = "/image";
const ROOT: &str = "/root";

/// Starts process 1 in namespaces of its own, waits, and ends as it ended. The arguments: its control group's folder,
/// and its workspace's size in MiB.
pub fn run(arguments: &[String]) {
  let [group, tmpfs_mib] = arguments else { panic!("container GROUP TMPFS_MIB") };
  kernel::allow_descriptors();
  kernel::separate();
  let pid = kernel::fork();
  if pid == 0 {
    enter(group, tmpfs_mib);
  }
  std::process::exit(kernel::wait(pid));
}

fn enter(group: &str, tmpfs_mib: &str) -> Infallible {
  fs::write(format!("{group}/cgroup.procs"), "0").unwrap();
  kernel::attach("", "/", "", RECURSIVE | PRIVATE, "");
  kernel::attach(IMAGE, ROOT, "", BIND, "");
  kernel::attach("", ROOT, "", REMOUNT | BIND | READ_ONLY | NO_DEV, "");
  kernel::attach("proc", &format!("{ROOT}/proc"), "proc", NO_SUID | NO_DEV | NO_EXEC, "");
  kernel::attach("sysfs", &format!("{ROOT}/sys"), "sysfs", READ_ONLY | NO_SUID | NO_DEV | NO_EXEC, "");
  let own_group = format!("{ROOT}/sys/fs/cgroup");
  kernel::attach(group, &own_group, "", BIND, "");
  kernel::attach("", &own_group, "", REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEV | NO_EXEC, "");
  devices(&format!("{ROOT}/dev"));
  let workspace = format!("size={tmpfs_mib}m,uid={USER},gid={USER},mode=0700");
  kernel::attach("tmpfs", &format!("{ROOT}/workspace"), "tmpfs", NO_SUID | NO_DEV, &workspace);
  kernel::attach("tmpfs", &format!("{ROOT}/tmp"), "tmpfs", NO_SUID | NO_DEV, "size=16m,mode=1777");
  // As runc does where the root cannot be pivoted: an initial file system in memory cannot.
  std::env::set_current_dir(ROOT).unwrap();
  kernel::attach(".", "/", "", MOVE, "");
  chroot(".").unwrap();
  std::env::set_current_dir("/").unwrap();
  kernel::become_nobody(USER);
  let error = Command::new("/.sandbox/supervisor").arg("/workspace").env_clear().exec();
  panic!("process 1 could not be started: {error}");
}

fn devices(folder: &str) {
  kernel::attach("tmpfs", folder, "tmpfs", NO_SUID | NO_EXEC, "size=64k,mode=755");
  for (name, minor) in [("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)] {
    kernel::device(&format!("{folder}/{name}"), 1, minor);
  }
  for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
    symlink(format!("/proc/self/fd{to}"), format!("{folder}/{name}")).unwrap();
  }
}
