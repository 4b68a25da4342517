//! `http://` requests through the proxy, and requests that it refuses, over loopback sockets.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/proxy.rs"]
mod support;

use std::net::SocketAddr;

use sandbox_docker::proxy::{Quotas, Served, Session};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A server that reads until it has seen `until`, sends `reply` and closes; tells what it read to its client's end.
async fn replying(
  until: &'static str,
  reply: &'static str,
) -> (SocketAddr, UnboundedReceiver<(String, bool)>) {
  let (tell, told) = unbounded_channel();
  let address = server(move |mut stream| {
    let tell = tell.clone();
    async move {
      let mut bytes = Vec::new();
      let mut whole = true;
      while !String::from_utf8_lossy(&bytes).contains(until) {
        match stream.read_buf(&mut bytes).await {
          Ok(read) if read > 0 => {}
          ended => {
            whole = ended.is_ok();
            break;
          }
        }
      }
      if whole {
        stream.write_all(reply.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        whole = stream.read_to_end(&mut bytes).await.is_ok();
      }
      drop(tell.send((String::from_utf8(bytes).unwrap(), whole)));
    }
  })
  .await;
  (address, told)
}

async fn session_to(address: SocketAddr) -> (std::sync::Arc<World>, Session) {
  let world = World::new();
  world.public(80, address);
  let session = world.session(Quotas::default());
  (world, session)
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok";
const PASSED_OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

#[tokio::test]
async fn one_request_passes_and_nothing_behind_it() {
  must_end(async {
    let (address, mut told) = replying("\r\n\r\n", OK).await;
    let (world, session) = session_to(address).await;
    let two = "GET http://good.com/a HTTP/1.1\r\nHost: good.com\r\nProxy-Authorization: secret\r\n\r\n\
               GET http://good.com/b HTTP/1.1\r\nHost: good.com\r\n\r\n";
    let (reply, served) = client(&session).await.ask(two).await;
    assert_eq!((reply.as_str(), served), (PASSED_OK, Served::Ended));
    let head = "GET /a HTTP/1.1\r\nHost: good.com\r\nConnection: close\r\n\r\n";
    assert_eq!(told.recv().await.unwrap(), (head.to_owned(), true));
    assert_eq!(world.dialled(), ["93.184.216.34:80"]);
    assert_eq!(world.closed(), (head.len() as u64, PASSED_OK.len() as u64, None));
  })
  .await;
}

#[tokio::test]
async fn bodies_pass_unchanged_to_their_end() {
  must_end(async {
    for (lines, body) in [
      ("Content-Length: 5", "hello"),
      ("Transfer-Encoding: chunked", "3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n"),
    ] {
      let (address, mut told) = replying(body, OK).await;
      let (_world, session) = session_to(address).await;
      let request =
        format!("POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\n{lines}\r\n\r\n{body}GARBAGE");
      let (reply, _) = client(&session).await.ask(&request).await;
      assert_eq!(reply, PASSED_OK);
      let passed = format!("POST / HTTP/1.1\r\nHost: good.com\r\n{lines}\r\nConnection: close\r\n\r\n{body}");
      assert_eq!(told.recv().await.unwrap(), (passed, true));
    }
  })
  .await;
}

#[tokio::test]
async fn a_malformed_body_is_refused_and_never_looks_whole() {
  must_end(async {
    for body in ["5\r\nhelloX", "zz\r\n", "5\nhello"] {
      let (address, mut told) = replying("0\r\n\r\n", OK).await;
      let (_world, session) = session_to(address).await;
      let head = "POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\nTransfer-Encoding: chunked\r\n\r\n";
      let (reply, _) = client(&session).await.ask(format!("{head}{body}")).await;
      assert!(reply.starts_with("HTTP/1.1 400 Malformed Request\r\n"), "{body:?}: {reply}");
      assert!(reply.contains("The request has a malformed chunked body."), "{reply}");
      let (got, whole) = told.recv().await.unwrap();
      assert!(!got.contains('X') && !whole, "{got:?}");
    }
  })
  .await;
}

#[tokio::test]
async fn half_a_body_never_looks_whole() {
  must_end(async {
    let (address, mut told) = replying("never", OK).await;
    let (_world, session) = session_to(address).await;
    let mut client = client(&session).await;
    client.send("POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\nContent-Length: 9\r\n\r\nhalf").await;
    client.stream.shutdown().await.unwrap();
    let reply = client.rest().await;
    assert!(reply.starts_with(b"HTTP/1.1 400 Malformed Request\r\n"));
    assert!(!told.recv().await.unwrap().1);
  })
  .await;
}

#[tokio::test]
async fn replies_pass_to_their_end() {
  must_end(async {
    for (reply, passed) in [
      (OK, PASSED_OK),
      ("HTTP/1.1 200 OK\r\n\r\nuntil close", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil close"),
      (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nbehind",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
      ),
      (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nbehind",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
      ),
      (
        "HTTP/1.1 302 Found\r\nLocation: http://evil.com/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://evil.com/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
      ),
    ] {
      let (address, _told) = replying("\r\n\r\n", reply).await;
      let (_world, session) = session_to(address).await;
      let request = "GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n";
      assert_eq!(client(&session).await.ask(request).await, (passed.to_owned(), Served::Ended));
    }
  })
  .await;
}

#[tokio::test]
async fn a_server_may_reply_before_it_has_the_body() {
  must_end(async {
    let reply = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
    let (address, _told) = replying("\r\n\r\n", reply).await;
    let (_world, session) = session_to(address).await;
    let request = "POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\nContent-Length: 1000000\r\n\r\nfront";
    let (reply, served) = client(&session).await.ask(request).await;
    let passed = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!((reply.as_str(), served), (passed, Served::Ended));
  })
  .await;
}

#[tokio::test]
async fn replies_that_cannot_be_passed_on_are_told() {
  must_end(async {
    for (reply, why) in [
      ("nonsense\r\n\r\n", "The server sent a malformed head, "),
      ("HTTP/1.1 200 OK\n\n", "The server sent a malformed head, "),
      ("", "The server closed the connection before it replied, "),
      (
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "The server changed the protocol, which it was not asked to, ",
      ),
      (
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "The server has more than one Content-Length, ",
      ),
    ] {
      let (address, _told) = replying("\r\n\r\n", reply).await;
      let (_world, session) = session_to(address).await;
      let request = "GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n";
      let (reply, served) = client(&session).await.ask(request).await;
      assert!(reply.starts_with("HTTP/1.1 502 Bad Reply From Server\r\n") && reply.contains(why), "{reply}");
      assert_eq!(served, Served::Ended);
    }
  })
  .await;
}

#[tokio::test]
async fn a_request_that_was_given_up_keeps_no_place() {
  must_end(async {
    let (address, _told) = sink().await;
    let (_world, session) = session_to(address).await;
    let mut client = client(&session).await;
    client.send("GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n").await;
    let begun = std::time::Instant::now();
    drop(client.stream);
    // It may only have ended its direction, and is given 5 s.
    assert_eq!(client.served.await.unwrap(), Served::Cut);
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
  })
  .await;
}

#[tokio::test]
async fn a_client_that_ends_its_direction_gets_its_reply() {
  must_end(async {
    let (address, _told) = replying("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let (_world, session) = session_to(address).await;
    let mut client = client(&session).await;
    client.send("GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n").await;
    client.stream.shutdown().await.unwrap();
    let reply = String::from_utf8(client.rest().await).unwrap();
    assert!(reply.ends_with("\r\n\r\nhi"), "{reply}");
  })
  .await;
}

#[tokio::test]
async fn half_a_reply_never_looks_whole() {
  must_end(async {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    let (address, _told) = replying("\r\n\r\n", half).await;
    let (_world, session) = session_to(address).await;
    let request = "GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n";
    let (reply, served) = client(&session).await.ask(request).await;
    assert_eq!(reply, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nhalf");
    assert_eq!(served, Served::Cut);
  })
  .await;
}

/// The status and the last line of the reply to a request that no server may see.
async fn refused(request: &str) -> (u16, String) {
  let world = World::new();
  let session = world.session(Quotas::default());
  let (reply, served) = client(&session).await.ask(request).await;
  assert_eq!(served, Served::Ended);
  assert_eq!(world.dialled(), Vec::<String>::new(), "{request:?}");
  let (status, reason) = world.refused();
  assert!(reply.ends_with(&format!("\r\n\r\n{reason}\n")), "{reply}");
  assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
  assert!(!reason.contains("secret"), "{reason}");
  (status, reason)
}

#[tokio::test]
async fn every_form_of_every_method_is_judged() {
  must_end(async {
    for (line, host, status) in [
      ("GET http://evil.com/secret", "evil.com", 403),
      ("GET http://good.com:8080/secret", "good.com:8080", 403),
      ("GET http://good.com:443/secret", "good.com:443", 403),
      ("GET http://127.0.0.1/secret", "127.0.0.1", 403),
      ("GET http://[::1]/secret", "[::1]", 403),
      ("GET http://2130706433/secret", "2130706433", 403),
      ("GET /secret", "good.com", 400),
      ("GET https://good.com/secret", "good.com", 400),
      ("OPTIONS *", "good.com", 400),
      ("GET http://good.com/secret", "evil.com", 400),
      ("GET http://user:secret@good.com/", "good.com", 400),
      ("CONNECT evil.com:443", "evil.com:443", 403),
      ("CONNECT good.com:22", "good.com:22", 403),
      ("CONNECT good.com:25", "good.com:25", 403),
      ("CONNECT good.com:8443", "good.com:8443", 403),
      ("CONNECT evilgood.com:443", "evilgood.com:443", 403),
      ("CONNECT good.com.evil.com:443", "good.com.evil.com:443", 403),
      ("CONNECT *.good.com:443", "*.good.com:443", 400),
      ("CONNECT 127.0.0.1:443", "127.0.0.1:443", 403),
      ("CONNECT 127.1:443", "127.1:443", 403),
      ("CONNECT 0x7f000001:443", "0x7f000001:443", 403),
      ("CONNECT [::ffff:a9fe:a9fe]:80", "[::ffff:a9fe:a9fe]:80", 403),
      ("CONNECT [fe80::1%25eth0]:80", "[fe80::1%25eth0]:80", 403),
      ("CONNECT [good.com]:443", "[good.com]:443", 400),
      ("CONNECT metadata.google.internal:80", "metadata.google.internal:80", 403),
      ("CONNECT good.com..:443", "good.com..:443", 400),
      ("CONNECT good.com", "good.com", 400),
      ("CONNECT good.com:0", "good.com:0", 400),
      ("CONNECT good.com@evil.com:443", "good.com", 400),
    ] {
      let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nCookie: secret\r\n\r\n");
      assert_eq!(refused(&request).await.0, status, "{line}");
    }
  })
  .await;
}

#[tokio::test]
async fn smuggled_requests_are_refused() {
  must_end(async {
    for lines in [
      "Content-Length: 5\r\nTransfer-Encoding: chunked",
      "Content-Length: 5\r\nContent-Length: 6",
      "Transfer-Encoding : chunked",
      "X: a\r\n Transfer-Encoding: chunked",
      "X: a\nTransfer-Encoding: chunked",
      "X: a\rTransfer-Encoding: chunked",
      "X: a\0",
    ] {
      let head = format!("POST http://good.com/ HTTP/1.1\r\nHost: good.com\r\n{lines}\r\n\r\n");
      assert_eq!(
        refused(&format!("{head}0\r\n\r\nGET http://evil.com/ HTTP/1.1\r\n\r\n")).await.0,
        400,
        "{lines:?}"
      );
    }
    assert_eq!(
      refused("CONNECT good.com:443 HTTP/1.1\r\nHost: good.com\r\nContent-Length: 5\r\n\r\n").await.0,
      400
    );
    assert_eq!(refused("\r\n\r\nCONNECT good.com:443 HTTP/1.1\r\nHost: good.com\r\n\r\n").await.0, 400);
    assert_eq!(refused("\u{16}\u{3}\u{1}\n").await.0, 400);
  })
  .await;
}

#[tokio::test]
async fn a_redirect_to_another_host_is_a_new_request_that_is_refused() {
  must_end(async {
    let reply = "HTTP/1.1 302 Found\r\nLocation: http://evil.com/\r\nContent-Length: 0\r\n\r\n";
    let (address, _told) = replying("\r\n\r\n", reply).await;
    let (world, session) = session_to(address).await;
    let request = "GET http://good.com/ HTTP/1.1\r\nHost: good.com\r\n\r\n";
    let (reply, _) = client(&session).await.ask(request).await;
    assert!(reply.contains("\r\nLocation: http://evil.com/\r\n"), "{reply}");
    let request = "GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n";
    let (reply, _) = client(&session).await.ask(request).await;
    assert!(reply.starts_with("HTTP/1.1 403 Host Not In Allowlist\r\n"), "{reply}");
    assert!(reply.contains("Allowed: good.com, *.good.com."), "{reply}");
    assert_eq!(world.dialled(), ["93.184.216.34:80"]);
  })
  .await;
}

#[tokio::test]
async fn a_refused_head_request_gets_no_body() {
  must_end(async {
    let session = World::new().session(Quotas::default());
    let request = "HEAD http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n";
    let (reply, _) = client(&session).await.ask(request).await;
    assert!(reply.starts_with("HTTP/1.1 403 ") && reply.ends_with("\r\n\r\n"), "{reply}");
  })
  .await;
}

#[tokio::test]
async fn a_decision_depends_on_the_request_and_the_session_alone() {
  must_end(async {
    let world = World::new();
    let one = world.session(Quotas::default());
    let policy = sandbox_docker::proxy::Policy::new(&["other.com"], &[443], false).unwrap();
    let two = world.proxy(policy, Quotas::default()).run_session("run-2", Default::default());
    let request = connect("good.com:443");
    // Allowed by the first, where nobody listens; refused by the second, however often and over whatever connection.
    for _ in 0..2 {
      let (reply, _) = client(&one).await.ask(&request).await;
      assert!(reply.starts_with("HTTP/1.1 502 Host Unreachable\r\n"), "{reply}");
      let (reply, _) = client(&two).await.ask(&request).await;
      assert!(reply.starts_with("HTTP/1.1 403 Host Not In Allowlist\r\n"), "{reply}");
    }
    assert_eq!((one.counts().requests, two.counts().requests), (2, 2));
  })
  .await;
}

#[tokio::test]
async fn a_client_that_says_nothing_is_no_request() {
  must_end(async {
    let world = World::new();
    let session = world.session(Quotas::default());
    let mut quiet = client(&session).await;
    quiet.stream.shutdown().await.unwrap();
    assert_eq!(quiet.rest().await, b"");
    assert_eq!(quiet.served.await.unwrap(), Served::Ended);
    assert_eq!((world.events(), session.counts().requests), (vec![], 0));
  })
  .await;
}
