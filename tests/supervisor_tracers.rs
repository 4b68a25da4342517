//! Commands whose end a tracer hides from process 1. The filter lets no command trace; what an engine starts in the
//! container, and what runs beside it on its machine, is not behind it. The environment is that of `supervisor_inside.rs`,
//! and the tests run on the engine's machine as its administrator.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/resident.rs"]
mod resident;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::{How, Notice, ToInside};

use resident::{ATTACK, Container, Host, Profile, attack, resident};

fn target() -> (Container, Host) {
  resident(&Profile { attack: Some(attack()), ..Profile::default() })
}

#[test]
fn a_tracer_that_hides_the_end_of_a_command_is_killed() {
  let (container, mut host) = target();
  let op = host.spawn(&["sleep", "30"], |exec| exec.timeout_ms = 2_000);
  let pid = host.pid(op);
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

/// Traces a process of the container from without for so many seconds.
fn trace(container: &Container, inside: u32, seconds: u64) -> Child {
  let traced = outside(container, inside).to_string();
  let mut tracer = std::process::Command::new(attack())
    .args(["trace", &traced, &seconds.to_string()])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
  let mut said = [0; 8];
  tracer.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
  assert_eq!(said, *b"seize 0\n");
  tracer
}

/// The process as this machine numbers it: the engine runs beside the tests.
fn outside(container: &Container, inside: u32) -> u32 {
  let wanted = format!("\t{inside}");
  let is_it = |path: &Path| {
    let read = |name| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    let numbers = read("status").lines().find(|line| line.starts_with("NSpid:")).map(str::to_owned);
    numbers.is_some_and(|line| line.ends_with(&wanted)) && read("cgroup").contains(&container.id)
  };
  let mut processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
  let found = processes.find(|path| is_it(path)).unwrap();
  found.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// A command that is traced from without was cancelled, and another one had to go with it, after 5 s.
fn swept(host: &mut Host, container: &Container, seconds: u64) -> (u64, Child) {
  let bystander = host.spawn(&["sleep", "40"], |_| {});
  let op = host.spawn(&["sleep", "40"], |_| {});
  host.pid(bystander);
  let tracer = trace(container, host.pid(op), seconds);
  let start = Instant::now();
  host.send(op, &ToInside::Cancel);
  assert_eq!(host.finish(bystander).how(), How::Swept);
  let took = start.elapsed();
  assert!((Duration::from_secs(5)..Duration::from_secs(7)).contains(&took), "{took:?}");
  assert!(host.notices.iter().any(|(notice, _)| *notice == Notice::KilledAll));
  (op, tracer)
}

// A tracer outside the container is beyond every kill from inside.
#[test]
fn what_cannot_be_ended_takes_the_others_with_it() {
  let (container, mut host) = target();
  let (op, mut tracer) = swept(&mut host, &container, 7);
  assert_eq!(host.finish(op).how(), How::Cancelled);
  assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
  tracer.wait().unwrap();
}

#[test]
fn what_cannot_be_ended_at_all_ends_the_container() {
  let (container, mut host) = target();
  let (_op, mut tracer) = swept(&mut host, &container, 60);
  host.read_for(Duration::from_secs(8));
  assert!(host.notices.iter().any(|(notice, _)| *notice == Notice::Unkillable), "{:?}", host.notices);
  // The kernel ends a container when the last of its processes has been collected, by its tracer too.
  tracer.kill().unwrap();
  assert_eq!(container.wait(), 85);
  tracer.wait().unwrap();
}
