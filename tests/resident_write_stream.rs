//! A file that is written piece by piece: its contents may take as long as they like, process 1 may not.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::ByteStream;
use sandbox_docker::error::ErrorCode;
use sandbox_docker::limits::HEARTBEAT_INTERVAL;
use sandbox_docker::sandbox::output::output;
use sandbox_docker::sandbox::resident::ResidentSandbox;
use sandbox_docker::sandbox::{Command, Sandbox};
use sandbox_docker::supervisor::wire::{
  Credit, INITIAL_WINDOW, Kind, MAX_DATA, Reply, Stream, TarDone, ToHost, Written,
};
use sandbox_docker::workspace::path::WorkspacePath;
use support::answers::{Answer, command, loses, outcome, with};
use support::hostile::Peer;
use tokio::time::{Instant, sleep, timeout};

/// More than may be sent before more is granted.
const PIECES: u64 = 200;
const PIECE: &[u8] = &[b'x'; 1024];
/// Longer than process 1 may take (`FILE_OPERATION_TIMEOUT`, 30 s).
const LONG: Duration = Duration::from_secs(45);

/// The contents; the last piece comes after `wait`.
fn contents(pieces: u64, wait: Duration) -> ByteStream {
  stream::iter(0..pieces)
    .then(move |number| async move {
      if number + 1 == pieces {
        sleep(wait).await;
      }
      Ok(Bytes::from_static(PIECE))
    })
    .boxed()
}

async fn write(sandbox: &ResidentSandbox, wait: Duration) -> String {
  let path = WorkspacePath::parse("f").unwrap();
  let cancel = Cancel::new();
  let written = sandbox.write_stream(&path, contents(PIECES, wait), 0o644, &cancel);
  outcome(written, |size| format!("{size} bytes")).await
}

#[tokio::test(start_paused = true)]
async fn a_process_1_that_takes_nothing_is_not_waited_for_for_ever() {
  let takes_nothing: Answer = act!(|peer, _op| { peer.idle().await });
  let begun = Instant::now();
  loses("takes nothing", takes_nothing, async |sandbox| write(sandbox, Duration::ZERO).await).await;
  assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn nor_is_one_that_takes_all_and_never_says_what_came_of_it() {
  let says_nothing: Answer = act!(|peer, op| {
    peer.say(op, &ToHost::Credit(Credit { stream: Stream::Input, limit: u64::MAX })).await;
    peer.idle().await;
  });
  loses("says nothing", says_nothing, async |sandbox| write(sandbox, Duration::ZERO).await).await;
}

/// Says that all is there after as many pieces as may be sent before more is granted.
async fn early(peer: &mut Peer, op: u64, piece: usize, reply: Reply) {
  for _ in 0..INITIAL_WINDOW as usize / piece {
    peer.until(|kind| kind == Kind::Data).await;
  }
  peer.say(op, &ToHost::Done(reply)).await;
  peer.idle().await;
}

#[tokio::test(start_paused = true)]
async fn half_of_something_is_never_taken_for_the_whole() {
  let streamed: Answer = act!(|peer, op| {
    early(peer, op, PIECE.len(), Reply::Written(Written { size: INITIAL_WINDOW })).await;
  });
  loses("half a stream", streamed, async |sandbox| write(sandbox, Duration::ZERO).await).await;
  let written: Answer = act!(|peer, op| {
    let size = PIECES * PIECE.len() as u64;
    early(peer, op, MAX_DATA, Reply::Written(Written { size })).await;
  });
  loses("half a file", written, async |sandbox| {
    let contents = PIECE.repeat(usize::try_from(PIECES).unwrap());
    let path = WorkspacePath::parse("f").unwrap();
    outcome(sandbox.write_file(&path, contents.into(), 0o644, &Cancel::new()), |()| "written".to_owned())
      .await
  })
  .await;
  let filled: Answer = act!(|peer, op| {
    let done = TarDone { bytes: INITIAL_WINDOW, entries: 1, skipped: 0 };
    early(peer, op, PIECE.len(), Reply::Tar(done)).await;
  });
  loses("half a tar", filled, async |sandbox| {
    let never = Cancel::new();
    outcome(sandbox.import(contents(PIECES, Duration::ZERO), &never), |()| "filled".to_owned()).await
  })
  .await;
}

#[tokio::test(start_paused = true)]
async fn the_contents_may_take_longer() {
  let honest: Answer = act!(|peer, op| {
    peer.say(op, &ToHost::Credit(Credit { stream: Stream::Input, limit: u64::MAX })).await;
    peer.until(|kind| kind == Kind::End).await;
    let size = PIECES * PIECE.len() as u64;
    peer.say(op, &ToHost::Done(Reply::Written(Written { size }))).await;
  });
  let (written, _) = with(honest, async |sandbox| write(sandbox, LONG).await).await;
  assert_eq!(written, "204800 bytes");
}

#[tokio::test(start_paused = true)]
async fn a_process_1_that_takes_a_little_at_a_time_goes_on() {
  let slow: Answer = act!(|peer, op| {
    for limit in [150, 190, 500] {
      // It lives on meanwhile.
      timeout(Duration::from_secs(15), peer.until(|_| false)).await.unwrap_err();
      peer.say(op, &ToHost::Credit(Credit { stream: Stream::Input, limit: limit * 1024 })).await;
    }
    peer.until(|kind| kind == Kind::End).await;
    let size = PIECES * PIECE.len() as u64;
    peer.say(op, &ToHost::Done(Reply::Written(Written { size }))).await;
  });
  let (written, _) = with(slow, async |sandbox| write(sandbox, Duration::ZERO).await).await;
  assert_eq!(written, "204800 bytes");
}

/// It grants everything, answers every heartbeat that must have been sent, and reads nothing.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_stream_that_nobody_reads_can_be_cancelled() {
  let deaf: Answer = act!(|peer, op| {
    peer.say(op, &ToHost::Credit(Credit { stream: Stream::Input, limit: u64::MAX })).await;
    for number in 1.. {
      sleep(HEARTBEAT_INTERVAL).await;
      peer.say(0, &ToHost::Heartbeat(number)).await;
    }
  });
  let (waited, _) = with(deaf, async |sandbox| {
    let path = WorkspacePath::parse("f").unwrap();
    let cancel = Cancel::new();
    // More than waits for the stream.
    let writing = sandbox.write_stream(&path, contents(2048, Duration::ZERO), 0o644, &cancel);
    let asking = async {
      sleep(Duration::from_secs(1)).await;
      let begun = Instant::now();
      let (writer, _reader) = output();
      let unlimited = Command { timeout: None, ..command() };
      let asked = async { sandbox.stream(unlimited, &writer, &cancel).await.unwrap_err().code() };
      let cancelling = async {
        sleep(Duration::from_secs(3)).await;
        cancel.cancel();
      };
      let (code, ()) = tokio::join!(asked, cancelling);
      (code, begun.elapsed().as_secs())
    };
    let (asked, written) = tokio::join!(asking, writing);
    (asked, written.unwrap_err().code())
  })
  .await;
  assert_eq!(waited, ((ErrorCode::Cancelled, 3), ErrorCode::ContainerLost));
}
