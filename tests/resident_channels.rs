//! Connections to the proxy from a process 1 that is not our supervisor: what breaks the rules ends the link with a typed
//! error, and costs no more than the protocol allows.

mod support;

use std::time::Duration;

use sandbox_docker::error::ErrorCode;
use sandbox_docker::sandbox::connections::Connections;
use sandbox_docker::supervisor::wire::{
  CHANNEL_WINDOW, Capability, Close, Connect, Credit, Data, Failed, Failure, Kind, MAX_CHANNELS, Reply,
  Stream, ToHost, Welcome, channel_number,
};
use support::hostile::{Peer, engine, process, sandbox, welcome};
use support::must_end;
use support::scripted_engine::Gate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PORT: u16 = 3128;
const ONE: u64 = channel_number(1);
const OPEN: ToHost<'static> = ToHost::Connect(Connect { window: CHANNEL_WINDOW });

fn able() -> Welcome {
  Welcome { capabilities: Capability::Channels as u64, ..welcome() }
}

fn piece(offset: u64, bytes: &[u8]) -> ToHost<'_> {
  ToHost::Data(Data { stream: Stream::Output, offset, bytes })
}

/// A host that listens, and a process 1 that then says these frames. The connections that came, and what became of the
/// sandbox.
macro_rules! told {
  ($frames:expr) => {{
    let (ended, frames) = (Gate::new(), Vec::from_iter($frames));
    let talk = process(&ended, move |mut peer: Peer| {
      let frames = frames.clone();
      async move {
        peer.say(0, &ToHost::Welcome(able())).await;
        let (op, kind) = peer.request().await.unwrap();
        assert_eq!(kind, Kind::Listen);
        peer.say(op, &ToHost::Done(Reply::Listening)).await;
        for (number, message) in frames {
          peer.say(number, &message).await;
        }
        peer.idle().await;
      }
    });
    let engine = engine(&ended, talk);
    let sandbox = sandbox(&engine).await.unwrap();
    (must_end(sandbox.listen(PORT)).await.unwrap(), sandbox, engine)
  }};
}

/// The link ends.
async fn over(mut connections: Box<dyn Connections>) {
  while must_end(connections.next()).await.is_some() {}
}

#[tokio::test]
async fn an_honest_channel_works() {
  let frames =
    [(ONE, OPEN), (ONE, piece(0, b"ab")), (ONE, piece(2, b"c")), (ONE, ToHost::End(Stream::Output))];
  let (mut connections, _sandbox, _engine) = told!(frames);
  let mut connection = must_end(connections.next()).await.unwrap();
  let mut text = String::new();
  must_end(connection.read_to_string(&mut text)).await.unwrap();
  assert_eq!(text, "abc");
  must_end(connection.write_all(b"answer")).await.unwrap();
  must_end(connection.shutdown()).await.unwrap();
  connection.finish();
}

#[tokio::test]
async fn what_breaks_the_rules_ends_the_link() {
  let much = vec![0; CHANNEL_WINDOW as usize];
  let cases: Vec<(&str, Vec<(u64, ToHost<'static>)>)> = vec![
    ("a number that is no channel's", vec![(7, OPEN)]),
    ("a channel that was never opened", vec![(ONE, piece(0, b"x"))]),
    ("a number that comes twice", vec![(ONE, OPEN), (ONE, OPEN)]),
    ("a number that falls", vec![(channel_number(5), OPEN), (channel_number(4), OPEN)]),
    ("a piece that is missing", vec![(ONE, OPEN), (ONE, piece(1, b"x"))]),
    ("a piece after the end", vec![(ONE, OPEN), (ONE, ToHost::End(Stream::Output)), (ONE, piece(0, b"x"))]),
    (
      "an end that comes twice",
      vec![(ONE, OPEN), (ONE, ToHost::End(Stream::Output)), (ONE, ToHost::End(Stream::Output))],
    ),
    ("the end of what the host sends", vec![(ONE, OPEN), (ONE, ToHost::End(Stream::Input))]),
    (
      "credit for what it sends itself",
      vec![(ONE, OPEN), (ONE, ToHost::Credit(Credit { stream: Stream::Output, limit: 9 }))],
    ),
    (
      "a last word that comes twice",
      vec![(ONE, OPEN), (ONE, ToHost::Close(Close::Ended)), (ONE, ToHost::Close(Close::Ended))],
    ),
    ("the last word of an operation", vec![(ONE, OPEN), (ONE, ToHost::Done(Reply::Listening))]),
    ("a last word on no channel", vec![(0, ToHost::Close(Close::Reset))]),
    (
      "more than was granted",
      vec![(ONE, OPEN), (ONE, piece(0, much.leak())), (ONE, piece(u64::from(CHANNEL_WINDOW), b"x"))],
    ),
  ];
  for (what, frames) in cases {
    let (connections, sandbox, _engine) = told!(frames);
    must_end(over(connections)).await;
    let error = must_end(sandbox.listen(PORT)).await.err().unwrap();
    assert_eq!(error.code(), ErrorCode::ContainerLost, "{what}: {error}");
  }
}

#[tokio::test]
async fn more_channels_than_there_may_be_end_the_link() {
  let frames = (1..=MAX_CHANNELS as u64 + 1).map(|count| (channel_number(count), OPEN));
  let (connections, _sandbox, _engine) = told!(frames);
  must_end(over(connections)).await;
}

#[tokio::test]
async fn nobody_opens_a_channel_who_was_not_asked() {
  let ended = Gate::new();
  let talk = process(&ended, |mut peer: Peer| async move {
    peer.say(0, &ToHost::Welcome(able())).await;
    peer.say(ONE, &OPEN).await;
    peer.idle().await;
  });
  let engine = engine(&ended, talk);
  let sandbox = sandbox(&engine).await.unwrap();
  let error = must_end(sandbox.listen(PORT)).await.err().unwrap();
  assert_eq!(error.code(), ErrorCode::ContainerLost, "{error}");
}

#[tokio::test]
async fn one_that_cannot_or_does_not_listen_is_told_apart() {
  for (greeting, reply, code) in [
    (welcome(), Reply::Listening, ErrorCode::Unsupported),
    (able(), Reply::Failed(Failed { failure: Failure::System, errno: 98 }), ErrorCode::Unsupported),
    (able(), Reply::Written(sandbox_docker::supervisor::wire::Written { size: 1 }), ErrorCode::ContainerLost),
  ] {
    let ended = Gate::new();
    let talk = process(&ended, move |mut peer: Peer| {
      let greeting = greeting.clone();
      async move {
        peer.say(0, &ToHost::Welcome(greeting)).await;
        if let Some((op, _)) = peer.request().await {
          peer.say(op, &ToHost::Done(reply)).await;
        }
        peer.idle().await;
      }
    });
    let engine = engine(&ended, talk);
    let sandbox = sandbox(&engine).await.unwrap();
    let error = must_end(sandbox.listen(PORT)).await.err().unwrap();
    assert_eq!(error.code(), code, "{error}");
  }
}

// Each is served and let go of before the next: that there are many after each other costs nothing that stays.
#[tokio::test]
async fn channels_without_end_are_no_more_than_those_that_are_open() {
  let frames = (1..=5000u64).flat_map(|count| {
    let number = channel_number(count);
    [(number, OPEN), (number, piece(0, b"x")), (number, ToHost::Close(Close::Reset))]
  });
  let (mut connections, _sandbox, _engine) = told!(frames);
  for _ in 0..100 {
    let mut connection = must_end(connections.next()).await.unwrap();
    let mut room = [0; 8];
    assert_eq!(must_end(connection.read(&mut room)).await.unwrap(), 1);
    assert!(must_end(connection.read(&mut room)).await.is_err(), "a reset is no end");
  }
  tokio::time::sleep(Duration::ZERO).await;
}
