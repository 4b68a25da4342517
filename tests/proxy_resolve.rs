//! From a name to a connection: which answers are accepted, which address is used, and what happens when none answers.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/proxy.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use sandbox_docker::proxy::{Host, Policy, Quotas, Resolver, Served, SystemResolver};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

fn addresses(texts: &[&'static str]) -> Answer {
  Answer::Addresses(texts.to_vec())
}

/// The reply's first line to a `CONNECT good.com:443` in this world.
async fn status(world: &Arc<World>) -> String {
  let (reply, _) = client(&world.session(Quotas::default())).await.ask(connect("good.com:443")).await;
  reply.lines().next().unwrap_or_default().to_owned()
}

fn world_that_answers(answers: Vec<Answer>) -> Arc<World> {
  let world = World::new();
  world.answers("good.com", answers);
  world
}

const NOT_PUBLIC: &str = "HTTP/1.1 403 Host Address Not Public";
const UNREACHABLE: &str = "HTTP/1.1 502 Host Unreachable";
const UNRESOLVED: &str = "HTTP/1.1 502 Host Not Resolved";

#[tokio::test]
async fn one_bad_address_in_either_answer_refuses_all() {
  must_end(async {
    let many: Vec<_> = (0..199).map(|_| PUBLIC).chain(["192.168.1.1"]).collect();
    for answers in [
      vec![addresses(&[PUBLIC]), addresses(&["127.0.0.1"]), addresses(&[PUBLIC])],
      vec![addresses(&["127.0.0.1"]), addresses(&[PUBLIC])],
      vec![addresses(&[PUBLIC, "10.0.0.5"])],
      vec![addresses(&["10.0.0.5", PUBLIC])],
      vec![addresses(&[PUBLIC, "::1"])],
      vec![addresses(&[PUBLIC]), addresses(&[PUBLIC, "fd00:ec2::254"])],
      vec![addresses(&many)],
      vec![addresses(&["169.254.169.254"])],
      vec![addresses(&["::ffff:169.254.169.254"])],
      vec![addresses(&["64:ff9b::a00:1"])],
      vec![addresses(&["2002:a00:1::1"])],
      vec![addresses(&["fe80::1"])],
      vec![addresses(&["168.63.129.16"])],
      vec![addresses(&["0.0.0.0"])],
    ] {
      let world = world_that_answers(answers);
      assert_eq!(status(&world).await, NOT_PUBLIC, "{:?}", world.asked);
      assert_eq!(world.dialled(), Vec::<String>::new());
    }
  })
  .await;
}

#[tokio::test]
async fn no_address_is_no_host() {
  must_end(async {
    for answers in [
      vec![addresses(&[])],
      vec![Answer::Error],
      vec![addresses(&[PUBLIC]), addresses(&[])],
      vec![addresses(&[PUBLIC]), Answer::Error],
    ] {
      let world = world_that_answers(answers);
      assert_eq!(status(&world).await, UNRESOLVED);
      assert_eq!(world.dialled(), Vec::<String>::new());
    }
  })
  .await;
}

#[tokio::test]
async fn a_name_is_looked_up_twice_and_the_second_answer_is_used() {
  must_end(async {
    let first = addresses(&["1.1.1.1"]);
    let world =
      world_that_answers(vec![first, addresses(&["8.8.8.8", "8.8.4.4"]), addresses(&["127.0.0.1"])]);
    assert_eq!(status(&world).await, UNREACHABLE);
    assert_eq!(*world.asked.lock().unwrap(), ["good.com", "good.com"]);
    assert_eq!(world.dialled(), ["8.8.8.8:443", "8.8.4.4:443"]);
  })
  .await;
}

#[tokio::test]
async fn a_translated_public_address_is_public() {
  must_end(async {
    let world = world_that_answers(vec![addresses(&["64:ff9b::808:808"])]);
    assert_eq!(status(&world).await, UNREACHABLE);
    assert_eq!(world.dialled(), ["[64:ff9b::808:808]:443"]);
  })
  .await;
}

#[tokio::test]
async fn private_addresses_are_used_where_they_are_allowed() {
  must_end(async {
    let world = world_that_answers(vec![addresses(&["127.0.0.1"])]);
    world.door("127.0.0.1:2222", Door::Open(echo().await));
    let policy = Policy::new(&["good.com"], &[2222], true).unwrap();
    let session = world.proxy(policy, Quotas::default()).run_session("run-1", Default::default());
    let mut client = client(&session).await;
    client.connect("good.com:2222").await;
    client.send("hello").await;
    assert_eq!(client.exactly(5).await, b"hello");
  })
  .await;
}

#[tokio::test]
async fn every_address_is_tried_and_the_losers_are_closed() {
  must_end(async {
    let world = world_that_answers(vec![addresses(&["1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4"])]);
    world.door("1.1.1.1:2222", Door::Silent);
    world.door("8.8.8.8:2222", Door::Open(echo().await));
    let begun = Instant::now();
    let mut client = client(&world.session(Quotas::default())).await;
    client.connect("good.com:2222").await;
    // The silent one delays the next by a moment; the refusing one not at all, and the fourth is not needed.
    assert_eq!(world.dialled(), ["1.1.1.1:2222", "1.0.0.1:2222", "8.8.8.8:2222"]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    client.send("hello").await;
    client.stream.shutdown().await.unwrap();
    // One reply, and nothing of an attempt that fails later.
    assert_eq!(client.rest().await, b"hello");
  })
  .await;
}

/// A session asked over a pipe in memory, so that a paused clock can run ahead.
async fn ask_in_memory(
  session: &sandbox_docker::proxy::Session,
  request: &str,
) -> (String, Served, Duration) {
  let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
  let begun = Instant::now();
  let served = tokio::spawn(session.serve(theirs));
  ours.write_all(request.as_bytes()).await.unwrap();
  let mut line = vec![0; 12];
  ours.read_exact(&mut line).await.unwrap();
  let took = begun.elapsed();
  drop(ours);
  (String::from_utf8(line).unwrap(), served.await.unwrap(), took)
}

#[tokio::test(start_paused = true)]
async fn silent_addresses_end_at_the_deadline() {
  let texts: Vec<&'static str> = (1..=200).map(|n| &*format!("8.8.8.{n}").leak()).collect();
  let world = world_that_answers(vec![addresses(&texts)]);
  for text in &texts {
    world.door(&format!("{text}:443"), Door::Silent);
  }
  let (line, _, took) = ask_in_memory(&world.session(Quotas::default()), &connect("good.com:443")).await;
  assert_eq!((line.as_str(), took.as_secs()), ("HTTP/1.1 504", 10));
  assert_eq!(world.dialled().len(), 200);
}

#[tokio::test]
async fn more_addresses_than_can_be_tried_are_refused() {
  must_end(async {
    let texts = |count: u16| -> Vec<&'static str> {
      (0..count).map(|n| &*format!("8.8.{}.{}", n / 256, n % 256).leak()).collect()
    };
    assert_eq!(status(&world_that_answers(vec![addresses(&texts(256))])).await, UNREACHABLE);
    assert_eq!(status(&world_that_answers(vec![addresses(&texts(257))])).await, UNRESOLVED);
  })
  .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_look_up_ends_at_the_deadline_and_keeps_its_place() {
  let world = world_that_answers(vec![Answer::Silence]);
  let session = world.session(Quotas { max_in_flight_dns: 1, ..Quotas::default() });
  let (line, _, took) = ask_in_memory(&session, &connect("good.com:443")).await;
  assert_eq!((line.as_str(), took.as_secs()), ("HTTP/1.1 504", 10));
  // The system's look-up still runs, so there is no room for another.
  let (line, ..) = ask_in_memory(&session, &connect("a.good.com:443")).await;
  assert_eq!(line, "HTTP/1.1 429");
}

#[tokio::test]
async fn the_systems_resolver_is_asked_for_the_absolute_name() {
  must_end(async {
    // Reserved names that no resolver may answer (RFC 6761); without a network the error is another one.
    let host = Host::parse("name.invalid").unwrap();
    assert_eq!(host.absolute(), "name.invalid.");
    assert!(SystemResolver.lookup(&host).await.is_err());
  })
  .await;
}
