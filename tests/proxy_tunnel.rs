//! What goes through a `CONNECT` tunnel, and what does not, over loopback sockets.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/proxy.rs"]
mod support;

use sandbox_docker::proxy::{ProxyEvent, Quotas, Served};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn bytes_pass_both_ways_and_are_counted() {
  must_end(async {
    let world = World::new();
    world.public(443, echo().await);
    let session = world.session(Quotas::default());
    let mut client = client(&session).await;
    client.connect("api.good.com:443").await;
    let hello = client_hello("api.good.com");
    client.send(&hello).await;
    assert_eq!(client.exactly(hello.len()).await, hello);
    client.send(b"more").await;
    assert_eq!(client.exactly(4).await, b"more");
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.rest().await, b"");
    assert_eq!(client.served.await.unwrap(), Served::Ended);
    let bytes = hello.len() as u64 + 4;
    let (run, host, rule) = ("run-1".into(), "api.good.com".to_owned(), "*.good.com".to_owned());
    let allowed = ProxyEvent::Allowed { run, host: host.clone(), port: 443, rule: rule.clone() };
    let closed = ProxyEvent::Closed {
      run: "run-1".into(),
      host,
      port: 443,
      rule,
      bytes_up: bytes,
      bytes_down: bytes,
      reason: None,
    };
    assert_eq!(world.events(), [allowed, closed]);
    assert_eq!((session.counts().requests, session.counts().bytes), (1, 2 * bytes));
  })
  .await;
}

#[tokio::test]
async fn bytes_behind_the_head_reach_the_server_once() {
  must_end(async {
    let world = World::new();
    let (address, mut told) = sink().await;
    world.public(443, address);
    let session = world.session(Quotas::default());
    let hello = client_hello("good.com");
    let early = [&[23, 3, 3, 0, 5], b"early".as_slice()].concat();
    let all = [connect("good.com:443").as_bytes(), &hello, &early].concat();
    // In one write, in five, and byte by byte.
    for part in [all.len(), all.len() / 4, 1] {
      let mut client = client(&session).await;
      client.stream.set_nodelay(true).unwrap();
      for bytes in all.chunks(part) {
        client.send(bytes).await;
        tokio::task::yield_now().await;
      }
      client.stream.shutdown().await.unwrap();
      assert_eq!(client.rest().await, ESTABLISHED.as_bytes());
      assert_eq!(told.recv().await.unwrap(), ([hello.as_slice(), &early].concat(), true));
    }
  })
  .await;
}

#[tokio::test]
async fn a_server_that_speaks_first_is_not_held_up() {
  must_end(async {
    let world = World::new();
    let address = server(|mut stream| async move {
      stream.write_all(b"SSH-2.0-server\r\n").await.unwrap();
      let mut bytes = [0; 5];
      stream.read_exact(&mut bytes).await.unwrap();
      stream.write_all(&bytes).await.unwrap();
    })
    .await;
    world.public(2222, address);
    let mut client = client(&world.session(Quotas::default())).await;
    client.connect("good.com:2222").await;
    assert_eq!(client.exactly(16).await, b"SSH-2.0-server\r\n");
    client.send("hello").await;
    assert_eq!(client.rest().await, b"hello");
  })
  .await;
}

#[tokio::test]
async fn either_side_may_end_first() {
  must_end(async {
    let world = World::new();
    // Replies when the client has ended.
    let last_word = server(|mut stream| async move {
      let mut bytes = Vec::new();
      stream.read_to_end(&mut bytes).await.unwrap();
      stream.write_all(&bytes).await.unwrap();
      stream.write_all(b" was all").await.unwrap();
    });
    world.public(2222, last_word.await);
    // Ends at once, then reads on.
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let ends_first = server(move |mut stream| {
      let tell = tell.clone();
      async move {
        stream.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        tell.send(bytes).unwrap();
      }
    });
    world.public(80, ends_first.await);
    let session = world.session(Quotas::default());

    let mut client_ends = client(&session).await;
    client_ends.connect("good.com:2222").await;
    client_ends.send("this").await;
    client_ends.stream.shutdown().await.unwrap();
    assert_eq!(client_ends.rest().await, b"this was all");
    assert_eq!(client_ends.served.await.unwrap(), Served::Ended);

    let mut server_ends = client(&session).await;
    server_ends.connect("good.com:80").await;
    assert_eq!(server_ends.rest().await, b"");
    server_ends.send("still here").await;
    server_ends.stream.shutdown().await.unwrap();
    assert_eq!(told.recv().await.unwrap(), b"still here");
    assert_eq!(server_ends.served.await.unwrap(), Served::Ended);
  })
  .await;
}

/// The bytes that a server got when a client sent `first` on `port`, and what the client got.
async fn refused_first_bytes(port: u16, first: &[u8], part: usize) -> (Vec<u8>, Vec<u8>, Option<String>) {
  let world = World::new();
  let (address, mut told) = sink().await;
  world.public(port, address);
  let mut client = client(&world.session(Quotas::default())).await;
  client.connect(&format!("good.com:{port}")).await;
  client.stream.set_nodelay(true).unwrap();
  for bytes in first.chunks(part) {
    // The proxy may have closed already.
    if client.stream.write_all(bytes).await.is_err() {
      break;
    }
  }
  let reply = client.rest().await;
  drop(client.stream);
  client.served.await.unwrap();
  let (bytes_up, _, reason) = world.closed();
  assert_eq!(bytes_up, 0);
  (told.recv().await.unwrap().0, reply, reason)
}

#[tokio::test]
async fn another_server_name_goes_nowhere() {
  must_end(async {
    let bad = [client_hello("evil.com"), b"secret".to_vec()].concat();
    for (port, part) in [(443, 1), (443, 1000), (2222, 1), (2222, 1000)] {
      let (got, reply, reason) = refused_first_bytes(port, &bad, part).await;
      assert_eq!(got, b"");
      // A fatal alert, so that the client's error names it.
      assert_eq!(reply, [21, 3, 3, 0, 2, 2, 49]);
      let why = "The connection was closed: the TLS server name is not the CONNECT host.";
      assert_eq!(reason.as_deref(), Some(why));
    }
  })
  .await;
}

/// What a server that asks for a second hello gets of one for `name`, and how the connection ended. `at_once`: the client
/// does not wait to be asked.
async fn second_hello(name: &str, retry: bool, at_once: bool) -> (Vec<u8>, Option<String>) {
  // RFC 8446, section 4.1.3.
  let mut random = hex::decode("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c").unwrap();
  if !retry {
    *random.last_mut().unwrap() ^= 1;
  }
  let hello = [&[2, 0, 0, 40, 3, 3], random.as_slice(), &[0, 0x13, 1, 0, 0, 0]].concat();
  let answer = [&[22, 3, 3, 0, 44], hello.as_slice()].concat();
  let (first, second) = (client_hello("good.com"), client_hello(name));
  // As clients do for middleboxes: a change of cipher spec, here in front.
  let behind = [&[20, 3, 3, 0, 1, 1], second.as_slice()].concat();
  let (told, got) = tokio::sync::oneshot::channel();
  let told = std::sync::Mutex::new(Some(told));
  let (length, said) = (first.len(), answer.clone());
  let address = server(move |mut stream| {
    let told = told.lock().unwrap().take().unwrap();
    let said = said.clone();
    async move {
      let mut bytes = vec![0; length];
      stream.read_exact(&mut bytes).await.unwrap();
      stream.write_all(&said).await.unwrap();
      let mut rest = Vec::new();
      stream.read_to_end(&mut rest).await.ok();
      told.send(rest).unwrap();
    }
  })
  .await;
  let world = World::new();
  world.public(443, address);
  let mut client = client(&world.session(Quotas::default())).await;
  client.connect("good.com:443").await;
  if at_once {
    client.send(&[first, behind].concat()).await;
  } else {
    client.send(&first).await;
    assert_eq!(client.exactly(answer.len()).await, answer);
    client.send(&behind).await;
  }
  client.stream.shutdown().await.ok();
  client.rest().await;
  client.served.await.unwrap();
  (got.await.unwrap(), world.closed().2)
}

#[tokio::test]
async fn a_second_hello_counts_like_the_first() {
  must_end(async {
    let change = [20, 3, 3, 0, 1, 1];
    for at_once in [false, true] {
      for (name, retry) in [("good.com", true), ("good.com", false), ("evil.com", false)] {
        // Without having been asked for, it is nothing that a server takes for a hello; in TLS 1.2 other things are there.
        let all = [&change[..], &client_hello(name)].concat();
        assert_eq!(second_hello(name, retry, at_once).await, (all, None), "{name} {retry} {at_once}");
      }
      let (got, reason) = second_hello("evil.com", true, at_once).await;
      assert_eq!(got, change, "{at_once}");
      let why = "The connection was closed: the TLS server name is not the CONNECT host.";
      assert_eq!(reason.as_deref(), Some(why));
    }
  })
  .await;
}

#[tokio::test]
async fn what_is_no_tls_goes_nowhere_on_443() {
  must_end(async {
    for part in [1, 1000] {
      let first = b"GET / HTTP/1.1\r\nHost: good.com\r\n\r\n";
      let (got, reply, reason) = refused_first_bytes(443, first, part).await;
      assert_eq!((got, reply), (vec![], vec![]));
      let why = "The connection was closed: the first bytes on port 443 are no TLS.";
      assert_eq!(reason.as_deref(), Some(why));
    }
  })
  .await;
}

#[tokio::test]
async fn half_a_hello_goes_nowhere() {
  must_end(async {
    let world = World::new();
    let (address, mut told) = sink().await;
    world.public(443, address);
    let mut client = client(&world.session(Quotas::default())).await;
    client.connect("good.com:443").await;
    client.send(&client_hello("good.com")[..40]).await;
    client.stream.shutdown().await.unwrap();
    client.rest().await;
    assert_eq!(client.served.await.unwrap(), Served::Cut);
    // Reset, so that the server does not take it for an end.
    assert_eq!(told.recv().await.unwrap(), (vec![], false));
  })
  .await;
}

#[tokio::test]
async fn bytes_behind_a_refused_head_go_nowhere() {
  must_end(async {
    let world = World::new();
    let (address, _told) = sink().await;
    world.public(443, address);
    let session = world.session(Quotas::default());
    let two = format!("{}{}", connect("evil.com:443"), connect("good.com:443"));
    let (reply, served) = client(&session).await.ask(two).await;
    assert!(reply.starts_with("HTTP/1.1 403 Host Not In Allowlist\r\n"), "{reply}");
    assert_eq!(reply.matches("HTTP/1.1").count(), 1);
    assert!(reply.contains("\r\nConnection: close\r\n"));
    assert_eq!(served, Served::Ended);
    assert_eq!(world.dialled(), Vec::<String>::new());
    assert_eq!(*world.asked.lock().unwrap(), Vec::<String>::new());
    assert_eq!(session.counts().requests, 1);
  })
  .await;
}

#[tokio::test]
async fn a_reader_that_stops_holds_the_sender_back() {
  must_end(async {
    let world = World::new();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    // Sends for ever and tells how much it got rid of.
    let address = server(move |mut stream| {
      let tell = tell.clone();
      async move {
        let bytes = vec![7; 64 * 1024];
        while let Ok(written) = stream.write(&bytes).await {
          tell.send(written).unwrap();
        }
      }
    })
    .await;
    world.public(2222, address);
    let quotas = Quotas { idle_timeout: std::time::Duration::from_millis(500), ..Quotas::default() };
    let mut client = client(&world.session(quotas)).await;
    client.connect("good.com:2222").await;
    // Reads nothing, so the connection ends idle; until then only sockets and two buffers could fill.
    assert_eq!((&mut client.served).await.unwrap(), Served::Cut);
    let mut sent = 0;
    while let Some(written) = told.recv().await {
      sent += written;
      if told.is_empty() {
        break;
      }
    }
    assert!(sent < 32 << 20, "{sent} bytes were taken from the server");
  })
  .await;
}
