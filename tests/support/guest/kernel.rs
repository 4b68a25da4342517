//! System calls that the standard library lacks. Each panics when it is refused: nothing here may fail.

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::fs::File;
use std::io::Error;
use std::os::fd::AsRawFd;

/// Flags of `mount` (`sys/mount.h`).
pub const READ_ONLY: c_ulong = 1;
pub const NO_SUID: c_ulong = 2;
pub const NO_DEV: c_ulong = 4;
pub const NO_EXEC: c_ulong = 8;
pub const REMOUNT: c_ulong = 32;
pub const BIND: c_ulong = 4096;
pub const MOVE: c_ulong = 8192;
pub const RECURSIVE: c_ulong = 16384;
pub const PRIVATE: c_ulong = 1 << 18;

/// Namespaces (`linux/sched.h`): mounts, control groups, names, IPC, processes, network.
pub const NAMESPACES: c_int = 0x2_0000 | 0x200_0000 | 0x400_0000 | 0x800_0000 | 0x2000_0000 | 0x4000_0000;

const BOUNDING_DROP: c_int = 24;
const NO_NEW_PRIVILEGES: c_int = 38;
const OPEN_FILES: c_int = 7;
const CHARACTER: c_uint = 0o020_666;
#[cfg(target_arch = "aarch64")]
const FINIT_MODULE: c_long = 273;
#[cfg(target_arch = "x86_64")]
const FINIT_MODULE: c_long = 313;

unsafe extern "C" {
  fn mount(
    source: *const c_char,
    to: *const c_char,
    kind: *const c_char,
    flags: c_ulong,
    data: *const c_char,
  ) -> c_int;
  fn unshare(flags: c_int) -> c_int;
  #[link_name = "fork"]
  fn libc_fork() -> c_int;
  fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
  fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
  fn setgroups(count: usize, groups: *const c_uint) -> c_int;
  fn setgid(group: c_uint) -> c_int;
  fn setuid(user: c_uint) -> c_int;
  fn setrlimit(resource: c_int, limit: *const [u64; 2]) -> c_int;
  fn mknod(path: *const c_char, mode: c_uint, device: u64) -> c_int;
  fn umask(mask: c_uint) -> c_uint;
  fn syscall(number: c_long, ...) -> c_long;
}

/// Mounts. Sources and options that a kind of file system does not have are empty.
pub fn attach(source: &str, to: &str, kind: &str, flags: c_ulong, data: &str) {
  let [source, at, kind, data] = [source, to, kind, data].map(text);
  let result = unsafe { mount(source.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, data.as_ptr()) };
  must(&format!("mounting {to}"), result);
}

/// A device for everybody. Both numbers are below 256.
pub fn device(path: &str, major: u64, minor: u64) {
  let name = text(path);
  unsafe { umask(0) };
  must(path, unsafe { mknod(name.as_ptr(), CHARACTER, major << 8 | minor) });
  unsafe { umask(0o022) };
}

/// Loads a module of the kernel.
pub fn load(module: &str) {
  let file = File::open(module).unwrap();
  let result = unsafe { syscall(FINIT_MODULE, file.as_raw_fd(), text("").as_ptr(), 0) };
  must(module, result as c_int);
}

/// Namespaces of its own for what this process starts, and all but that of processes for itself.
pub fn separate() {
  must("unshare", unsafe { unshare(NAMESPACES) });
}

/// The child's number; 0 in the child. This process has one thread.
pub fn fork() -> i32 {
  let pid = unsafe { libc_fork() };
  must("fork", pid);
  pid
}

/// Waits for a child: its exit code, or 128 and the signal.
pub fn wait(pid: i32) -> i32 {
  let mut status: c_int = 0;
  must("waitpid", unsafe { waitpid(pid, &raw mut status, 0) });
  if status & 0x7f == 0 { status >> 8 & 0xff } else { 128 + (status & 0x7f) }
}

/// As many descriptors as engines allow.
pub fn allow_descriptors() {
  must("setrlimit", unsafe { setrlimit(OPEN_FILES, &[1 << 20; 2]) });
}

/// Becomes a user without any privilege, for ever.
pub fn become_nobody(user: u32) {
  let last: c_ulong =
    std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap().trim().parse().unwrap();
  for capability in 0..=last {
    must("dropping a capability", unsafe { prctl(BOUNDING_DROP, capability, 0, 0, 0) });
  }
  must("setgroups", unsafe { setgroups(0, std::ptr::null::<c_void>().cast()) });
  must("setgid", unsafe { setgid(user) });
  must("setuid", unsafe { setuid(user) });
  must("no new privileges", unsafe { prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) });
}

fn text(value: &str) -> CString {
  CString::new(value).unwrap()
}

fn must(what: &str, result: c_int) {
  if result < 0 {
    panic!("{what}: {}", Error::last_os_error());
  }
}
