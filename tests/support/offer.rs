//! Offers of a stream to process 1 that are no streams: part of the attacking program. A process that an engine starts in
//! the container can make them; a command is not heard.

use std::ffi::{c_int, c_void};

unsafe extern "C" {
  fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
  fn connect(socket: c_int, address: *const u8, length: u32) -> c_int;
  fn sendmsg(socket: c_int, message: *const Message, flags: c_int) -> isize;
  fn recv(socket: c_int, room: *mut u8, length: usize, flags: c_int) -> isize;
  fn close(fd: c_int) -> c_int;
  fn open(path: *const std::ffi::c_char, flags: c_int) -> c_int;
  fn pipe(ends: *mut c_int) -> c_int;
}

/// `struct msghdr` (`sys/socket.h`).
#[repr(C)]
struct Message {
  name: *const c_void,
  name_length: u32,
  pieces: *const Piece,
  piece_count: usize,
  control: *const u8,
  control_length: usize,
  flags: c_int,
}

#[repr(C)]
struct Piece {
  start: *const u8,
  length: usize,
}

const NAME: &[u8] = b"\x01\0\0zhivex-supervisor";
/// What is sent to a socket that process 1 has closed already.
const EPIPE: i32 = 32;

/// Connects as often as it can for so many seconds; says how often, and how often it was heard at all.
pub fn flood(seconds: u64) {
  let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
  let (mut tried, mut reached) = (0, 0);
  while std::time::Instant::now() < until {
    tried += 1;
    if let Some(fd) = knock() {
      reached += 1;
      unsafe { close(fd) };
    }
  }
  println!("flood {} {}", u8::from(tried > 0), u8::from(reached > 0));
}

/// Makes the same offer again and again; says how many process 1 closed.
pub fn offers(kind: &str, count: usize) {
  let mut closed = 0;
  for _ in 0..count {
    let Some(fd) = knock() else { continue };
    offer(fd, kind);
    closed += usize::from(unsafe { recv(fd, [0u8; 1].as_mut_ptr(), 1, 0) } <= 0);
    unsafe { close(fd) };
  }
  println!("{kind} {closed}");
}

fn knock() -> Option<c_int> {
  let fd = unsafe { socket(1, 5 | 0o2000000, 0) };
  let connected = unsafe { connect(fd, NAME.as_ptr(), NAME.len() as u32) } == 0;
  if !connected {
    unsafe { close(fd) };
  }
  connected.then_some(fd)
}

fn offer(to: c_int, kind: &str) {
  let (mut one, mut other) = ([0; 2], [0; 2]);
  unsafe { (pipe(one.as_mut_ptr()), pipe(other.as_mut_ptr())) };
  let file = unsafe { open(c"/proc/self/status".as_ptr(), 0) };
  let null = unsafe { open(c"/dev/null".as_ptr(), 2) };
  let path = unsafe { open(c"/proc/self/fd/0".as_ptr(), 0o10000000) };
  let (read, write) = (one[0], other[1]);
  let (fds, bytes): (Vec<c_int>, usize) = match kind {
    "nothing" => (vec![], 1),
    "one" => (vec![read], 1),
    "three" => (vec![read, write, write], 1),
    "many" => (vec![read; 200], 1),
    "swapped" => (vec![write, read], 1),
    "files" => (vec![file, file], 1),
    "devices" => (vec![null, null], 1),
    "sockets" => (vec![to, to], 1),
    "handles" => (vec![path, path], 1),
    "long" => (vec![read, write], 100),
    "empty" => (vec![read, write], 0),
    // Right so far, but nobody says hello, or something else is said.
    "mute" => (vec![read, write], 1),
    "garbage" => (vec![read, write], 1),
    other => panic!("no offer {other:?}"),
  };
  if kind == "garbage" {
    unsafe extern "C" {
      fn write(fd: c_int, from: *const u8, length: usize) -> isize;
    }
    unsafe { write(one[1], [0xF5; 4096].as_ptr(), 4096) };
  }
  send(to, &fds, bytes);
  if kind == "mute" {
    return;
  }
  for fd in one.into_iter().chain(other).chain([file, null, path]) {
    unsafe { close(fd) };
  }
}

fn send(to: c_int, fds: &[c_int], bytes: usize) {
  let content = vec![0u8; bytes];
  // A header of 16 bytes: length, level, kind; then the descriptors.
  let length = 16 + 4 * fds.len();
  let mut control = vec![0u64; length.div_ceil(8)];
  let bytes_of = |control: &mut [u64]| control.as_mut_ptr().cast::<u8>();
  unsafe {
    let start = bytes_of(&mut control);
    start.cast::<usize>().write(length);
    start.add(8).cast::<[c_int; 2]>().write([1, 1]);
    std::ptr::copy_nonoverlapping(fds.as_ptr().cast::<u8>(), start.add(16), 4 * fds.len());
  }
  let piece = Piece { start: content.as_ptr(), length: content.len() };
  let has_fds = !fds.is_empty();
  let message = Message {
    name: std::ptr::null(),
    name_length: 0,
    pieces: &raw const piece,
    piece_count: 1,
    control: if has_fds { bytes_of(&mut control) } else { std::ptr::null() },
    control_length: if has_fds { 8 * control.len() } else { 0 },
    flags: 0,
  };
  if unsafe { sendmsg(to, &raw const message, 0x4000) } < 0 {
    let error = std::io::Error::last_os_error();
    assert_eq!(error.raw_os_error(), Some(EPIPE), "{error}");
  }
}
