//! A process 1 that never stops, in time and in memory. In a program of its own, since it looks at the memory of all of it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use sandbox_docker::supervisor::wire::{Kind, MAX_DATA, Notice, ToHost};
use support::answers::{Answer, LOST, command_end, exec, loses, with};

#[tokio::test]
async fn a_length_costs_nothing_until_its_bytes_are_there() {
  let before = resident_kib();
  let engines: Answer = act!(|peer, _op| {
    peer.engine(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, b'x']).await;
  });
  let frames: Answer = act!(|peer, _op| {
    let odd = peer.odd_frame(0x20, Some(u32::MAX), b"x");
    peer.output(&odd).await;
  });
  join_all([engines, frames].map(|act| async move {
    let (found, _) = with(act, exec).await;
    assert_eq!(found, LOST);
  }))
  .await;
  assert!(resident_kib() - before < 64 * 1024);
}

/// Silence and noise that end by a deadline of the host's, all at once: the longest takes half a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_ends_is_ended_by_the_host() {
  let before = resident_kib();
  let cases: [(&str, Answer); 8] = [
    (
      "exited and never done",
      act!(|peer, op| {
        peer.say(op, &ToHost::Exited(command_end())).await;
        peer.idle().await;
      }),
    ),
    ("heartbeats answered and nothing else", act!(|peer, _op| { peer.idle().await })),
    (
      "heartbeats answered with a number that was never sent",
      act!(|peer, _op| {
        while peer.until(|kind| kind == Kind::Heartbeat).await.is_some() {
          peer.say(0, &ToHost::Heartbeat(u64::MAX)).await;
        }
      }),
    ),
    ("nothing at all", act!(|_peer, _op| { std::future::pending().await })),
    ("garbage", act!(|peer, _op| { while peer.output(&[0xA5; MAX_DATA]).await {} })),
    ("zero bytes", act!(|peer, _op| { while peer.output(&[0; MAX_DATA]).await {} })),
    (
      "notices",
      act!(|peer, _op| {
        let notices = peer.frame(0, &ToHost::Notice(Notice::Garbage, 1)).repeat(500);
        while peer.output(&notices).await {}
      }),
    ),
    (
      "frames of an unknown kind",
      act!(|peer, _op| {
        let odd = peer.odd_frame(0xEE, None, &[1; 1000]).repeat(50);
        while peer.output(&odd).await {}
      }),
    ),
  ];
  join_all(cases.map(|(what, act)| {
    Box::pin(async move {
      let begun = std::time::Instant::now();
      loses(what, act, exec).await;
      // Its second, ten more, two in which the container might have ended by itself.
      assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {:?}", begun.elapsed());
    })
  }))
  .await;
  assert!(resident_kib() - before < 64 * 1024, "{} KiB", resident_kib() - before);
}

/// The memory of this process.
fn resident_kib() -> i64 {
  let status = std::fs::read_to_string("/proc/self/status").unwrap();
  let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
  line.trim().trim_end_matches(" kB").parse().unwrap()
}
