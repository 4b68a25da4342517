//! The host's end against real supervisors: the ways in, and what a holder before left in them. The environment is that
//! of `supervisor_inside.rs`.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

#[path = "support/resident.rs"]
mod resident;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::Stdin;
use sandbox_docker::docker::client::Client;
use sandbox_docker::error::ErrorCode;
use sandbox_docker::supervisor::link::{Event, Identity, Link, Previous, Via};
use sandbox_docker::supervisor::wire::*;

use resident::{Container, Host, Profile, TOKEN, resident};

const USER: &str = "65534:65534";

fn client() -> Client {
  let socket = std::env::var("SANDBOX_TEST_SOCKET").unwrap();
  Client::new(Some(socket.into()), None).unwrap()
}

fn identity(fence: u64) -> Identity {
  Identity { token: TOKEN, fence, dead_man: Duration::ZERO }
}

async fn echo(link: &Link, word: &str) -> String {
  output(link, &["echo", word]).await
}

async fn shell(link: &Link, script: &str) -> String {
  output(link, &["sh", "-c", script]).await
}

/// Output of a command.
async fn output(link: &Link, argv: &[&str]) -> String {
  let argv = StringsBuf::of(argv).unwrap();
  let request = ToInside::Exec(Exec {
    window: 1 << 16,
    timeout_ms: 10_000,
    max_stdout: 1 << 16,
    max_stderr: 1 << 16,
    stdin: false,
    cwd: RelativePath::WORKSPACE,
    argv: argv.view(),
    env: Strings::EMPTY,
  });
  let operation = link.request(request).await.unwrap();
  let mut output = Vec::new();
  let take = |event| {
    if let Event::Data(Stream::Output, bytes) = event {
      output.extend_from_slice(&bytes);
    }
    Ok(())
  };
  let reply = operation.run(Stdin::Empty, "The command", &Cancel::new(), take).await.unwrap();
  assert!(matches!(reply, Reply::Command(CommandEnd { how: How::Exited(0), .. })));
  String::from_utf8(output).unwrap()
}

/// A holder that stopped reading and is attached for as long as what this returns.
fn hanging() -> (Container, Host) {
  let (container, mut old) = resident(&Profile::default());
  let op = old.spawn(&["yes"], |exec| exec.window = u32::MAX);
  old.until(|host| host.operations[&op].output.len() > 100);
  std::thread::sleep(Duration::from_secs(1));
  (container, old)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_frame_of_a_dead_host_is_ended_and_the_hello_said_again() {
  let (container, mut dead) = resident(&Profile::default());
  let mut request = Vec::new();
  let argv = StringsBuf::of(["echo", &"x".repeat(100_000)]).unwrap();
  let exec = Exec {
    window: 1,
    timeout_ms: 0,
    max_stdout: 1,
    max_stderr: 1,
    stdin: false,
    cwd: RelativePath::WORKSPACE,
    argv: argv.view(),
    env: Strings::EMPTY,
  };
  ToInside::Exec(exec).encode(&dead.encoder, 9, &mut request).unwrap();
  dead.stdio.write(&request[..200]);
  drop(dead);
  let start = Instant::now();
  let link = Link::open(&client(), &container.id, identity(2), async { Ok(()) }).await.unwrap();
  let took = start.elapsed();
  assert!((Duration::from_millis(500)..Duration::from_secs(8)).contains(&took), "{took:?}");
  assert_eq!((link.via(), link.welcome().operations.len()), (Via::Attach, 0));
  assert_eq!(echo(&link, "heard").await, "heard\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_holder_is_followed_by_attaching_at_once() {
  let (container, dead) = resident(&Profile::default());
  drop(dead);
  let start = Instant::now();
  let link = Link::take_over(&client(), &container.id, USER, identity(2), Previous::Gone).await.unwrap();
  assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
  assert_eq!(link.via(), Via::Attach);
  assert_eq!(echo(&link, "mine").await, "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_holder_is_followed_over_a_bridge() {
  let (container, _old) = hanging();
  let link = Link::take_over(&client(), &container.id, USER, identity(2), Previous::Silent).await.unwrap();
  assert_eq!(link.via(), Via::Bridge);
  assert_eq!(echo(&link, "mine").await, "mine\n");
}

// Its hello over the first way was taken, and the answer could not get out: over the second it is the same one again.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_thought_the_holder_dead_and_was_wrong_comes_over_a_bridge_too() {
  let (container, _old) = hanging();
  let start = Instant::now();
  let link = Link::take_over(&client(), &container.id, USER, identity(2), Previous::Gone).await.unwrap();
  let took = start.elapsed();
  assert!((Duration::from_secs(3)..Duration::from_secs(10)).contains(&took), "{took:?}");
  assert_eq!(link.via(), Via::Bridge);
  assert_eq!(echo(&link, "mine").await, "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_second_process_can_be_made_a_silent_holder_is_followed_by_attaching() {
  let (container, old) = resident(&Profile::default());
  let link = Link::take_over(&client(), &container.id, "65533:65533", identity(2), Previous::Silent).await;
  let link = link.unwrap();
  assert_eq!(link.via(), Via::Attach);
  assert_eq!(echo(&link, "mine").await, "mine\n");
  drop(old);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_a_newer_lease_is_not_taken_over_from() {
  let (container, mut first) = resident(&Profile::default());
  let (client, old, late) = (client(), identity(1), identity(0));
  for previous in [Previous::Gone, Previous::Silent] {
    for identity in [old, late] {
      let refused = Link::take_over(&client, &container.id, USER, identity, previous).await;
      assert_eq!(refused.err().unwrap().code(), ErrorCode::Conflict);
    }
  }
  let wrong = Identity { token: Token([1; 32]), ..identity(9) };
  let refused = Link::bridge(&client, &container.id, USER, wrong).await;
  assert_eq!(refused.err().unwrap().code(), ErrorCode::Conflict);
  let none = Link::take_over(&client, "no-such-container", USER, identity(2), Previous::Gone).await;
  assert_eq!(none.err().unwrap().code(), ErrorCode::NotFound);
  assert_eq!(first.run(&["echo", "undisturbed"]).text(), "undisturbed\n");
}

// What is left of a holder that died must not stay for ever, nor work beside the next one: when that one goes on, the
// commands have ended and half a write is gone, and their numbers are free.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_holder_left_has_ended_when_it_is_dismissed_even_if_nobody_read_its_output() {
  let (container, mut dead) = resident(&Profile::default());
  dead.greedy = false;
  let shouting = dead.spawn(&["yes"], |exec| exec.window = 1000);
  let forking = "for i in $(seq 20); do (setsid sleep 300; echo late >>late) & done; wait";
  let forking = dead.spawn(&["sh", "-c", forking], |_| ());
  let path = RelativePath::new(b"half").unwrap();
  let writing = dead.open(&ToInside::WriteFile(WriteFile { mode: 0o644, size: 10, overwrite: true, path }));
  dead.until(|host| host.operations[&shouting].output.len() == 1000);
  dead.until(|host| host.operations[&forking].started.is_some());
  drop(dead);
  let link = Link::bridge(&client(), &container.id, USER, identity(2)).await.unwrap();
  let left: BTreeSet<_> = link.welcome().operations.iter().map(|left| left.op).collect();
  assert_eq!(left, BTreeSet::from([shouting, forking, writing]));
  container.freeze(true);
  let early = tokio::time::timeout(Duration::from_secs(1), link.dismiss_left()).await;
  assert!(early.is_err(), "process 1 can have said nothing");
  container.freeze(false);
  link.dismiss_left().await.unwrap();
  let next = Link::bridge(&client(), &container.id, USER, identity(3)).await.unwrap();
  assert_eq!(next.welcome().operations, []);
  assert_eq!(shell(&next, "ls -A; cat /proc/[0-9]*/comm | grep -c sleep || :").await, "0\n");
}
