//! What hostile commands do to process 1 and to each other: each attack is made by a program in a real container, gains
//! nothing, and hangs nobody. The environment is that of `supervisor_inside.rs`; `rustc` compiles the program.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/resident.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod resident;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

use resident::{Container, Host, Profile, resident};

const ATTACK: &str = "/.sandbox/attack";
const EPERM: &str = "1";

/// The program, compiled once. `SANDBOX_ATTACK` names it where it was compiled for another architecture.
fn attack() -> PathBuf {
  static BUILT: OnceLock<PathBuf> = OnceLock::new();
  if let Some(built) = std::env::var_os("SANDBOX_ATTACK") {
    return PathBuf::from(built);
  }
  let build = || {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("attack");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/attack.rs");
    let flags = ["--edition", "2024", "-O", "-C", "target-feature=+crt-static", "-o"];
    let status = Command::new("rustc").args(flags).arg(&to).arg(source).status().unwrap();
    assert!(status.success());
    to
  };
  BUILT.get_or_init(build).clone()
}

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
