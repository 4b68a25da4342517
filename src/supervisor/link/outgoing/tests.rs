use futures_util::FutureExt;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::*;
use crate::docker::connection::Stream;

const PIECE: usize = 64 * 1024;

/// What is sent to the other end, which nobody has read from.
fn stream() -> (Outgoing, UnixStream) {
  let (near, far) = UnixStream::pair().unwrap();
  let (_read, write) = Stream::Unix(near).into_split().unwrap();
  (Outgoing::new(write), far)
}

fn piece(out: &mut Vec<u8>) -> Result<(), WireError> {
  out.resize(out.len() + PIECE, 7);
  Ok(())
}

/// Pushes until it is full; how many pieces that were.
fn fill(outgoing: &Outgoing) -> usize {
  let mut count = 0;
  while outgoing.push(piece).unwrap() == Pushed::Taken {
    count += 1;
  }
  count
}

/// Reads all that the socket holds.
async fn drain(far: &UnixStream) {
  far.readable().await.unwrap();
  let mut space = vec![0; PIECE];
  while far.try_read(&mut space).is_ok() {}
}

async fn writable(outgoing: &Outgoing) {
  let write = outgoing.write_half().clone().unwrap();
  write.writable().await.unwrap();
}

/// A small frame that must not wait goes with what it finds room for.
fn push_small(outgoing: &Outgoing) {
  let small = |out: &mut Vec<u8>| {
    out.push(1);
    Ok(())
  };
  outgoing.push_always(Hurry::Now, small).unwrap();
}

/// The writing task has had no turn: it would find nothing to write, and nobody to tell.
#[tokio::test]
async fn whoever_makes_room_tells_those_who_wait_for_it() {
  let (outgoing, far) = stream();
  fill(&outgoing);
  let room = outgoing.room();
  let waker = futures_util::task::noop_waker();
  assert_eq!(outgoing.push_or_wake(1, &waker, piece), Ok(Pushed::Full));
  tokio::pin!(room);
  assert!(room.as_mut().now_or_never().is_none());
  // Each read empties the socket, each small frame fills it again.
  while outgoing.queue().waiting() > HIGH {
    drain(&far).await;
    writable(&outgoing).await;
    push_small(&outgoing);
  }
  assert!(room.now_or_never().is_some());
  assert!(outgoing.queue().wakers.is_empty());
  assert_eq!(outgoing.push(piece), Ok(Pushed::Taken));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_ever() {
  const PIECES: usize = 3_000;
  let (outgoing, mut far) = stream();
  let outgoing = std::sync::Arc::new(outgoing);
  let writing = {
    let outgoing = std::sync::Arc::clone(&outgoing);
    tokio::spawn(async move { outgoing.run().await })
  };
  let reading = tokio::spawn(async move {
    let (mut space, mut large) = (vec![0; 2 * PIECE], 0);
    while large < PIECES * PIECE {
      let count = far.read(&mut space).await.unwrap();
      large += space[..count].iter().filter(|byte| **byte == 7).count();
    }
  });
  let small = {
    let outgoing = std::sync::Arc::clone(&outgoing);
    tokio::spawn(async move {
      loop {
        push_small(&outgoing);
        tokio::task::yield_now().await;
      }
    })
  };
  for _ in 0..PIECES {
    loop {
      let room = outgoing.room();
      if outgoing.push(piece).unwrap() == Pushed::Taken {
        break;
      }
      tokio::time::timeout(Duration::from_secs(10), room).await.expect("it was never told of the room");
    }
  }
  reading.await.unwrap();
  small.abort();
  writing.abort();
}

#[tokio::test(start_paused = true)]
async fn what_can_wait_waits_a_little_and_not_once_something_cannot() {
  let (outgoing, far) = stream();
  let lazy = |out: &mut Vec<u8>| {
    out.push(2);
    Ok(())
  };
  let run = outgoing.run();
  tokio::pin!(run);
  outgoing.push_always(Hurry::None, lazy).unwrap();
  assert!(run.as_mut().now_or_never().is_none());
  assert!(far.try_read(&mut [0; 8]).is_err());
  // More than the socket takes at once: the rest is the task's, which is not to wait for its time.
  fill(&outgoing);
  drain(&far).await;
  let before = outgoing.queue().waiting();
  writable(&outgoing).await;
  // Time stands still meanwhile.
  for _ in 0..1000 {
    assert!(run.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
  }
  assert!(outgoing.queue().waiting() < before);
}
