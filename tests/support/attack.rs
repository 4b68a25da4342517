//! What a hostile command does: a program for the container, compiled by the tests and linked statically. The first
//! argument says which attack. Each line it prints is an attempt and what the kernel said, 0 for "done".

#[path = "offer.rs"]
mod offer;

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::io::Write;

unsafe extern "C" {
  fn syscall(number: c_long, ...) -> c_long;
  fn fork() -> c_int;
  fn setsid() -> c_int;
  fn getpid() -> c_int;
  fn kill(pid: c_int, signal: c_int) -> c_int;
  fn open(path: *const std::ffi::c_char, flags: c_int) -> c_int;
  fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int;
  fn prctl(option: c_int, argument: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
  fn _exit(code: c_int) -> !;
}

#[cfg(target_arch = "x86_64")]
mod number {
  pub const SOCKET: i64 = 41;
  pub const SHMGET: i64 = 29;
  pub const SEMGET: i64 = 64;
  pub const MSGGET: i64 = 68;
  pub const PTRACE: i64 = 101;
  pub const SETPRIORITY: i64 = 141;
  pub const SCHED_SETPARAM: i64 = 142;
  pub const SCHED_SETSCHEDULER: i64 = 144;
  pub const SCHED_SETAFFINITY: i64 = 203;
  pub const MQ_OPEN: i64 = 240;
  pub const IOPRIO_SET: i64 = 251;
  pub const PRLIMIT64: i64 = 302;
  pub const VM_READV: i64 = 310;
  pub const VM_WRITEV: i64 = 311;
  pub const EXIT: i64 = 60;
  pub const MIGRATE_PAGES: i64 = 256;
  pub const MOVE_PAGES: i64 = 279;
  pub const KCMP: i64 = 312;
  pub const SCHED_SETATTR: i64 = 314;
}
#[cfg(target_arch = "aarch64")]
mod number {
  pub const SOCKET: i64 = 198;
  pub const SHMGET: i64 = 194;
  pub const SEMGET: i64 = 190;
  pub const MSGGET: i64 = 186;
  pub const PTRACE: i64 = 117;
  pub const SETPRIORITY: i64 = 140;
  pub const SCHED_SETPARAM: i64 = 118;
  pub const SCHED_SETSCHEDULER: i64 = 119;
  pub const SCHED_SETAFFINITY: i64 = 122;
  pub const MQ_OPEN: i64 = 180;
  pub const IOPRIO_SET: i64 = 30;
  pub const PRLIMIT64: i64 = 261;
  pub const VM_READV: i64 = 270;
  pub const VM_WRITEV: i64 = 271;
  pub const EXIT: i64 = 93;
  pub const MIGRATE_PAGES: i64 = 238;
  pub const MOVE_PAGES: i64 = 239;
  pub const KCMP: i64 = 272;
  pub const SCHED_SETATTR: i64 = 274;
}
use number::*;

/// The same on both architectures.
const IO_URING_SETUP: i64 = 425;
const PIDFD_OPEN: i64 = 434;
const PIDFD_GETFD: i64 = 438;
const LOCKS: i64 = 10;
const NOFILE: i64 = 7;
const CPU: i64 = 0;

fn call(number: i64, arguments: [i64; 6]) -> i64 {
  let [a, b, c, d, e, f] = arguments;
  unsafe { syscall(number, a, b, c, d, e, f) as i64 }
}

fn attempt(what: &str, number: i64, arguments: [i64; 6]) {
  let errno = if call(number, arguments) >= 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap() };
  println!("{what} {errno}");
}

fn pointer<T>(value: &T) -> i64 {
  std::ptr::from_ref(value) as i64
}

fn main() {
  match std::env::args().nth(1).as_deref() {
    Some("first") => on_process_1(),
    Some("weigh") => weigh_process_1(),
    #[cfg(target_arch = "x86_64")]
    Some("i386") => i386(),
    Some("channels") => channels(),
    Some("stop") => stop_others(),
    Some("retag") => retag(),
    Some("lease") => lease(&std::env::args().nth(2).unwrap()),
    Some("headless") => headless(),
    Some("reaper") => reaper(),
    Some("hydra") => hydra(argument(2).parse().unwrap()),
    Some("unseen") => unseen(),
    Some("offer") => offer::offers(&argument(2), argument(3).parse().unwrap()),
    Some("flood") => offer::flood(argument(2).parse().unwrap()),
    Some("eat") => eat(),
    Some("trace") => trace(argument(2).parse().unwrap(), argument(3).parse().unwrap()),
    Some("deep") => deep(argument(2).parse().unwrap()),
    Some("many") => many(argument(2).parse().unwrap()),
    Some("hoard") => hoard(),
    Some("pipe-size") => pipe_size(),
    Some("spin") => spin(argument(2).parse().unwrap()),
    Some("listen") => listen(&argument(2)),
    other => panic!("no attack {other:?}"),
  }
}

fn argument(number: usize) -> String {
  std::env::args().nth(number).unwrap()
}

/// A child that nobody may look into, in a session of its own and below a parent that is gone.
fn unseen() {
  leave_behind(|| {
    unsafe { prctl(4, 0, 0, 0, 0) };
    if unsafe { fork() } != 0 {
      unsafe { _exit(0) };
    }
    unsafe { setsid() };
  });
}

/// Uses up the memory of the container.
fn eat() {
  let mut eaten = Vec::new();
  loop {
    eaten.push(vec![1u8; 1 << 20]);
    std::hint::black_box(&eaten);
  }
}

/// Traces a process, which hides its end from its parent, for so many seconds or until its own end.
fn trace(pid: i64, seconds: u64) {
  attempt("seize", PTRACE, [0x4206, pid, 0, 0, 0, 0]);
  std::io::stdout().flush().unwrap();
  std::thread::sleep(std::time::Duration::from_secs(seconds));
}

/// Directories in directories, each made from within the one before.
fn deep(count: usize) {
  for made in 0..count {
    let done = std::fs::create_dir("d").and_then(|()| std::env::set_current_dir("d"));
    if let Err(error) = done {
      println!("deep {made} {error}");
      return;
    }
  }
  println!("deep {count}");
}

/// Empty files.
fn many(count: usize) {
  for number in 0..count {
    std::fs::write(format!("{number:06}"), []).unwrap();
  }
  println!("many {count}");
}

/// Takes as much of the pipes' memory as one user may have, and keeps it.
fn hoard() {
  let mut count = 0;
  for _ in 0..24 {
    if unsafe { fork() } == 0 {
      while pipe() >= 0 {}
      forever();
    }
    count += 1;
  }
  std::thread::sleep(std::time::Duration::from_millis(500));
  say(&format!("hoard {count}"));
  forever();
}

/// How much a new pipe holds.
fn pipe_size() {
  println!("pipe-size {}", unsafe { fcntl(pipe(), 1032, 0) });
}

fn pipe() -> c_int {
  unsafe extern "C" {
    fn pipe(ends: *mut c_int) -> c_int;
  }
  let mut ends = [-1; 2];
  if unsafe { pipe(ends.as_mut_ptr()) } == 0 { ends[0] } else { -1 }
}

/// Processes that do nothing but use the processor.
fn spin(count: usize) {
  for _ in 1..count {
    if unsafe { fork() } == 0 {
      break;
    }
  }
  say("spin");
  loop {
    std::hint::spin_loop();
  }
}

/// A socket that lies in the file system.
fn listen(path: &str) {
  let _socket = std::os::unix::net::UnixListener::bind(path).unwrap();
  say("listen");
  forever();
}

fn on_process_1() {
  let none = [0u64; 2];
  attempt("limit", PRLIMIT64, [1, NOFILE, pointer(&none), 0, 0, 0]);
  attempt("limit-cpu", PRLIMIT64, [1, CPU, pointer(&none), 0, 0, 0]);
  attempt("limit-read", PRLIMIT64, [1, NOFILE, 0, pointer(&none), 0, 0]);
  let own = [64u64, 64];
  attempt("limit-own", PRLIMIT64, [0, NOFILE, pointer(&own), 0, 0, 0]);
  attempt("priority", SETPRIORITY, [0, 1, 19, 0, 0, 0]);
  attempt("priority-user", SETPRIORITY, [2, 0, 19, 0, 0, 0]);
  attempt("priority-own", SETPRIORITY, [0, 0, 19, 0, 0, 0]);
  attempt("io-priority", IOPRIO_SET, [1, 1, 0, 0, 0, 0]);
  let parameter = 0i32;
  attempt("scheduler", SCHED_SETSCHEDULER, [1, 5, pointer(&parameter), 0, 0, 0]);
  attempt("parameter", SCHED_SETPARAM, [1, pointer(&parameter), 0, 0, 0, 0]);
  let cpus = 1u64;
  attempt("affinity", SCHED_SETAFFINITY, [1, 8, pointer(&cpus), 0, 0, 0]);
  attempt("affinity-own", SCHED_SETAFFINITY, [0, 8, pointer(&u64::MAX), 0, 0, 0]);
  attempt("trace", PTRACE, [0x4206, 1, 0, 0, 0, 0]);
  attempt("read", VM_READV, [1, 0, 0, 0, 0, 0]);
  attempt("write", VM_WRITEV, [1, 0, 0, 0, 0, 0]);
  let process = call(PIDFD_OPEN, [1, 0, 0, 0, 0, 0]);
  attempt("descriptor", PIDFD_GETFD, [process, 1, 0, 0, 0, 0]);
  let tag = [u64::MAX; 2];
  attempt("tag-up", PRLIMIT64, [0, LOCKS, pointer(&tag), 0, 0, 0]);
  attempt("x32", 0x4000_0000 + 39, [0; 6]);
}

/// Makes less of process 1: its priority by its group and its user, its scheduling, its memory.
fn weigh_process_1() {
  let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()).into();
  attempt("priority-group", SETPRIORITY, [1, 1, 19, 0, 0, 0]);
  attempt("priority-user-id", SETPRIORITY, [2, user, 19, 0, 0, 0]);
  // Class "idle".
  attempt("io-priority-group", IOPRIO_SET, [2, 1, 3 << 13, 0, 0, 0]);
  attempt("io-priority-user", IOPRIO_SET, [3, user, 3 << 13, 0, 0, 0]);
  // `struct sched_attr`: its size, `SCHED_IDLE`, and nothing else.
  let attributes = [48u32, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  attempt("attributes", SCHED_SETATTR, [1, pointer(&attributes), 0, 0, 0, 0]);
  let node = 1u64;
  attempt("migrate", MIGRATE_PAGES, [1, 64, pointer(&node), pointer(&node), 0, 0]);
  attempt("move", MOVE_PAGES, [1, 0, 0, 0, 0, 0]);
  attempt("compare", KCMP, [1, unsafe { getpid() }.into(), 0, 0, 0, 0]);
}

/// A system call of the 32-bit architecture from a 64-bit program: the same door with other numbers.
#[cfg(target_arch = "x86_64")]
fn i386() {
  unsafe extern "C" {
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
  }
  let child = unsafe { fork() };
  if child == 0 {
    let mut result = 20u32; // getpid
    unsafe { std::arch::asm!("int 0x80", inout("eax") result) };
    // 100: it was answered, and rightly.
    unsafe { _exit(if result == getpid() as u32 { 100 } else { 101 }) };
  }
  let mut status = 0;
  unsafe { waitpid(child, &mut status, 0) };
  println!("i386 code {} signal {}", status >> 8 & 0xff, status & 0x7f);
}

fn channels() {
  attempt("vsock", SOCKET, [40, 1, 0, 0, 0, 0]);
  attempt("unix", SOCKET, [1, 1, 0, 0, 0, 0]);
  attempt("shm", SHMGET, [0, 4096, 0o1600, 0, 0, 0]);
  attempt("sem", SEMGET, [0, 1, 0o1600, 0, 0, 0]);
  attempt("msg", MSGGET, [0, 0o1600, 0, 0, 0, 0]);
  attempt("mq", MQ_OPEN, [pointer(b"q\0"), 0o102, 0o600, 0, 0, 0]);
  attempt("uring", IO_URING_SETUP, [1, 0, 0, 0, 0, 0]);
}

/// Stops everything that comes after it, as soon as it is there.
fn stop_others() {
  let own = unsafe { getpid() };
  say("ready");
  loop {
    for pid in own + 1..own + 400 {
      unsafe { kill(pid, 19) };
    }
  }
}

/// Lowers one half of its tag, and leaves a child behind.
fn retag() {
  let lower = [1u64; 2];
  attempt("lower", PRLIMIT64, [0, LOCKS, pointer(&lower), 0, 0, 0]);
  leave_behind(|| {});
}

/// A child whose first thread is dead and whose second lives.
fn headless() {
  leave_behind(|| {
    std::thread::spawn(forever);
    std::thread::sleep(std::time::Duration::from_millis(20));
    call(EXIT, [0; 6]);
  });
}

/// A child that collects orphans instead of process 1.
fn reaper() {
  leave_behind(|| {
    unsafe { prctl(36, 1, 0, 0, 0) };
    for _ in 0..3 {
      if unsafe { fork() } == 0 {
        unsafe { setsid() };
        if unsafe { fork() } == 0 {
          forever();
        }
        unsafe { _exit(0) };
      }
    }
  });
}

/// So many processes, each in a session of its own and below the one before; whose child or parent is killed starts
/// another. Each says a letter when it is there.
fn hydra(heads: usize) -> ! {
  unsafe extern "C" {
    fn getppid() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
  }
  let grow = |heads| match unsafe { fork() } {
    0 => hydra(heads),
    child => child,
  };
  unsafe { setsid() };
  print!("h");
  std::io::stdout().flush().unwrap();
  let below = heads - 1;
  let (mut child, mut parent) = (if below > 0 { grow(below) } else { 0 }, unsafe { getppid() });
  loop {
    // Whatever ended, children of earlier turns too; where there was no room for one (-1), it is tried again.
    let mut ended = unsafe { waitpid(-1, std::ptr::null_mut(), 1) } == child;
    ended |= child == -1;
    if below > 0 && ended {
      child = grow(below);
    }
    let now = unsafe { getppid() };
    if now != parent {
      parent = now;
      grow(heads);
    }
    std::thread::sleep(std::time::Duration::from_micros(200));
  }
}

fn leave_behind(then: impl FnOnce()) {
  if unsafe { fork() } == 0 {
    unsafe { setsid() };
    then();
    forever();
  }
  std::thread::sleep(std::time::Duration::from_millis(100));
}

/// Holds a lease on a file: whoever opens it waits, unless it says that it will not.
fn lease(path: &str) {
  let path = std::ffi::CString::new(path).unwrap();
  let fd = unsafe { open(path.as_ptr(), 2) };
  // SIGIO, which comes when somebody opens it, must not end this.
  unsafe extern "C" {
    fn signal(signal: c_int, handler: *const c_void) -> *const c_void;
  }
  unsafe { signal(29, 1 as *const c_void) };
  let errno = if unsafe { fcntl(fd, 1024, 1) } == 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap() };
  say(&format!("lease {errno}"));
  forever();
}

fn say(line: &str) {
  println!("{line}");
  std::io::stdout().flush().unwrap();
}

fn forever() {
  loop {
    std::thread::sleep(std::time::Duration::from_secs(60));
  }
}
