//! A process 1 that never stops, in time and in memory. In a program of its own, since it looks at the memory of all of it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use sandbox_docker::supervisor::wire::{
  Credit, Data, Kind, MAX_DATA, Notice, Reply, Started, Stream, ToHost, Written,
};
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
  join_all(cases.into_iter().chain(about_an_operation()).map(|(what, act)| {
    Box::pin(async move {
      let begun = std::time::Instant::now();
      loses(what, act, exec).await;
      // Its second, fifteen more, two in which the container might have ended by itself, and a busy machine.
      assert!(begun.elapsed() < Duration::from_secs(25), "{what}: {:?}", begun.elapsed());
    })
  }))
  .await;
  assert!(resident_kib() - before < 64 * 1024, "{} KiB", resident_kib() - before);
}

/// Frames about an operation that is under way, more of them than there can be.
fn about_an_operation() -> [(&'static str, Answer); 5] {
  [
    (
      "more credit, again and again",
      act!(|peer, op| {
        let credits = peer.frame(op, &credit(Stream::Input)).repeat(500);
        while peer.output(&credits).await {}
      }),
    ),
    (
      "empty pieces",
      act!(|peer, op| {
        let piece = Data { stream: Stream::Output, offset: 0, bytes: b"" };
        let pieces = peer.frame(op, &ToHost::Data(piece)).repeat(500);
        while peer.output(&pieces).await {}
      }),
    ),
    (
      "replies that nobody asked for, from one who reads nothing",
      act!(|peer, op| {
        let done = ToHost::Done(Reply::Written(Written { size: 1 }));
        let replies = peer.frame(op + 1, &done).repeat(500);
        while peer.output(&replies).await {}
      }),
    ),
    (
      "a second start",
      act!(|peer, op| {
        let started = peer.frame(op, &ToHost::Started(Started::Command { pid: 2 })).repeat(500);
        while peer.output(&started).await {}
      }),
    ),
    (
      "credit for what it writes itself",
      act!(|peer, op| {
        peer.say(op, &credit(Stream::Output)).await;
        peer.idle().await;
      }),
    ),
  ]
}

const fn credit(stream: Stream) -> ToHost<'static> {
  ToHost::Credit(Credit { stream, limit: u64::MAX })
}

/// The memory of this process.
fn resident_kib() -> i64 {
  let status = std::fs::read_to_string("/proc/self/status").unwrap();
  let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
  line.trim().trim_end_matches(" kB").parse().unwrap()
}
