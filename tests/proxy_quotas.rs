//! Each quota of the proxy at its limit and one past it.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/proxy.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use sandbox_docker::limits::MAX_PROXY_REFUSED;
use sandbox_docker::proxy::{OpenConnections, Quotas, RunCounts, Served, Session};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

/// A world with a server at port 2222 that sends back what it gets.
async fn echoing() -> Arc<World> {
  let world = World::new();
  world.public(2222, echo().await);
  world
}

/// The reply to a `CONNECT good.com:2222` that is refused.
async fn refused(session: &Session) -> String {
  let (reply, served) = client(session).await.ask(connect("good.com:2222")).await;
  assert_eq!(served, Served::Ended);
  reply
}

async fn tunnel(session: &Session) -> Client {
  let mut client = client(session).await;
  client.connect("good.com:2222").await;
  client
}

/// Ends a tunnel and waits until the proxy has forgotten it.
async fn end(client: Client) {
  drop(client.stream);
  client.served.await.unwrap();
}

fn last_reason(world: &World) -> Option<String> {
  world.closed().2
}

#[tokio::test]
async fn connections_of_a_run() {
  must_end(async {
    let session = echoing().await.session(Quotas { max_connections: 2, ..Quotas::default() });
    let one = tunnel(&session).await;
    let two = tunnel(&session).await;
    let reply = refused(&session).await;
    assert!(reply.starts_with("HTTP/1.1 429 Too Many Connections\r\n"), "{reply}");
    assert!(reply.ends_with(
      "2 connections of this run are open (maxConnections). Close one, or wait, then try again.\n"
    ));
    end(one).await;
    end(tunnel(&session).await).await;
    end(two).await;
  })
  .await;
}

#[tokio::test]
async fn those_without_a_place_are_reset_where_too_many_wait_to_be_heard_out() {
  must_end(async {
    let session = echoing().await.session(Quotas { max_connections: 1, ..Quotas::default() });
    let only = tunnel(&session).await;
    // Each has its reply, and keeps its connection open.
    let mut heard = Vec::new();
    for _ in 0..MAX_PROXY_REFUSED {
      let mut client = client(&session).await;
      assert!(client.rest().await.starts_with(b"HTTP/1.1 429 "));
      heard.push(client);
    }
    let mut beyond = client(&session).await;
    assert_eq!((beyond.rest().await, beyond.served.await.unwrap()), (Vec::new(), Served::Cut));
    // Who lets go makes room for the next.
    end(heard.pop().unwrap()).await;
    assert!(refused(&session).await.starts_with("HTTP/1.1 429 "));
    end(only).await;
  })
  .await;
}

#[tokio::test]
async fn connections_of_all_runs() {
  must_end(async {
    let (world, open) = (echoing().await, OpenConnections::new());
    let quotas = Quotas { max_total_connections: 2, ..Quotas::default() };
    // Two environments that count together.
    let proxies = [(), ()].map(|()| world.proxy_counting(good_policy(), quotas.clone(), open.clone()));
    let sessions = [0, 1].map(|n: usize| proxies[n].run_session("run", RunCounts::default()));
    let one = tunnel(&sessions[0]).await;
    let two = tunnel(&sessions[1]).await;
    assert_eq!(open.count(), 2);
    for session in &sessions {
      let reply = refused(session).await;
      assert!(reply.contains("2 connections of all runs are open (maxTotalConnections)."), "{reply}");
    }
    end(one).await;
    end(tunnel(&sessions[1]).await).await;
    end(two).await;
    assert_eq!(open.count(), 0);
  })
  .await;
}

#[tokio::test]
async fn look_ups_in_flight() {
  must_end(async {
    let world = echoing().await;
    for name in ["a.good.com", "b.good.com"] {
      world.answers(name, vec![Answer::Silence]);
    }
    let session = world.session(Quotas { max_in_flight_dns: 2, ..Quotas::default() });
    let mut held = Vec::new();
    for name in ["a.good.com", "b.good.com"] {
      let mut client = client(&session).await;
      client.send(connect(&format!("{name}:2222"))).await;
      held.push(client);
    }
    while world.asked.lock().unwrap().len() < 2 {
      tokio::task::yield_now().await;
    }
    let reply = refused(&session).await;
    assert!(reply.starts_with("HTTP/1.1 429 Too Many Name Lookups\r\n"), "{reply}");
    assert!(reply.contains("2 name look-ups of this run are in flight (maxInFlightDns)."), "{reply}");
    // Another run has look-ups of its own.
    end(tunnel(&world.session(Quotas::default())).await).await;
  })
  .await;
}

#[tokio::test]
async fn requests_of_a_session_and_of_a_run_over_its_resumes() {
  must_end(async {
    let world = echoing().await;
    let quotas = Quotas { max_requests: 2, max_network_requests: 3, ..Quotas::default() };
    let proxy = world.proxy(good_policy(), quotas);
    let session = proxy.run_session("run-1", RunCounts::default());
    end(tunnel(&session).await).await;
    // A refused request counts, a malformed one does not.
    client(&session).await.ask(connect("evil.com:443")).await;
    client(&session).await.ask("nonsense\r\n\r\n").await;
    let reply = refused(&session).await;
    assert!(reply.starts_with("HTTP/1.1 429 Request Quota Used Up\r\n"), "{reply}");
    assert!(reply.contains("This session has made its 2 requests (maxRequests)."), "{reply}");
    let used = session.close().await;
    assert_eq!(used, RunCounts { requests: 2, bytes: 0 });

    let resumed = proxy.run_session("run-1", used);
    end(tunnel(&resumed).await).await;
    let reply = refused(&resumed).await;
    assert!(reply.contains("This run has made its 3 requests (maxNetworkRequests)."), "{reply}");
    assert_eq!(resumed.close().await.requests, 3);
  })
  .await;
}

#[tokio::test]
async fn bytes_of_a_head() {
  must_end(async {
    let session = echoing().await.session(Quotas { max_head_bytes: 100, ..Quotas::default() });
    let head = |bytes: usize| {
      let rest = bytes - connect("good.com:2222").len() - "X: \r\n".len();
      connect("good.com:2222").replace("\r\n\r\n", &format!("\r\nX: {}\r\n\r\n", "a".repeat(rest)))
    };
    let mut fits = client(&session).await;
    fits.send(head(100)).await;
    fits.exactly(ESTABLISHED.len()).await;
    end(fits).await;
    for head in [head(101), "a".repeat(100), "a".repeat(100_000)] {
      let (reply, _) = client(&session).await.ask(head).await;
      assert!(reply.starts_with("HTTP/1.1 431 Request Head Too Large\r\n"), "{reply}");
      assert!(reply.contains("The request's head is over 100 bytes (maxHeadBytes)."), "{reply}");
    }
  })
  .await;
}

/// A connection in memory, so that a paused clock can run ahead.
fn in_memory(session: &Session) -> (DuplexStream, tokio::task::JoinHandle<Served>) {
  let (ours, theirs) = tokio::io::duplex(64 * 1024);
  (ours, tokio::spawn(session.serve(theirs)))
}

#[tokio::test(start_paused = true)]
async fn time_of_a_head_runs_from_accept_however_it_drips() {
  let session = World::new().session(Quotas { head_timeout: Duration::from_secs(3), ..Quotas::default() });
  let begun = Instant::now();
  let (mut ours, served) = in_memory(&session);
  let reply = async {
    for byte in connect("good.com:443").into_bytes() {
      if ours.write_all(&[byte]).await.is_err() || served.is_finished() {
        break;
      }
      tokio::time::sleep(Duration::from_millis(200)).await;
      if begun.elapsed() > Duration::from_secs(3) {
        break;
      }
    }
    let mut reply = Vec::new();
    ours.read_to_end(&mut reply).await.unwrap();
    String::from_utf8(reply).unwrap()
  };
  let reply = reply.await;
  assert!(reply.starts_with("HTTP/1.1 408 Request Head Timeout\r\n"), "{reply}");
  assert!(reply.contains("not complete within 3000 ms (headTimeoutMs)."), "{reply}");

  // From the call of `serve`, not from the first time that somebody looks.
  let (_ours, theirs) = tokio::io::duplex(1024);
  let late = session.serve(theirs);
  tokio::time::sleep(Duration::from_secs(4)).await;
  let waited = Instant::now();
  late.await;
  // Only the time for the client to end its side.
  assert_eq!(waited.elapsed(), Duration::from_secs(1));
}

#[tokio::test]
async fn bytes_up_and_down() {
  must_end(async {
    let world = echoing().await;
    for (quotas, name) in [
      (Quotas { max_bytes_up: 10, ..Quotas::default() }, "has sent its 10 bytes (maxBytesUp)"),
      (Quotas { max_bytes_down: 10, ..Quotas::default() }, "has received its 10 bytes (maxBytesDown)"),
    ] {
      let session = world.session(quotas);
      let mut fits = tunnel(&session).await;
      fits.send("0123456789").await;
      assert_eq!(fits.exactly(10).await, b"0123456789");
      fits.stream.shutdown().await.unwrap();
      assert_eq!((fits.rest().await, fits.served.await.unwrap()), (vec![], Served::Ended));
      assert_eq!(last_reason(&world), None);

      let mut more = tunnel(&session).await;
      more.send("0123456789").await;
      assert_eq!(more.exactly(10).await, b"0123456789");
      more.send("x").await;
      assert_eq!((more.rest().await, more.served.await.unwrap()), (vec![], Served::Cut));
      assert!(last_reason(&world).unwrap().contains(name), "{:?}", last_reason(&world));
    }
  })
  .await;
}

#[tokio::test]
async fn bytes_of_an_upload_are_refused_with_a_reply() {
  must_end(async {
    let world = World::new();
    let (address, mut told) = sink().await;
    world.public(80, address);
    let head = "POST / HTTP/1.1\r\nHost: good.com\r\nContent-Length: 9\r\nConnection: close\r\n\r\n".len();
    let session = world.session(Quotas { max_bytes_up: head as u64 + 4, ..Quotas::default() });
    let request = "POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\nContent-Length: 9\r\n\r\nlong body";
    let (reply, _) = client(&session).await.ask(request).await;
    assert!(reply.starts_with("HTTP/1.1 429 Byte Quota Used Up\r\n"), "{reply}");
    let (got, whole) = told.recv().await.unwrap();
    assert!(got.len() <= head + 4 && !whole, "{got:?}");
    assert_eq!(session.counts().bytes, head as u64 + 4);
  })
  .await;
}

#[tokio::test]
async fn bytes_of_a_run_over_its_resumes() {
  must_end(async {
    let world = echoing().await;
    let proxy = world.proxy(good_policy(), Quotas { max_network_bytes: 20, ..Quotas::default() });
    let session = proxy.run_session("run-1", RunCounts::default());
    let mut one = tunnel(&session).await;
    one.send("12345").await;
    assert_eq!(one.exactly(5).await, b"12345");
    let used = session.close().await;
    assert_eq!(used, RunCounts { requests: 1, bytes: 10 });
    assert_eq!((one.rest().await, one.served.await.unwrap()), (vec![], Served::Cut));

    let resumed = proxy.run_session("run-1", used);
    let (mut two, mut three) = (tunnel(&resumed).await, tunnel(&resumed).await);
    two.send("12345").await;
    assert_eq!(two.exactly(5).await, b"12345");
    // Not a byte is left, for whichever tunnel.
    three.send("x").await;
    assert_eq!((three.rest().await, three.served.await.unwrap()), (vec![], Served::Cut));
    assert!(last_reason(&world).unwrap().contains("This run has moved its 20 bytes (maxNetworkBytes)."));
    let reply = refused(&resumed).await;
    assert!(reply.starts_with("HTTP/1.1 429 Byte Quota Used Up\r\n"), "{reply}");
    assert_eq!(resumed.close().await, RunCounts { requests: 3, bytes: 20 });
    drop(two);
  })
  .await;
}

#[tokio::test]
async fn idle_time_and_lifetime() {
  must_end(async {
    let world = echoing().await;
    let session = world.session(Quotas { idle_timeout: Duration::from_millis(300), ..Quotas::default() });
    let mut idle = tunnel(&session).await;
    let begun = Instant::now();
    assert_eq!((idle.rest().await, idle.served.await.unwrap()), (vec![], Served::Cut));
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
    assert!(last_reason(&world).unwrap().contains("Nothing moved for 300 ms (idleTimeoutMs)."));

    let lifetime = Duration::from_millis(600);
    let quotas =
      Quotas { tunnel_lifetime: lifetime, idle_timeout: Duration::from_millis(300), ..Quotas::default() };
    let session = world.session(quotas);
    let begun = Instant::now();
    let mut busy = tunnel(&session).await;
    // Never idle, and ended all the same.
    while busy.stream.write_all(b"x").await.is_ok() {
      let mut byte = [0];
      if busy.stream.read_exact(&mut byte).await.is_err() {
        break;
      }
    }
    assert!(begun.elapsed() >= lifetime, "{:?}", begun.elapsed());
    assert_eq!(busy.served.await.unwrap(), Served::Cut);
    assert!(last_reason(&world).unwrap().contains("The connection was open for 600 ms (tunnelLifetimeMs)."));
  })
  .await;
}

#[tokio::test]
async fn an_exchange_that_waits_too_long_is_told_so() {
  must_end(async {
    let world = World::new();
    let (address, _told) = sink().await;
    world.public(80, address);
    let request = "GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n";
    let (idle, lifetime) = (Duration::from_millis(200), Duration::from_millis(400));
    for (quotas, phrase) in [
      (Quotas { idle_timeout: idle, ..Quotas::default() }, "HTTP/1.1 504 Idle Timeout\r\n"),
      (
        Quotas { tunnel_lifetime: lifetime, ..Quotas::default() },
        "HTTP/1.1 504 Connection Lifetime Over\r\n",
      ),
    ] {
      let (reply, served) = client(&world.session(quotas)).await.ask(request).await;
      assert!(reply.starts_with(phrase), "{reply}");
      assert_eq!(served, Served::Ended);
    }
  })
  .await;
}

#[tokio::test(start_paused = true)]
async fn lifetime_bounds_what_comes_before_the_tunnel_too() {
  let world = World::new();
  world.answers("good.com", vec![Answer::Silence]);
  let session = world.session(Quotas { tunnel_lifetime: Duration::from_secs(2), ..Quotas::default() });
  let (mut ours, served) = in_memory(&session);
  let begun = Instant::now();
  ours.write_all(connect("good.com:443").as_bytes()).await.unwrap();
  let mut line = [0; 38];
  ours.read_exact(&mut line).await.unwrap();
  assert_eq!((&line, begun.elapsed().as_secs()), (b"HTTP/1.1 504 Connection Lifetime Over\r", 2));
  drop(ours);
  served.await.unwrap();
}

#[tokio::test]
async fn a_closed_session_serves_nobody() {
  must_end(async {
    let world = echoing().await;
    let session = world.session(Quotas::default());
    let mut open = tunnel(&session).await;
    session.close().await;
    let why = "The session was closed, or its carrier dropped the connection.";
    assert_eq!(last_reason(&world).as_deref(), Some(why));
    assert_eq!((open.rest().await, open.served.await.unwrap()), (vec![], Served::Cut));
    let (reply, served) = client(&session).await.ask(connect("good.com:2222")).await;
    assert_eq!((reply.as_str(), served), ("", Served::Cut));
    assert_eq!(session.close().await, RunCounts { requests: 1, bytes: 0 });
  })
  .await;
}

#[tokio::test]
async fn a_thousand_slow_clients_hold_nobody_up() {
  must_end(async {
    let quotas = Quotas { max_connections: 1_001, max_total_connections: 1_001, ..Quotas::default() };
    let session = echoing().await.session(Quotas { head_timeout: Duration::from_secs(30), ..quotas });
    let mut slow = Vec::new();
    for _ in 0..1_000 {
      let mut client = client(&session).await;
      client.send("C").await;
      slow.push(client);
    }
    let begun = Instant::now();
    let mut last = tunnel(&session).await;
    last.send("hello").await;
    assert_eq!(last.exactly(5).await, b"hello");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // All of them are still there and get on.
    for client in &mut slow {
      client.send("O").await;
      assert!(!client.served.is_finished());
    }
    let reply = refused(&session).await;
    assert!(reply.contains("1001 connections of this run are open"), "{reply}");
    session.close().await;
  })
  .await;
}

#[tokio::test]
async fn slow_clients_give_their_places_up() {
  must_end(async {
    let quotas = Quotas { max_connections: 3, head_timeout: Duration::from_millis(200), ..Quotas::default() };
    let session = echoing().await.session(quotas);
    let mut slow = Vec::new();
    for _ in 0..3 {
      let mut client = client(&session).await;
      client.send("CONNECT").await;
      slow.push(client);
    }
    assert!(refused(&session).await.starts_with("HTTP/1.1 429 Too Many Connections\r\n"));
    for mut client in slow {
      assert!(client.rest().await.starts_with(b"HTTP/1.1 408 Request Head Timeout\r\n"));
      end(client).await;
    }
    end(tunnel(&session).await).await;
  })
  .await;
}
