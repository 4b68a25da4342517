//! What keeps commands away from process 1, one thing at a time: each alone holds what it is said to hold, and where
//! something is missing the attacks of the self-test get through and say so. The environment is that of
//! `supervisor_inside.rs`; `rustc` compiles the attacking program.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/resident.rs"]
mod resident;

use sandbox_docker::supervisor::wire::*;

use resident::{ATTACK, Container, Host, Profile, attack, resident};

/// What the attacks at the start came to.
fn broken(host: &Host) -> Vec<&'static str> {
  let self_test = host.welcome.as_ref().unwrap().self_test;
  assert_eq!(self_test.tried, 0x7f);
  self_test.broken().collect()
}

// An attack that can never be seen to get through would say nothing by failing. Root may look into everything with this
// capability, unless Landlock keeps it in its domain; our own filter keeps it from tracing and from others' limits.
#[test]
fn what_could_be_done_to_process_1_is_seen_and_said() {
  for (landlock, expected) in [(false, &["inject", "environ", "memory", "descriptors"][..]), (true, &[])] {
    let profile = Profile { user: 0, capabilities: &["SYS_PTRACE"], landlock, ..Profile::default() };
    let (_container, host) = resident(&profile);
    assert_eq!(broken(&host), expected, "Landlock {landlock}");
  }
  let (_container, host) = resident(&Profile { user: 0, landlock: false, ..Profile::default() });
  assert!(broken(&host).is_empty());
}

// The file's mode alone would do it too; where the file may be read, only what process 1 says of itself is left.
#[test]
fn process_1_is_closed_although_its_program_may_be_read() {
  let profile = Profile { program: 0o555, landlock: false, attack: Some(attack()), ..Profile::default() };
  let (_container, mut host) = resident(&profile);
  assert_eq!(host.run(&["stat", "-c", "%a", "/.sandbox/supervisor"]).text(), "555\n");
  assert_eq!(host.run(&["head", "-c", "4", "/.sandbox/supervisor"]).output, b"\x7fELF");
  assert!(broken(&host).is_empty());
  for attempt in ["echo x >fd/1", "cat fd/0", "cat environ", "cat mem", "echo x >mem", "cat maps", "cat exe"]
  {
    let outcome = host.sh(&format!("cd /proc/1 && {attempt}"));
    assert_ne!(outcome.how(), How::Exited(0), "{attempt}");
    assert_eq!(outcome.text(), "", "{attempt}");
  }
  let outcome = host.run(&[ATTACK, "first"]).text();
  for attempt in ["trace 1\n", "read 1\n", "write 1\n", "descriptor 1\n"] {
    assert!(outcome.contains(attempt), "{outcome}");
  }
}

/// What others can see of how process 1 is scheduled and limited: its priority, nice value and policy, where it may run,
/// and its limits.
fn weight(host: &mut Host) -> String {
  host
    .sh("cut -d' ' -f18,19,41 /proc/1/stat; grep allowed /proc/1/status; ionice -p 1; cat /proc/1/limits")
    .text()
}

fn attacked() -> (Container, Host) {
  resident(&Profile { attack: Some(attack()), ..Profile::default() })
}

// What the engine starts by itself has the engine's filter and not ours; without the control, arguments that the kernel
// takes for nonsense would look like a refusal.
#[test]
fn process_1_cannot_be_weighed_less_by_its_group_its_user_or_its_memory() {
  let (container, mut host) = attacked();
  let before = weight(&mut host);
  assert!(before.contains("Max open files"), "{before}");
  let names = [
    "priority-group",
    "priority-user-id",
    "io-priority-group",
    "io-priority-user",
    "attributes",
    "migrate",
    "move",
    "compare",
  ];
  let refused = names.map(|name| format!("{name} 1\n")).concat();
  let outcome = host.run(&[ATTACK, "weigh"]);
  assert_eq!((outcome.text(), outcome.how()), (refused, How::Exited(0)));
  assert_eq!(weight(&mut host), before);
  let done = container.exec_text(&[ATTACK, "weigh"]);
  for name in &names[..5] {
    assert!(done.contains(&format!("{name} 0\n")), "{done}");
  }
  assert_ne!(weight(&mut host), before);
}

// Engines let programs of the 32-bit architecture run, and their numbers mean other calls.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_system_call_by_the_other_door_is_the_end_of_its_process() {
  let (container, mut host) = attacked();
  // 100: the kernel answered, and rightly; SIGSEGV: it has no such door. SIGSYS is our filter's.
  let (answered, no_door) = ("i386 code 100 signal 0\n", "i386 code 0 signal 11\n");
  let without = container.exec_text(&[ATTACK, "i386"]);
  assert!([answered, no_door].contains(&without.as_str()), "{without}");
  let expected = if without == answered { "i386 code 0 signal 31\n" } else { no_door };
  assert_eq!(host.run(&[ATTACK, "i386"]).text(), expected);
  assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
}
