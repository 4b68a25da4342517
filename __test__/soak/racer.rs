//! A hostile command: changes what names in its working directory mean, as fast as the kernel lets it, while the sandbox
//! works on them. Compiled statically into a test image.
//!
//!     racer KIND MILLISECONDS
//!
//! Prints `swaps N` ten times a second and at its end; a swap is one change of what a name means. `escapes N` counts what
//! the kernel should never have allowed; it stays 0.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

unsafe extern "C" {
  fn renameat2(from: c_int, old: *const c_char, to: c_int, new: *const c_char, flags: c_uint) -> c_int;
  fn mkfifo(path: *const c_char, mode: c_uint) -> c_int;
  fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int;
  fn signal(signal: c_int, handler: *const c_void) -> *const c_void;
}

/// `linux/fcntl.h`, `linux/fs.h`, `asm-generic/signal.h`.
const AT_FDCWD: c_int = -100;
const RENAME_EXCHANGE: c_uint = 2;
const F_SETLEASE: c_int = 1024;
const F_WRLCK: c_int = 1;
const F_UNLCK: c_int = 2;
const SIGIO: c_int = 29;
const O_NOFOLLOW: c_int = if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };
const O_DIRECTORY: c_int = if cfg!(target_arch = "aarch64") { 0o40_000 } else { 0o200_000 };
const IGNORE: *const c_void = 1 as *const c_void;

/// Where links lead to: the image, another mount that this user may write to, and the same through a magic link.
const OUTSIDE: [&str; 3] = ["/canary", "/tmp/canary", "/proc/self/root/tmp/canary"];
/// Changes between two pauses. Without pauses the sandbox would hardly get the processor.
const BURST: u64 = 16;
/// Looks for the real `d` that may fail one after the other.
const MISSES: u32 = 300;
const PAUSE: Duration = Duration::from_micros(500);

static SWAPS: AtomicU64 = AtomicU64::new(0);
static ESCAPES: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

fn main() {
  let kind = std::env::args().nth(1).unwrap();
  let end = Instant::now() + Duration::from_millis(std::env::args().nth(2).unwrap().parse().unwrap());
  // What is there already is another racer's: several may run.
  let own = format!(".racer-{}", std::process::id());
  fs::create_dir_all(&own).unwrap();
  furnish();
  furnish_outside();
  let work: &[fn(&Place)] = match kind.as_str() {
    "symlink" => &[link_directory, link_file, link_target],
    "rename" => &[move_directory, move_nested, link_target],
    "remove" => &[remove_trees, remove_nested, remove_files],
    "hardlink" => &[hard_link, hard_link_target, steal],
    "fifo" => &[fifo_file, fifo_directory, fifo_target],
    "lease" => &[lease_briefly, lease_long, lease_target],
    other => panic!("no race {other}"),
  };
  let threads: Vec<_> = work
    .iter()
    .enumerate()
    .map(|(number, step)| {
      let own = format!("{own}/{number}");
      fs::create_dir_all(&own).unwrap();
      std::thread::spawn(move || run(*step, Place { own, d: None, missed: 0 }))
    })
    .collect();
  while Instant::now() < end {
    std::thread::sleep(Duration::from_millis(100));
    say();
  }
  OVER.store(true, Ordering::Relaxed);
  for thread in threads {
    thread.join().unwrap();
  }
  say();
}

fn say() {
  let (swaps, escapes) = (SWAPS.load(Ordering::Relaxed), ESCAPES.load(Ordering::Relaxed));
  let mut out = std::io::stdout().lock();
  // Nobody may listen any more.
  let _ = writeln!(out, "swaps {swaps} escapes {escapes}");
  let _ = out.flush();
}

/// Where a thread works: a directory of its own, and the directory that is `d` when no link is. It must not walk into its
/// own traps.
struct Place {
  own: String,
  d: Option<fs::File>,
  missed: u32,
}

impl Place {
  fn own(&self, name: &str) -> String {
    format!("{}/{name}", self.own)
  }

  /// A path that leads to a name in the real `d`, or in the working directory; links on the way are not for us.
  fn real(&self, name: &str) -> String {
    match (name.strip_prefix("d/"), &self.d) {
      (Some(rest), Some(d)) => format!("/proc/self/fd/{}/{rest}", d.as_raw_fd()),
      (Some(_), None) => self.own("nowhere/x"),
      (None, _) => name.to_owned(),
    }
  }

  fn look(&mut self) {
    match fs::OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_DIRECTORY).open("d") {
      Ok(d) => (self.d, self.missed) = (Some(d), 0),
      Err(_) => self.missed += 1,
    }
    // Another racer was killed while it had it elsewhere.
    if self.missed > MISSES {
      let fresh = self.own("d");
      let _ = fs::remove_dir_all(&fresh);
      fill(&fresh);
      if exchange(&fresh, "d") || fs::rename(&fresh, "d").is_ok() {
        self.missed = 0;
      }
    }
  }
}

fn run(step: fn(&Place), mut place: Place) {
  let mut count = 0u64;
  while !OVER.load(Ordering::Relaxed) {
    place.look();
    step(&place);
    count += 1;
    if count % BURST == 0 {
      std::thread::sleep(PAUSE);
    }
  }
}

/// What the sandbox works on: a directory, and files with contents that say where they are.
fn furnish() {
  fill(".");
  fill("d");
}

fn fill(directory: &str) {
  let _ = fs::create_dir(directory);
  // What is there may be another racer's link.
  let Ok(real) = fs::OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_DIRECTORY).open(directory) else {
    return;
  };
  let real = format!("/proc/self/fd/{}", real.as_raw_fd());
  let (fresh, big) = (format!("{real}/.fresh-{}", std::process::id()), "inside\n".repeat(20_000));
  let _ = fs::create_dir(format!("{real}/sub"));
  for (name, contents) in [("f", "inside\n"), ("keep", "inside\n"), ("sub/f", "inside\n"), ("big", &big)] {
    let _ = fs::write(&fresh, contents).and_then(|()| fs::rename(&fresh, format!("{real}/{name}")));
  }
}

/// What nobody but us may change: on another mount than the workspace, and writable for the sandbox.
fn furnish_outside() {
  let _ = fs::create_dir_all("/tmp/canary/sub");
  for file in ["f", "w", "big", "sub/f", "outsider"] {
    let opened = fs::OpenOptions::new().create_new(true).write(true).open(format!("/tmp/canary/{file}"));
    let _ = opened.and_then(|mut file| file.write_all(b"CANARY of the other mount\n"));
  }
}

fn swapped(done: bool) -> bool {
  if done {
    SWAPS.fetch_add(1, Ordering::Relaxed);
  }
  done
}

fn text(path: &str) -> CString {
  CString::new(path).unwrap()
}

fn exchange(one: &str, other: &str) -> bool {
  let (one, other) = (text(one), text(other));
  swapped(unsafe { renameat2(AT_FDCWD, one.as_ptr(), AT_FDCWD, other.as_ptr(), RENAME_EXCHANGE) } == 0)
}

/// Puts what `make` makes under a name of our own in the place of `name`, whatever that is.
fn replace(place: &Place, name: &str, make: impl FnOnce(&str) -> bool) {
  let (fresh, name) = (place.own("fresh"), place.real(name));
  let _ = fs::remove_file(&fresh);
  if make(&fresh) && !swapped(fs::rename(&fresh, &name).is_ok()) {
    // A directory that a write made is in the way.
    exchange(&fresh, &name);
    let _ = fs::remove_dir_all(&fresh);
  }
}

fn plain(path: &str) -> bool {
  fs::write(path, "inside\n").is_ok()
}

/// One outside after the other.
fn outside() -> &'static str {
  static NEXT: AtomicU64 = AtomicU64::new(0);
  let number = NEXT.fetch_add(1, Ordering::Relaxed) / 256;
  OUTSIDE[number as usize % OUTSIDE.len()]
}

/// `d` is the directory or a link to one outside.
fn link_directory(place: &Place) {
  let link = place.own("link");
  let _ = fs::remove_file(&link);
  let _ = symlink(outside(), &link);
  for _ in 0..32 {
    exchange("d", &link);
    exchange("d", &link);
  }
}

/// `f` and `d/f` are files or links to files outside.
fn link_file(place: &Place) {
  for name in ["f", "d/f"] {
    replace(place, name, |fresh| symlink(format!("{}/f", outside()), fresh).is_ok());
    replace(place, name, plain);
  }
}

/// `w` and `d/w`, which are written to, are links to files outside, or to nothing there, or are not there.
fn link_target(place: &Place) {
  for name in ["w", "d/w"] {
    replace(place, name, |fresh| symlink(format!("{}/w", outside()), fresh).is_ok());
    replace(place, name, |fresh| symlink(format!("{}/none", outside()), fresh).is_ok());
    swapped(fs::remove_file(place.real(name)).is_ok());
  }
}

/// `d` is moved away and back; meanwhile there is a link or nothing in its place.
fn move_directory(place: &Place) {
  let (away, link) = (place.own("away"), place.own("link"));
  if swapped(fs::rename("d", &away).is_ok()) {
    let _ = fs::remove_file(&link);
    let _ = symlink(outside(), &link);
    swapped(fs::rename(&link, "d").is_ok());
    swapped(fs::rename("d", &link).is_ok());
    if !swapped(fs::rename(&away, "d").is_ok()) {
      // A write made one meanwhile.
      exchange(&away, "d");
      let _ = fs::remove_dir_all(&away);
    }
  } else {
    let _ = fs::create_dir(&away);
    furnish();
  }
}

/// `d/sub` is moved up and down while its parent moves too.
fn move_nested(place: &Place) {
  let (up, sub) = (place.own("up"), place.real("d/sub"));
  if swapped(fs::rename(&sub, &up).is_ok()) {
    if !swapped(fs::rename(&up, &sub).is_ok()) {
      let _ = fs::remove_dir_all(&sub);
      let _ = fs::rename(&up, &sub);
    }
  } else {
    // A write made another `d`.
    let _ = fs::create_dir(&sub);
    replace(place, "d/sub/f", plain);
    replace(place, "d/f", plain);
  }
}

/// Directories with files in them come and go.
fn remove_trees(place: &Place) {
  let trees: Vec<String> = (0..16).map(|number| place.own(&format!("tree/{number}"))).collect();
  for tree in &trees {
    swapped(fs::create_dir_all(format!("{tree}/deep")).is_ok());
    let _ = fs::write(format!("{tree}/deep/f"), "inside\n");
  }
  for tree in &trees {
    swapped(fs::remove_dir_all(tree).is_ok());
  }
}

/// `d/sub` is there or not.
fn remove_nested(place: &Place) {
  let sub = place.real("d/sub");
  swapped(fs::remove_dir_all(&sub).is_ok());
  swapped(fs::create_dir(&sub).is_ok());
  replace(place, "d/sub/f", plain);
}

/// `f` and `d/f` are there or not, as is what is written to.
fn remove_files(place: &Place) {
  for name in ["f", "d/f"] {
    replace(place, name, plain);
    swapped(fs::remove_file(place.real(name)).is_ok());
  }
  for name in ["w", "d/w"] {
    swapped(fs::remove_file(place.real(name)).is_ok());
  }
}

/// `f` and `d/f` are other names of `keep`, or files of their own.
fn hard_link(place: &Place) {
  for name in ["f", "d/f"] {
    replace(place, name, |fresh| fs::hard_link("keep", fresh).is_ok());
    replace(place, name, plain);
  }
}

/// `w`, which is written to, is another name of `keep`, which must stay as it is. Files outside get no name in here.
fn hard_link_target(place: &Place) {
  for name in ["w", "d/w"] {
    replace(place, name, |fresh| fs::hard_link("keep", fresh).is_ok());
    swapped(fs::remove_file(place.real(name)).is_ok());
  }
  let fresh = place.own("escape");
  for outside in OUTSIDE {
    if fs::hard_link(format!("{outside}/f"), &fresh).is_ok() {
      ESCAPES.fetch_add(1, Ordering::Relaxed);
      let _ = fs::remove_file(&fresh);
    }
  }
}

/// Files under the temporary names of writes get another name, and links to files outside take their place.
fn steal(place: &Place) {
  for folder in [".".to_owned(), place.real("d/.")] {
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
      let name = entry.file_name().to_string_lossy().into_owned();
      if !name.starts_with(".zhivex-") {
        continue;
      }
      // A link of ours that a write did not give its own name, since the file was not there any more.
      if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
        let _ = fs::remove_file(entry.path());
        continue;
      }
      let (stolen, link, from) = (place.own("stolen"), place.own("link"), format!("{folder}/{name}"));
      let _ = fs::remove_file(&stolen);
      let _ = fs::remove_file(&link);
      let _ = symlink(format!("{}/w", outside()), &link);
      swapped(fs::hard_link(&from, &stolen).is_ok());
      // Not a plain rename, which would leave a link where the write has ended meanwhile.
      exchange(&link, &from);
    }
  }
}

fn fifo(path: &str) -> bool {
  let path = text(path);
  unsafe { mkfifo(path.as_ptr(), 0o666) == 0 }
}

/// `f` and `d/f` are files, pipes or sockets.
fn fifo_file(place: &Place) {
  for name in ["f", "d/f"] {
    replace(place, name, fifo);
    replace(place, name, plain);
    replace(place, name, |fresh| UnixListener::bind(fresh).is_ok());
    replace(place, name, plain);
  }
}

/// `d` is the directory or a pipe.
fn fifo_directory(place: &Place) {
  let pipe = place.own("pipe");
  let _ = fs::remove_file(&pipe);
  if fifo(&pipe) {
    for _ in 0..32 {
      exchange("d", &pipe);
      exchange("d", &pipe);
    }
  }
}

/// `w` and `d/w`, which are written to, are pipes or are not there.
fn fifo_target(place: &Place) {
  for name in ["w", "d/w"] {
    replace(place, name, fifo);
    swapped(fs::remove_file(place.real(name)).is_ok());
  }
}

/// Holds the only lease on a file for a time, if nobody has it open.
fn lease(name: &str, hold: Duration) {
  // SIGIO, which says that somebody waits, is not listened to.
  unsafe { signal(SIGIO, IGNORE) };
  let Ok(file) = fs::OpenOptions::new().read(true).write(true).open(name) else { return };
  if swapped(unsafe { fcntl(file.as_raw_fd(), F_SETLEASE, F_WRLCK) } == 0) {
    std::thread::sleep(hold);
    unsafe { fcntl(file.as_raw_fd(), F_SETLEASE, F_UNLCK) };
  }
}

fn lease_briefly(place: &Place) {
  for name in ["f", "d/big"] {
    lease(&place.real(name), Duration::from_micros(20));
  }
}

fn lease_long(place: &Place) {
  lease(&place.real("d/f"), Duration::from_millis(2));
  std::thread::sleep(Duration::from_millis(1));
}

fn lease_target(place: &Place) {
  for name in ["w", "d/w"] {
    let name = place.real(name);
    let _ = fs::OpenOptions::new().create_new(true).write(true).open(&name);
    lease(&name, Duration::from_micros(50));
  }
}
