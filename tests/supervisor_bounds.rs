//! What a command uses without end costs process 1 a bounded amount, and never makes it say what is not so. The
//! environment is that of `supervisor_inside.rs`.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/resident.rs"]
mod resident;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

use resident::{ATTACK, Container, Host, Profile, TOKEN, attack, resident};

fn target() -> (Container, Host) {
  resident(&Profile { attack: Some(attack()), ..Profile::default() })
}

fn roomy() -> Profile {
  Profile { attack: Some(attack()), memory: 1 << 30, tmpfs_mib: 512, ..Profile::default() }
}

/// A number of `/proc/1/status`, which stays readable.
fn status(host: &mut Host, field: &str) -> u64 {
  let text = host.run(&["grep", field, "/proc/1/status"]).text();
  text.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn tar(host: &mut Host) -> resident::Outcome {
  let request = TarOut { window: 1 << 20, max_bytes: 64 << 20, max_entries: u32::MAX };
  let op = host.open(&ToInside::TarOut(request));
  host.finish(op)
}

#[test]
fn memory_that_ran_out_is_told_from_every_other_end() {
  let (container, mut host) = target();
  let locked = status(&mut host, "VmLck");
  assert!(locked > 500, "{locked} KiB");
  assert_eq!(host.run(&[ATTACK, "eat"]).how(), How::OutOfMemory);
  // The kernel's count is up by now, and says nothing about what comes after.
  assert_eq!(host.sh("kill -9 $$").how(), How::Signaled(9));
  // A child's death is its parent's to tell.
  let child = host.sh("/.sandbox/attack eat; echo $?");
  assert_eq!((child.how(), child.text().as_str()), (How::Exited(0), "137\n"));
  // A shell that goes on to be killed itself, by itself, with no memory short since it began.
  assert_eq!(host.sh("sleep 0.1; kill -9 $$").how(), How::Signaled(9));
  // Our own kill is ours, however much was eaten.
  let op = host.spawn(&["sleep", "30"], |exec| exec.timeout_ms = 100);
  assert_eq!(host.finish(op).how(), How::TimedOut);
  for _ in 0..5 {
    assert_eq!(host.run(&[ATTACK, "eat"]).how(), How::OutOfMemory);
  }
  assert!(container.is_running());
  assert_eq!(status(&mut host, "VmLck"), locked);
}

#[test]
fn sixty_spinning_processes_make_process_1_late_and_no_result_false() {
  let profile = Profile { attack: Some(attack()), nano_cpus: 500_000_000, ..Profile::default() };
  let (container, mut host) = resident(&profile);
  let spinner = host.spawn(&[ATTACK, "spin", "60"], |exec| exec.timeout_ms = 0);
  host.until(|host| host.operations[&spinner].output == b"spin\n".repeat(60));
  for number in 0..10 {
    let start = Instant::now();
    let late = host.spawn(&["sleep", "30"], |exec| exec.timeout_ms = 300);
    let quick = host.spawn(&["echo", "quick"], |_| {});
    let outcome = host.finish(quick);
    assert_eq!((outcome.how(), outcome.text().as_str()), (How::Exited(0), "quick\n"), "{number}");
    assert_eq!(host.finish(late).how(), How::TimedOut, "{number}");
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(host.write_file("file", b"x").done, Some(Reply::Written(Written { size: 1 })));
  }
  host.send(spinner, &ToInside::Cancel);
  assert_eq!(host.finish(spinner).how(), How::Cancelled);
  assert_eq!(host.notices, []);
  assert!(container.is_running());
}

#[test]
fn hellos_of_strangers_by_the_thousand_change_nothing() {
  let (container, mut host) = target();
  let before = status(&mut host, "VmRSS");
  let mut flood = Vec::new();
  for number in 0..20_000u64 {
    let stranger = Encoder::new(number | 1 << 40, number);
    let hello = Hello { token: Token([number as u8 | 0x80; 32]), next_token: Token([0; 32]), dead_man_ms: 1 };
    ToInside::Hello(hello).encode(&stranger, 0, &mut flood).unwrap();
    if number % 3 == 0 {
      stranger.frame(&mut flood, Kind::Hello, 0, |out| out.extend_from_slice(&[1; 200])).unwrap();
    }
  }
  let mut stranger = container.attach();
  let mut writing = stranger.writer();
  let writer = std::thread::spawn(move || writing.write(&flood));
  // The engine gives the output to both, and gives none where one of them does not take it.
  let over = Arc::new(AtomicBool::new(false));
  let done = Arc::clone(&over);
  let reader = std::thread::spawn(move || {
    let mut room = [0; 64 * 1024];
    while !done.load(Ordering::Relaxed) {
      stranger.read(&mut room, Duration::from_millis(50));
    }
  });
  let mut longest = Duration::ZERO;
  for number in 0..200 {
    let start = Instant::now();
    host.send(0, &ToInside::Heartbeat(number));
    host.until(|host| host.heartbeats.len() > number as usize);
    longest = longest.max(start.elapsed());
    assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
  }
  writer.join().unwrap();
  over.store(true, Ordering::Relaxed);
  reader.join().unwrap();
  assert!(longest < Duration::from_secs(2), "{longest:?}");
  assert_eq!(host.refused, None);
  let after = status(&mut host, "VmRSS");
  assert!(after < before + 1024, "{before} KiB became {after} KiB");
}

// Each answer is one that must arrive, and an acknowledgement makes room for the next operation whoever heard of it.
#[test]
fn a_holder_that_asks_without_end_and_reads_nothing_is_not_listened_to() {
  const COUNT: u64 = 150_000;
  let (container, mut host) = target();
  let rss = || -> u64 {
    let text = container.exec_text(&["grep", "VmRSS", "/proc/1/status"]);
    text.split_whitespace().nth(1).unwrap().parse().unwrap()
  };
  let before = rss();
  let (mut flood, first) = (Vec::new(), 1 << 32);
  for op in first..first + COUNT {
    let path = RelativePath::new(b"none").unwrap();
    let request = ReadFile { window: 1, offset: 0, limit: 1, path };
    ToInside::ReadFile(request).encode(&host.encoder, op, &mut flood).unwrap();
    ToInside::Ack.encode(&host.encoder, op, &mut flood).unwrap();
    let hello = Hello { token: TOKEN, next_token: TOKEN, dead_man_ms: 0 };
    if op % 1000 == 0 {
      ToInside::Hello(hello).encode(&host.encoder, 0, &mut flood).unwrap();
    }
  }
  let mut writer = host.stdio.writer();
  let writer = std::thread::spawn(move || writer.write(&flood));
  // It has come to a halt where nothing is read for so long.
  let (start, mut most) = (Instant::now(), 0);
  while start.elapsed() < Duration::from_secs(5) {
    most = most.max(rss());
  }
  assert!(!writer.is_finished(), "all of it was taken although nothing was read");
  assert!(most < before + 1024, "{before} KiB became {most} KiB");
  // Nothing is lost, and it goes on.
  host.until(|host| {
    host.operations.len() as u64 == COUNT && host.operations.values().all(|one| one.done.is_some())
  });
  writer.join().unwrap();
  host.operations.clear();
  assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
}

// The operations that are in the way may be the very ones that fill the stream.
#[test]
fn what_is_refused_is_told_while_streams_fill_the_link() {
  const SIZE: u32 = 1 << 20;
  let (_container, mut host) = target();
  host.sh(&format!("head -c {SIZE} /dev/zero >file"));
  let path = RelativePath::new(b"file").unwrap();
  let read = |window| ToInside::ReadFile(ReadFile { window, offset: 0, limit: SIZE.into(), path });
  let reading: Vec<_> = (0..MAX_ACTIVE).map(|_| host.open(&read(SIZE))).collect();
  // Nothing is read meanwhile, so that what waits to be written grows as far as streams may let it.
  let refused: Vec<_> = (0..20)
    .map(|_| {
      std::thread::sleep(Duration::from_millis(50));
      host.open(&read(SIZE))
    })
    .collect();
  for op in reading {
    assert_eq!(host.finish(op).output.len(), SIZE as usize);
  }
  for op in refused {
    assert_eq!(host.finish(op).failure(), Failure::TooMany);
  }
  assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
}

#[test]
fn special_files_are_neither_opened_nor_waited_for() {
  let (_container, mut host) = target();
  let listener = host.spawn(&[ATTACK, "listen", "/workspace/socket"], |_| {});
  host.until(|host| host.operations[&listener].output == b"listen\n");
  host.sh("mkfifo fifo; ln -s /dev/zero device");
  let start = Instant::now();
  for (path, expected) in
    [("fifo", Failure::Special), ("socket", Failure::Special), ("device", Failure::Link)]
  {
    assert_eq!(host.read_file(path, 0, 10).failure(), expected, "reading {path}");
    assert_eq!(host.write_file(path, b"x").failure(), expected, "writing {path}");
    assert_eq!(
      host.list(path, 1, 10).failure(),
      if path == "device" { Failure::Link } else { Failure::NotDirectory }
    );
  }
  assert!(start.elapsed() < Duration::from_secs(2));
}

// No command may write a file that no archive can hold; what an engine starts may.
#[test]
fn a_file_that_no_archive_can_hold_is_refused_and_not_left_out() {
  let (container, mut host) = target();
  assert_ne!(host.sh("truncate -s 1024G sparse").how(), How::Exited(0));
  container.exec_text(&["truncate", "-s", "1024G", "/workspace/sparse"]);
  assert_eq!(host.read_file("sparse", (1 << 40) - 2, 10).output, b"\0\0");
  assert_eq!(tar(&mut host).failure(), Failure::TooLarge);
}

#[test]
fn depths_are_bounded() {
  let (_container, mut host) = resident(&roomy());
  let op = host.spawn(&["sh", "-c", "mkdir down && cd down && /.sandbox/attack deep 20000"], |_| {});
  assert_eq!(host.finish(op).text(), "deep 20000\n");
  let start = Instant::now();
  let listing = host.list("down", 10, 100);
  assert_eq!(listing.done, Some(Reply::Listed(Listed { entries: 10, truncated: false })));
  assert_eq!(host.list("down", u32::MAX, u32::MAX).failure(), Failure::TooLarge);
  assert_eq!(tar(&mut host).failure(), Failure::TooLarge);
  assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

// Names are sorted in the supervisor's own memory: up to 100,000 of them.
#[test]
fn the_names_of_a_directory_are_bounded() {
  let (_container, mut host) = resident(&roomy());
  let before = status(&mut host, "VmRSS");
  let mut list = |count: u32| {
    let script = "mkdir -p across && cd across && /.sandbox/attack many $0";
    let op = host.spawn(&["sh", "-c", script, &count.to_string()], |_| {});
    assert_eq!(host.finish(op).text(), format!("many {count}\n"));
    let start = Instant::now();
    let listing = host.list("across", 1, 1000);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    listing
  };
  let few = list(90_000);
  assert_eq!(few.done, Some(Reply::Listed(Listed { entries: 1000, truncated: true })));
  assert_eq!(resident::entries(&few.output).len(), 1000);
  assert_eq!(list(200_000).failure(), Failure::TooLarge);
  let after = status(&mut host, "VmRSS");
  assert!(after < before + (16 << 10), "{before} KiB became {after} KiB");
}

// One user's pipes in all containers share one allowance: with it used up, a new pipe holds less.
#[test]
fn pipes_that_hold_little_carry_everything() {
  let (_hoard, mut hoarder) =
    resident(&Profile { attack: Some(attack()), memory: 1 << 30, ..Profile::default() });
  let (_container, mut host) = target();
  assert_eq!(host.run(&[ATTACK, "pipe-size"]).text(), "pipe-size 65536\n");
  let hoard = hoarder.spawn(&[ATTACK, "hoard"], |_| {});
  hoarder.until(|host| host.operations[&hoard].output == b"hoard 24\n");
  let shrunk = host.run(&[ATTACK, "pipe-size"]).text();
  assert!(["pipe-size 4096\n", "pipe-size 8192\n"].contains(&shrunk.as_str()), "{shrunk}");
  let contents: Vec<u8> = (0..4u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
  let op = host.spawn(&["cat"], |exec| exec.stdin = true);
  host.feed(op, &contents);
  let outcome = host.finish(op);
  assert!(outcome.how() == How::Exited(0) && outcome.output == contents);
  hoarder.send(hoard, &ToInside::Cancel);
  assert_eq!(hoarder.finish(hoard).how(), How::Cancelled);
}
