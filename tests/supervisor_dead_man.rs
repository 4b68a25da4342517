//! The timer that ends a container whose holder is dead: nothing but a heartbeat of the current holder feeds it. The
//! environment is that of `supervisor_inside.rs`.
#![cfg(all(feature = "supervisor", target_os = "linux"))]

#[path = "support/resident.rs"]
mod resident;

use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

use resident::{Container, Host, Profile, TOKEN, resident};

/// How long the holder may be silent.
const SILENCE: Duration = Duration::from_secs(1);
/// Between two turns of those who are not silent.
const TURN: Duration = Duration::from_millis(100);
/// What somebody sends for so long would keep alive whatever it feeds.
const TURNS: u32 = 50;
/// How much later than the timer the engine may tell of the end, on a busy machine.
const SLACK: Duration = Duration::from_millis(1_500);

/// A container and its first holder, who may be silent for [`SILENCE`]; and when it had not been heard yet.
fn mortal() -> (Container, Host, Instant) {
  let container = Container::create(&Profile::default());
  let stdio = container.attach();
  container.start();
  let mut host = Host::new(stdio, 0xA1, 1);
  let start = Instant::now();
  host.greet(TOKEN, SILENCE.as_millis() as u32);
  assert_eq!(host.refused, None);
  (container, host, start)
}

/// Process 1 ends in time, although `act` is done again and again all the while.
fn dies(container: &Container, host: &mut Host, start: Instant, mut act: impl FnMut(&mut Host, u32)) {
  for turn in 0..TURNS {
    act(host, turn);
    host.read_for(TURN);
    if host.ended {
      break;
    }
  }
  let took = start.elapsed();
  assert!(host.ended, "it lives after {took:?}; notices {:?}", host.notices);
  assert!((SILENCE..SILENCE + SLACK).contains(&took), "{took:?}");
  assert_eq!(container.wait(), 84);
}

#[test]
fn heartbeats_of_the_holder_keep_it_alive_and_their_end_is_its_end() {
  let (container, mut host, start) = mortal();
  for number in 0..25 {
    host.send(0, &ToInside::Heartbeat(number));
    host.until(|host| host.heartbeats.len() > number as usize);
    host.read_for(TURN);
  }
  assert!(start.elapsed() >= 2 * SILENCE);
  assert_eq!(host.heartbeats, (0..25).collect::<Vec<_>>());
  let last = Instant::now();
  // The last one was heard a turn ago.
  dies(&container, &mut host, last.checked_sub(TURN).unwrap(), |_, _| {});
}

#[test]
fn a_holder_that_is_attached_and_says_nothing_is_dead() {
  let (container, mut host, start) = mortal();
  dies(&container, &mut host, start, |_, _| {});
}

#[test]
fn all_else_that_a_holder_says_is_no_heartbeat() {
  let (container, mut host, start) = mortal();
  let op = host.spawn(&["cat"], |exec| exec.stdin = true);
  host.until(|host| host.operations[&op].started.is_some());
  dies(&container, &mut host, start, |host, turn| {
    let offset = u64::from(turn);
    host.offer(op, &ToInside::Data(Data { stream: Stream::Input, offset, bytes: b"x" }));
    host.offer(op, &ToInside::Credit(Credit { stream: Stream::Output, limit: (1 << 20) + offset }));
    host.offer(op, &ToInside::Signal(18));
    let list = List { window: 1 << 16, depth: 1, limit: 1, path: RelativePath::WORKSPACE };
    host.offer(1_000 + offset, &ToInside::List(list));
    host.offer(1_000 + offset, &ToInside::Ack);
    host.offer(9, &ToInside::Cancel);
    host.offer(0, &ToInside::Close(Close::Reset));
  });
  // They were obeyed: what went in came out again.
  assert!(host.operations[&op].output.len() >= 5, "{:?}", host.operations[&op]);
}

// Both write into the same stream, and what the old one says gets as far as the fence.
#[test]
fn heartbeats_of_a_holder_before_are_none() {
  let (container, mut old) = resident(&Profile::default());
  let mut host = Host::new(container.attach(), 0xB1, 2);
  let start = Instant::now();
  host.greet(TOKEN, SILENCE.as_millis() as u32);
  dies(&container, &mut host, start, |_, turn| {
    old.offer(0, &ToInside::Heartbeat(turn.into()));
  });
  let stale: u64 =
    host.notices.iter().filter(|notice| notice.0 == Notice::Stale).map(|notice| notice.1).sum();
  assert!(stale >= 5, "{:?}", host.notices);
  old.read_for(TURN);
  assert!(old.heartbeats.is_empty());
}

// A hello of the holder itself is a sign of life; those of strangers, refused or not understood, are none.
#[test]
fn neither_hellos_of_strangers_nor_garbage_are_heartbeats() {
  let (container, mut host, start) = mortal();
  let mut stranger = Host::new(container.attach(), 0xC1, 9);
  dies(&container, &mut host, start, |_, _| {
    let token = Token([9; 32]);
    stranger.offer(0, &ToInside::Hello(Hello { token, next_token: token, dead_man_ms: 0 }));
    stranger.offer(0, &ToInside::Heartbeat(1));
    let _ = stranger.stdio.try_write(b"no frame");
  });
  stranger.read_for(TURN);
  assert_eq!(stranger.refused, Some(Refusal::Token));
  let garbage = host.notices.iter().filter(|notice| notice.0 == Notice::Garbage);
  assert!(garbage.map(|notice| notice.1).sum::<u64>() >= 8 * 5, "{:?}", host.notices);
}
