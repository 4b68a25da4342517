//! What hostile commands do to process 1 and to each other: each attack is made by a program in a real container, gains
//! nothing, and hangs nobody. The environment is that of `supervisor_inside.rs`; `rustc` compiles the program.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/resident.rs"]
mod resident;

use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

use resident::{ATTACK, Container, Host, Profile, attack, resident};

const EPERM: &str = "1";

fn target() -> (Container, Host) {
  resident(&Profile { attack: Some(attack()), ..Profile::default() })
}

/// Commands that run besides the one that looks.
fn others(host: &mut Host) -> String {
  host
    .sh("for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n = 1 ] || [ $n = $$ ] || cat $p/comm; done 2>/dev/null")
    .text()
}

#[test]
fn process_1_cannot_be_limited_slowed_traced_or_read() {
  let (_container, mut host) = target();
  let outcome = host.run(&[ATTACK, "first"]);
  let expected = [
    ("limit", EPERM),
    ("limit-cpu", EPERM),
    ("limit-read", "0"),
    ("limit-own", "0"),
    ("priority", EPERM),
    ("priority-user", EPERM),
    ("priority-own", "0"),
    ("io-priority", EPERM),
    ("scheduler", EPERM),
    ("parameter", EPERM),
    ("affinity", EPERM),
    ("affinity-own", "0"),
    ("trace", EPERM),
    ("read", EPERM),
    ("write", EPERM),
    ("descriptor", EPERM),
    ("tag-up", EPERM),
    // ENOSYS: this filter does not know that architecture's numbers, so it lets none of them through.
    ("x32", "38"),
  ];
  let said = expected.map(|(what, errno)| format!("{what} {errno}\n")).concat();
  assert_eq!((outcome.text(), outcome.how()), (said, How::Exited(0)), "{}", outcome.error.escape_ascii());
}

#[test]
fn there_is_no_channel_and_no_memory_that_nobody_owns() {
  let (_container, mut host) = target();
  // 97: no such address family.
  let said = "vsock 97\nunix 0\nshm 1\nsem 1\nmsg 1\nmq 1\nuring 1\n";
  assert_eq!(host.run(&[ATTACK, "channels"]).text(), said);
}

#[test]
fn a_process_that_changed_its_tag_is_killed_for_it() {
  let (_container, mut host) = target();
  let outcome = host.run(&[ATTACK, "retag"]);
  assert_eq!((outcome.text().as_str(), outcome.how()), ("lower 0\n", How::Exited(0)));
  assert_eq!(others(&mut host), "");
  assert!(host.notices.iter().any(|(notice, count)| *notice == Notice::Untagged && *count >= 1));
}

#[test]
fn threads_without_their_first_and_orphans_of_a_reaper_end_with_their_command() {
  let (_container, mut host) = target();
  for (name, least) in [("headless", 1), ("reaper", 4)] {
    let outcome = host.run(&[ATTACK, name]);
    assert_eq!(outcome.how(), How::Exited(0), "{name}");
    assert!(outcome.exited.unwrap().killed >= least, "{name}: {outcome:?}");
    assert_eq!(others(&mut host), "", "{name}");
  }
}

#[test]
fn a_leased_file_is_busy_and_holds_up_nobody() {
  let (_container, mut host) = target();
  host.write_file("leased", b"contents");
  let op = host.spawn(&[ATTACK, "lease", "/workspace/leased"], |_| {});
  host.until(|host| host.operations[&op].output == b"lease 0\n");
  let start = Instant::now();
  assert_eq!(host.read_file("leased", 0, 10).failure(), Failure::Busy);
  assert_eq!(host.write_file("leased", b"new").done, Some(Reply::Written(Written { size: 3 })));
  assert!(start.elapsed() < Duration::from_secs(2));
  host.send(op, &ToInside::Cancel);
  assert_eq!(host.finish(op).how(), How::Cancelled);
  assert_eq!(host.read_file("leased", 0, 10).output, b"new");
}

#[test]
fn who_stops_all_that_comes_after_it_stops_neither_process_1_nor_an_answer() {
  let (_container, mut host) = target();
  let stopper = host.spawn(&[ATTACK, "stop"], |_| {});
  host.until(|host| host.operations[&stopper].output == b"ready\n");
  let commands: Vec<_> = (0..20).map(|_| host.spawn(&["true"], |exec| exec.timeout_ms = 2_000)).collect();
  let start = Instant::now();
  host.write_file("meanwhile", b"x");
  assert_eq!(host.read_file("meanwhile", 0, 1).output, b"x");
  assert!(start.elapsed() < Duration::from_secs(2));
  for op in commands {
    let how = host.finish(op).how();
    assert!(matches!(how, How::Exited(0) | How::TimedOut), "{how:?}");
  }
  host.send(stopper, &ToInside::Cancel);
  assert_eq!(host.finish(stopper).how(), How::Cancelled);
  assert_eq!(host.run(&["echo", "free"]).text(), "free\n");
  assert_eq!(others(&mut host), "");
}

#[test]
fn links_and_renames_in_a_race_never_lead_out() {
  let (_container, mut host) = target();
  host.sh("mkdir d; echo inside >d/passwd; echo inside >file");
  let swap = "while :; do mv d e; ln -s /etc d; rm d; mv e d; rm -f file; ln -s /etc/passwd file; rm file; echo inside >file; done";
  let racer = host.spawn(&["sh", "-c", swap], |_| {});
  host.until(|host| host.operations[&racer].started.is_some());
  let start = Instant::now();
  let mut seen = [0; 2];
  while start.elapsed() < Duration::from_secs(5) {
    for path in ["d/passwd", "file"] {
      let read = host.read_file(path, 0, 100);
      match read.done {
        Some(Reply::Read(_)) => {
          assert!(matches!(read.output.as_slice(), b"inside\n" | b""), "{}", read.output.escape_ascii());
          seen[0] += 1;
        }
        _ => {
          assert!(matches!(read.failure(), Failure::NotFound | Failure::Link), "{read:?}");
          seen[1] += 1;
        }
      }
    }
    let written = host.write_file("d/new", b"ours");
    let is_known = matches!(written.done, Some(Reply::Written(_)))
      || matches!(written.failure(), Failure::NotFound | Failure::Link | Failure::Exists);
    assert!(is_known, "{written:?}");
    for entry in resident::entries(&host.list("", 3, 100).output) {
      assert!(!entry.0.contains("shadow"), "{entry:?}");
    }
  }
  assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
  host.send(racer, &ToInside::Cancel);
  assert_eq!(host.finish(racer).how(), How::Cancelled);
}

// Where Landlock knows scopes a command's signals end at itself; elsewhere siblings are one trust domain.
#[test]
fn who_kills_everything_kills_itself_and_its_siblings_end_as_what_happened_to_them() {
  let (container, mut host) = target();
  let bystander = host.spawn(&["sh", "-c", "read x; echo alive $x"], |exec| exec.stdin = true);
  host.until(|host| host.operations[&bystander].started.is_some());
  host.sh("kill -9 -1; sleep 0.1");
  if host.welcome.as_ref().unwrap().can(Capability::Scoped) {
    host.feed(bystander, b"indeed\n");
    assert_eq!(host.finish(bystander).text(), "alive indeed\n");
  } else {
    assert_eq!(host.finish(bystander).how(), How::Signaled(9));
  }
  assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
  assert!(container.is_running());
}

// The tests install the program as the product does, mode 0111, and that is what runs here.
#[test]
fn of_process_1_only_what_is_harmless_can_be_seen() {
  let (_container, mut host) = target();
  assert_eq!(host.run(&["stat", "-c", "%a", "/.sandbox/supervisor"]).text(), "111\n");
  for attempt in [
    "cat mem",
    "echo x >mem",
    "cat environ",
    "cat maps",
    "cat smaps",
    "cat exe",
    "cat /.sandbox/supervisor",
    "ls fd/",
    "cat fd/0",
    "echo x >fd/1",
    "ls fdinfo/",
    "readlink ns/pid",
    "readlink cwd",
    "readlink root",
    "cat io",
    "cat auxv",
    "cat stack",
    "cat syscall",
    "cat pagemap",
    "echo 1000 >oom_score_adj",
    "echo 1 >clear_refs",
    "echo 1 >timerslack_ns",
    "echo x >comm",
  ] {
    let outcome = host.sh(&format!("cd /proc/1 && {attempt}"));
    assert_ne!(outcome.how(), How::Exited(0), "{attempt}");
    assert_eq!(outcome.text(), "", "{attempt}");
  }
  let expected = "/.sandbox/supervisor /workspace ";
  assert_eq!(host.sh("tr '\\0' ' ' </proc/1/cmdline").text(), expected);
  assert_eq!(host.sh("grep -c . /proc/1/limits /proc/1/status >/dev/null && echo yes").text(), "yes\n");
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

/// A number of `/proc/1/status`, which stays readable.
fn status(host: &mut Host, field: &str) -> u64 {
  let text = host.run(&["grep", field, "/proc/1/status"]).text();
  text.split_whitespace().nth(1).unwrap().parse().unwrap()
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
  assert_eq!(others(&mut host), "");
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
  let writer = std::thread::spawn(move || stranger.write(&flood));
  let mut longest = Duration::ZERO;
  for number in 0..200 {
    let start = Instant::now();
    host.send(0, &ToInside::Heartbeat(number));
    host.until(|host| host.heartbeats.len() > number as usize);
    longest = longest.max(start.elapsed());
    assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
  }
  writer.join().unwrap();
  assert!(longest < Duration::from_secs(2), "{longest:?}");
  assert_eq!(host.refused, None);
  let after = status(&mut host, "VmRSS");
  assert!(after < before + 1024, "{before} KiB became {after} KiB");
}

#[test]
fn a_process_that_nobody_may_look_into_ends_with_its_command() {
  let (_container, mut host) = target();
  let outcome = host.run(&[ATTACK, "unseen"]);
  assert_eq!(outcome.how(), How::Exited(0));
  assert!(outcome.exited.unwrap().killed >= 1, "{outcome:?}");
  assert_eq!(others(&mut host), "");
}

// The filter lets no command trace; what an engine starts in the container is not behind it.
#[test]
fn a_tracer_that_hides_the_end_of_a_command_is_killed() {
  let (container, mut host) = target();
  let op = host.spawn(&["sleep", "30"], |exec| exec.timeout_ms = 2_000);
  host.until(|host| host.operations[&op].started.is_some());
  let Some(Started::Command { pid }) = host.operations[&op].started else { unreachable!() };
  let mut tracer = container.exec(&[ATTACK, "trace", &pid.to_string(), "30"]);
  let mut said = [0; 100];
  let count = tracer.read(&mut said, Duration::from_secs(10)).unwrap();
  assert_eq!(said[..count], *b"seize 0\n");
  let start = Instant::now();
  assert_eq!(host.finish(op).how(), How::TimedOut);
  assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
  assert_eq!(tracer.read(&mut said, Duration::from_secs(5)), Some(0));
  assert!(host.notices.contains(&(Notice::Untagged, 1)), "{:?}", host.notices);
}

/// The process as this machine numbers it: the engine runs beside the tests.
fn outside(container: &Container, inside: u32) -> u32 {
  let wanted = format!("\t{inside}");
  for entry in std::fs::read_dir("/proc").unwrap() {
    let path = entry.unwrap().path();
    let read = |name| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    let numbers = read("status").lines().find(|line| line.starts_with("NSpid:")).map(str::to_owned);
    if numbers.is_some_and(|line| line.ends_with(&wanted)) && read("cgroup").contains(&container.id) {
      return path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    }
  }
  panic!("process {inside} of the container is not on this machine")
}

// A tracer outside the container is beyond every kill from inside: after 5 s everything goes, after 10 s the container.
#[test]
fn what_cannot_be_ended_takes_the_others_with_it_and_then_the_container() {
  for (seconds, ends) in [(7, false), (60, true)] {
    let (container, mut host) = target();
    let bystander = host.spawn(&["sleep", "40"], |_| {});
    let op = host.spawn(&["sleep", "40"], |_| {});
    host
      .until(|host| host.operations[&op].started.is_some() && host.operations[&bystander].started.is_some());
    let Some(Started::Command { pid }) = host.operations[&op].started else { unreachable!() };
    let traced = outside(&container, pid).to_string();
    let mut tracer = std::process::Command::new(attack())
      .args(["trace", &traced, &seconds.to_string()])
      .stdout(std::process::Stdio::piped())
      .spawn()
      .unwrap();
    let mut said = [0; 8];
    std::io::Read::read_exact(tracer.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(said, *b"seize 0\n");
    let start = Instant::now();
    host.send(op, &ToInside::Cancel);
    assert_eq!(host.finish(bystander).how(), How::Swept);
    let took = start.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(7)).contains(&took), "{took:?}");
    assert!(host.notices.iter().any(|(notice, _)| *notice == Notice::KilledAll));
    if ends {
      assert_eq!(container.wait(), 85);
      host.read_for(Duration::from_secs(5));
      assert!(host.notices.iter().any(|(notice, _)| *notice == Notice::Unkillable));
      tracer.kill().unwrap();
    } else {
      assert_eq!(host.finish(op).how(), How::Cancelled);
      assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
    }
    tracer.wait().unwrap();
  }
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

#[test]
fn giants_and_depths_are_bounded() {
  let profile = Profile { attack: Some(attack()), memory: 1 << 30, tmpfs_mib: 512, ..Profile::default() };
  let (_container, mut host) = resident(&profile);
  host.sh("truncate -s 1T sparse");
  assert_eq!(host.read_file("sparse", (1 << 40) - 2, 10).output, b"\0\0");
  let tar = |host: &mut Host, max_entries| {
    let op = host.open(&ToInside::TarOut(TarOut { window: 1 << 20, max_bytes: 64 << 20, max_entries }));
    host.finish(op)
  };
  assert_eq!(tar(&mut host, 100).failure(), Failure::TooLarge);
  host.sh("rm sparse; mkdir down across");

  let op = host.spawn(&["sh", "-c", "cd down && /.sandbox/attack deep 20000"], |_| {});
  assert_eq!(host.finish(op).text(), "deep 20000\n");
  let start = Instant::now();
  let listing = host.list("down", 10, 100);
  assert_eq!(listing.done, Some(Reply::Listed(Listed { entries: 10, truncated: false })));
  let all = host.list("down", u32::MAX, u32::MAX);
  assert!(matches!(all.done, Some(Reply::Listed(_) | Reply::Failed(_))), "{:?}", all.done);
  assert!(tar(&mut host, u32::MAX).done.is_some());
  assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());

  let op = host.spawn(&["sh", "-c", "cd across && /.sandbox/attack many 200000"], |_| {});
  assert_eq!(host.finish(op).text(), "many 200000\n");
  let before = status(&mut host, "VmRSS");
  let start = Instant::now();
  let listing = host.list("across", 1, 1000);
  assert_eq!(listing.done, Some(Reply::Listed(Listed { entries: 1000, truncated: true })));
  assert_eq!(resident::entries(&listing.output).len(), 1000);
  assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
  let after = status(&mut host, "VmRSS");
  assert!(after < before + (64 << 10), "{before} KiB became {after} KiB");
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
