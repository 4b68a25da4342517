//! What hostile commands do to process 1 and to each other: each attack is made by a program in a real container, gains
//! nothing, and hangs nobody. The environment is that of `supervisor_inside.rs`; `rustc` compiles the program.
#![cfg(all(feature = "supervisor", target_os = "linux"))]

#[path = "support/resident.rs"]
mod resident;

use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

use resident::{ATTACK, Container, Host, Profile, attack, landlocks, resident};

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

// A killed one of the forty starts another, and their number is bounded only by the container's.
#[test]
fn forty_that_start_each_other_anew_end_soon_and_alone() {
  let (_container, mut host) = target();
  let bystander = host.spawn(&["sh", "-c", "read x; echo alive $x"], |exec| exec.stdin = true);
  host.until(|host| host.operations[&bystander].started.is_some());
  let script = format!("{ATTACK} hydra 40 & read x; kill -9 $!; sleep 30");
  let op = host.spawn(&["sh", "-c", &script], |exec| exec.stdin = true);
  host.until(|host| host.operations[&op].output.len() == 40);
  // One that is killed is followed by others, which say their letters.
  host.feed(op, b"\n");
  host.until(|host| host.operations[&op].output.len() > 40);
  let start = Instant::now();
  host.send(op, &ToInside::Cancel);
  let outcome = host.finish(op);
  assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
  assert_eq!(outcome.how(), How::Cancelled);
  assert!(outcome.exited.unwrap().killed >= 40, "{outcome:?}");
  assert!(host.notices.is_empty(), "{:?}", host.notices);
  host.feed(bystander, b"indeed\n");
  assert_eq!(host.finish(bystander).text(), "alive indeed\n");
  assert_eq!(others(&mut host), "");
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

// Scoped, its signals reach nobody; else it stops what comes after it wherever that is between fork and its own end.
#[test]
fn who_stops_all_that_comes_after_it_stops_neither_process_1_nor_an_answer() {
  for &landlock in landlocks() {
    let (_container, mut host) =
      resident(&Profile { attack: Some(attack()), landlock, ..Profile::default() });
    let stopper = host.spawn(&[ATTACK, "stop"], |_| {});
    host.until(|host| host.operations[&stopper].output == b"ready\n");
    let commands: Vec<_> = (0..20)
      .map(|number| {
        host.spawn(&["sleep", if number % 2 == 0 { "0" } else { "0.5" }], |exec| exec.timeout_ms = 3_000)
      })
      .collect();
    let start = Instant::now();
    host.write_file("meanwhile", b"x");
    assert_eq!(host.read_file("meanwhile", 0, 1).output, b"x");
    assert!(start.elapsed() < Duration::from_secs(2));
    let ends: Vec<_> = commands.into_iter().map(|op| host.finish(op).how()).collect();
    let stopped = ends.iter().filter(|how| **how == How::TimedOut).count();
    assert!(ends.iter().all(|how| matches!(how, How::Exited(0) | How::TimedOut)), "{ends:?}");
    assert_eq!(stopped > 0, !landlock, "{ends:?}");
    host.send(stopper, &ToInside::Cancel);
    assert_eq!(host.finish(stopper).how(), How::Cancelled);
    assert_eq!(host.run(&["echo", "free"]).text(), "free\n");
    assert_eq!(others(&mut host), "");
  }
}

// Whoever holds a lease on a program holds up its start: the kernel waits in `execve`, and process 1 does not.
#[test]
fn a_start_that_somebody_holds_up_ends_by_its_deadline() {
  let (_container, mut host) = target();
  host.sh("cp /bin/busybox true && chmod 755 true");
  let holder = host.spawn(&[ATTACK, "lease", "/workspace/true"], |_| {});
  host.until(|host| host.operations[&holder].output == b"lease 0\n");
  let start = Instant::now();
  let held = host.spawn(&["/workspace/true"], |exec| exec.timeout_ms = 0);
  let timed = host.spawn(&["/workspace/true"], |exec| exec.timeout_ms = 1_000);
  assert_eq!(host.run(&["echo", "meanwhile"]).text(), "meanwhile\n");
  assert!(start.elapsed() < Duration::from_secs(1));
  assert_eq!(host.finish(timed).how(), How::TimedOut);
  let outcome = host.finish(held);
  assert_eq!((outcome.how(), outcome.started), (How::NotStarted(NotStarted::Deadline, 0), None));
  assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&start.elapsed()));
  host.send(holder, &ToInside::Cancel);
  assert_eq!(host.finish(holder).how(), How::Cancelled);
}

// Without Landlock a sibling can hold the other end of a command's output for as long as it likes.
#[test]
fn a_sibling_that_holds_the_output_of_a_command_holds_up_neither_its_end_nor_its_bytes() {
  let (_container, mut host) = resident(&Profile { landlock: false, ..Profile::default() });
  let op = host.spawn(&["sh", "-c", "read x; echo last"], |exec| exec.stdin = true);
  let pid = host.pid(op);
  let hold = format!("exec 9>/proc/{pid}/fd/1; echo holds; sleep 30");
  let holder = host.spawn(&["sh", "-c", &hold], |_| {});
  host.until(|host| host.operations[&holder].output == b"holds\n");
  let start = Instant::now();
  host.feed(op, b"\n");
  let outcome = host.finish(op);
  assert_eq!((outcome.how(), outcome.text().as_str()), (How::Exited(0), "last\n"));
  assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
  host.send(holder, &ToInside::Cancel);
  assert_eq!(host.finish(holder).how(), How::Cancelled);
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
  for &landlock in landlocks() {
    let (container, mut host) = resident(&Profile { landlock, ..Profile::default() });
    assert_eq!(host.welcome.as_ref().unwrap().can(Capability::Scoped), landlock);
    let bystander = host.spawn(&["sh", "-c", "read x; echo alive $x"], |exec| exec.stdin = true);
    host.until(|host| host.operations[&bystander].started.is_some());
    host.sh("kill -9 -1; sleep 0.1");
    if landlock {
      host.feed(bystander, b"indeed\n");
      assert_eq!(host.finish(bystander).text(), "alive indeed\n");
    } else {
      assert_eq!(host.finish(bystander).how(), How::Signaled(9));
    }
    for signal in (1..=64).filter(|signal| ![32, 33].contains(signal)) {
      host.sh(&format!("kill -{signal} 1"));
    }
    assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
    assert!(container.is_running());
  }
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
  // It handles no signal at all, and blocks only the one that it looks for itself: SIGCHLD.
  // A second thread could be stopped, or hold a lock, while the loop goes on.
  let status = "grep -E 'Threads|SigBlk|SigCgt|NoNewPrivs|Seccomp:' /proc/1/status | tr -d '\\t\\n'";
  assert_eq!(
    host.sh(status).text(),
    "Threads:1SigBlk:0000000000010000SigCgt:0000000000000000NoNewPrivs:1Seccomp:2"
  );
  // Started by anybody else it is nothing.
  assert_eq!(host.run(&["/.sandbox/supervisor", "/workspace"]).how(), How::Exited(80));
  let expected = "/.sandbox/supervisor /workspace ";
  assert_eq!(host.sh("tr '\\0' ' ' </proc/1/cmdline").text(), expected);
  assert_eq!(host.sh("grep -c . /proc/1/limits /proc/1/status >/dev/null && echo yes").text(), "yes\n");
}

#[test]
fn a_process_that_nobody_may_look_into_ends_with_its_command() {
  let (_container, mut host) = target();
  let outcome = host.run(&[ATTACK, "unseen"]);
  assert_eq!(outcome.how(), How::Exited(0));
  assert!(outcome.exited.unwrap().killed >= 1, "{outcome:?}");
  assert_eq!(others(&mut host), "");
}
