//! A second stream to process 1: whoever hangs on the first, whoever offers what, the holder of the lease gets through
//! and nobody else. The environment is that of `supervisor_inside.rs`.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::indexing_slicing, reason = "tests")]

#[path = "support/resident.rs"]
mod resident;

use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

use resident::{ATTACK, Container, HANG, Host, Outcome, Profile, TOKEN, attack, resident};

/// Another host, over a stream of its own.
fn bridged(container: &Container, key: u64, fence: u64) -> Host {
  let mut host = Host::new(container.bridge(), key, fence);
  host.greet(TOKEN, 0);
  host
}

/// Says which process brought the stream.
const BRIDGE: &str = r#"for p in /proc/[0-9]*; do
  case "$(tr '\0' ' ' <$p/cmdline)" in "/.sandbox/supervisor bridge ") echo ${p#/proc/} ;; esac
done 2>/dev/null"#;

fn descriptors(host: &mut Host) -> String {
  host.run(&["grep", "FDSize", "/proc/1/status"]).text()
}

/// The holder stops reading and stays attached: the engine's copying of process 1's output stands still.
fn hang(host: &mut Host) -> u64 {
  let op = host.spawn(&["yes"], |exec| exec.window = u32::MAX);
  host.until(|host| host.operations[&op].output.len() > 100);
  op
}

#[test]
fn a_holder_that_hangs_and_stays_attached_is_not_needed() {
  let (container, mut old) = resident(&Profile::default());
  assert!(old.welcome.as_ref().unwrap().can(Capability::Bridge));
  let finished = old.spawn(&["echo", "done"], |_| {});
  old.until(|host| host.operations[&finished].done.is_some());
  let endless = hang(&mut old);
  std::thread::sleep(Duration::from_secs(1));
  // Attaching is of no use: that is what the bridge is for.
  if let Some(stdio) = container.try_attach(Duration::from_secs(2)) {
    let mut attached = Host::new(stdio, 0xB1, 2);
    attached.send(0, &ToInside::Hello(Hello { token: TOKEN, next_token: TOKEN, dead_man_ms: 0 }));
    attached.read_for(Duration::from_secs(2));
    assert_eq!(attached.welcome, None);
  }

  let start = Instant::now();
  let mut host = bridged(&container, 0xC1, 3);
  let took = start.elapsed();
  assert_eq!(host.refused, None);
  assert!(took < Duration::from_secs(5), "{took:?}");
  let known = host.welcome.clone().unwrap().operations;
  assert!(known.iter().any(|operation| operation.op == finished && operation.done));
  assert!(known.iter().any(|operation| operation.op == endless && !operation.done));
  // What was not acknowledged is said again.
  host.until(|host| host.operations.get(&finished).is_some_and(|outcome| outcome.done.is_some()));
  assert_eq!(host.operations[&finished].how(), How::Exited(0));
  host.send(endless, &ToInside::Cancel);
  let contents: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
  assert_eq!(host.write_file("large", &contents).done, Some(Reply::Written(Written { size: 8 << 20 })));
  assert!(host.read_file("large", 0, u64::MAX).output == contents);

  // The old one goes on, and changes nothing.
  old.send(0, &ToInside::Heartbeat(7));
  old.send(0, &ToInside::Hello(Hello { token: TOKEN, next_token: Token([9; 32]), dead_man_ms: 1 }));
  old.spawn(&["sh", "-c", "echo old >>marks"], |_| {});
  old.send(0, &ToInside::Shutdown);
  old.read_for(Duration::from_millis(500));
  assert_eq!(host.sh("echo new >>marks; cat marks").text(), "new\n");
  assert!(host.notices.is_empty(), "{:?}", host.notices);

  // Nor when process 1 listens to its own stream again: what the old one left there is a stranger's.
  drop(host);
  drop(old);
  let mut next = Host::new(container.attach(), 0xD1, 4);
  next.stdio.write(&vec![0; PREAMBLE]);
  next.greet(TOKEN, 0);
  assert_eq!(next.sh("cat marks").text(), "new\n");
}

#[test]
fn a_bridge_needs_the_token_and_a_higher_fence_and_a_holder_before_it() {
  let container = Container::create(&Profile::default());
  let stdio = container.attach();
  container.start();
  assert_eq!(bridged(&container, 1, 1).refused, Some(Refusal::Token));
  let mut host = Host::new(stdio, 0xA1, 5);
  host.greet(TOKEN, 0);
  for (token, key, fence, expected) in
    [(Token([8; 32]), 2, 6, Refusal::Token), (TOKEN, 3, 5, Refusal::Fence), (TOKEN, 4, 4, Refusal::Fence)]
  {
    let mut stranger = Host::new(container.bridge(), key, fence);
    stranger.greet(token, 0);
    assert_eq!(stranger.refused, Some(expected));
    // And the stream is closed: there is no second try.
    stranger.read_for(Duration::from_secs(5));
    assert!(stranger.ended);
  }
  assert_eq!(host.run(&["echo", "still here"]).text(), "still here\n");
  // The same holder again, who could not be answered on the other stream.
  let mut again = Host::new(container.bridge(), 0xA1, 5);
  again.greet(TOKEN, 0);
  assert_eq!(again.refused, None);
  assert_eq!(again.run(&["echo", "here now"]).text(), "here now\n");
  // A third takes over from a bridge by another bridge, which ends the first.
  let mut third = bridged(&container, 0xC1, 6);
  assert_eq!(third.run(&["echo", "third"]).text(), "third\n");
  again.read_for(Duration::from_secs(5));
  assert!(again.ended);
}

#[test]
fn after_a_bridge_process_1_waits_on_its_own_stream_as_long_as_the_dead_man_allows() {
  let (container, first) = resident(&Profile::default());
  drop(first);
  let mut host = Host::new(container.bridge(), 0xB1, 2);
  host.greet(TOKEN, 3_000);
  let kept = host.spawn(&["echo", "kept"], |_| {});
  host.until(|host| host.operations[&kept].done.is_some());
  drop(host);
  std::thread::sleep(Duration::from_millis(500));
  assert!(container.is_running());
  let mut next = Host::new(container.attach(), 0xC1, 3);
  next.greet(TOKEN, 3_000);
  next.until(|host| host.operations.get(&kept).is_some_and(|outcome| outcome.done.is_some()));
  let mut last = Host::new(container.bridge(), 0xD1, 4);
  last.greet(TOKEN, 1_000);
  drop(last);
  assert_eq!(container.wait(), 84);
}

#[test]
fn killing_the_process_that_brought_a_stream_ends_the_stream_and_no_more() {
  let (container, _first) = resident(&Profile::default());
  let mut host = bridged(&container, 0xB1, 2);
  let op = host.spawn(&["sh", "-c", "read x; echo got $x"], |exec| exec.stdin = true);
  host.until(|host| host.operations[&op].started.is_some());
  let kill = |signal, host: &mut Host| {
    let bridge = host.sh(BRIDGE).text();
    assert!(bridge.trim().parse::<u32>().is_ok_and(|pid| pid > 1), "{bridge:?}");
    assert_eq!(container.exec_text(&["kill", signal, bridge.trim()]), "");
  };
  kill("-9", &mut host);
  host.read_for(Duration::from_secs(5));
  assert!(host.ended);
  let mut next = bridged(&container, 0xC1, 3);
  next.operations.insert(op, Outcome::default());
  next.send(op, &ToInside::Data(Data { stream: Stream::Input, offset: 0, bytes: b"it\n" }));
  assert_eq!(next.finish(op).text(), "got it\n");
  // Stopped, it changes nothing at all: nothing passes through it.
  kill("-STOP", &mut next);
  assert_eq!(next.run(&["echo", "passes"]).text(), "passes\n");
}

#[test]
fn nobody_reads_or_writes_the_process_that_brings_a_stream() {
  let (container, _first) = resident(&Profile { landlock: false, ..Profile::default() });
  let mut host = bridged(&container, 0xB1, 2);
  let bridge = host.sh(BRIDGE).text();
  let bridge = bridge.trim();
  assert_eq!(
    host.sh(&format!("tr '\\0' ' ' </proc/{bridge}/cmdline")).text(),
    "/.sandbox/supervisor bridge "
  );
  for attempt in
    ["cat mem", "cat environ", "cat maps", "cat exe", "ls fd/", "cat fd/0", "echo x >fd/1", "echo x >mem"]
  {
    let outcome = host.sh(&format!("cd /proc/{bridge} && {attempt}"));
    assert_ne!(outcome.how(), How::Exited(0), "{attempt}");
    assert_eq!(outcome.text(), "", "{attempt}");
  }
}

#[test]
fn a_command_offers_nothing() {
  for landlock in [true, false] {
    let profile = Profile { attack: Some(attack()), landlock, ..Profile::default() };
    let (container, mut host) = resident(&profile);
    assert_eq!(host.welcome.as_ref().unwrap().can(Capability::Scoped), landlock);
    let outcome = host.run(&["/.sandbox/supervisor", "bridge"]);
    // Scoped: it does not get as far as the door. Else the door is shut in its face, before or after it has spoken.
    let expected: &[_] = if landlock { &[How::Exited(87)] } else { &[How::Exited(0), How::Exited(87)] };
    assert!(expected.contains(&outcome.how()), "{landlock} {:?}", outcome.how());
    assert_eq!(outcome.text(), "");
    let offers = host.run(&[ATTACK, "offer", "mute", "50"]);
    assert!(offers.text().ends_with(if landlock { "mute 0\n" } else { "mute 50\n" }), "{}", offers.text());
    assert!(container.is_running());
  }
}

#[test]
fn a_flood_of_commands_at_the_door_costs_little_and_keeps_nobody_out() {
  let profile = Profile { attack: Some(attack()), landlock: false, ..Profile::default() };
  let (container, mut host) = resident(&profile);
  let floods: Vec<_> = (0..8).map(|_| host.spawn(&[ATTACK, "flood", "6"], |_| {})).collect();
  std::thread::sleep(Duration::from_millis(300));
  let start = Instant::now();
  for number in 0..50 {
    host.send(0, &ToInside::Heartbeat(number));
    host.until(|host| host.heartbeats.len() > number as usize);
  }
  assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
  let start = Instant::now();
  let mut next = bridged(&container, 0xB1, 2);
  assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
  assert_eq!(next.run(&["echo", "in"]).text(), "in\n");
  for op in floods {
    next.operations.entry(op).or_default();
    assert_eq!(next.finish(op).text(), "flood 1 1\n");
  }
}

#[test]
fn what_is_no_stream_is_refused_and_nothing_of_it_stays() {
  let profile = Profile { attack: Some(attack()), ..Profile::default() };
  let (container, mut host) = resident(&profile);
  let before = descriptors(&mut host);
  for kind in [
    "nothing", "one", "three", "many", "swapped", "files", "devices", "sockets", "handles", "long", "empty",
    "garbage",
  ] {
    let count = if kind == "many" { 20 } else { 200 };
    let said = container.exec_text(&[ATTACK, "offer", kind, &count.to_string()]);
    assert_eq!(said, format!("{kind} {count}\n"));
  }
  // Nobody says hello: closed after the deadline; meanwhile two of them fill the room, and a third waits.
  let start = Instant::now();
  let mute: Vec<_> = (0..2).map(|_| container.exec(&[ATTACK, "offer", "mute", "1"])).collect();
  std::thread::sleep(Duration::from_millis(500));
  let mut next = bridged(&container, 0xB1, 2);
  let took = start.elapsed();
  assert!((Duration::from_secs(3)..Duration::from_secs(15)).contains(&took), "{took:?}");
  for mut stdio in mute {
    let mut room = [0; 100];
    let count = stdio.read(&mut room, HANG).unwrap();
    assert_eq!(room[..count], *b"mute 1\n");
  }
  assert_eq!(descriptors(&mut next), before);
}
