use super::*;

fn read(head: &str) -> Result<(String, String), &'static str> {
  read_for(head, false)
}

/// The head that goes to the client and what follows it.
fn read_for(head: &str, is_head: bool) -> Result<(String, String), &'static str> {
  let reply = parse(head.as_bytes(), is_head)?;
  let next = match reply.next {
    Next::Head => "head".to_owned(),
    Next::Body(Body::Exact(bytes)) => bytes.to_string(),
    Next::Body(Body::Chunked(_)) => "chunks".to_owned(),
    Next::Body(Body::UntilClose) => "until close".to_owned(),
  };
  Ok((String::from_utf8(reply.head).unwrap(), next))
}

#[test]
fn the_length_of_a_reply_is_known() {
  for (status, line, next) in [
    ("200 OK", "Content-Length: 5\r\n", "5"),
    ("200 OK", "Transfer-Encoding: chunked\r\n", "chunks"),
    ("200 OK", "", "until close"),
    ("204 No Content", "", "0"),
    ("304 Not Modified", "Content-Length: 5\r\n", "0"),
  ] {
    let read = read(&format!("HTTP/1.1 {status}\r\n{line}Connection: keep-alive\r\nKeep-Alive: x\r\n\r\n"));
    let head = format!("HTTP/1.1 {status}\r\n{line}Connection: close\r\n\r\n");
    assert_eq!(read, Ok((head, next.to_owned())), "{status} {line}");
  }
  let (_, next) = read_for("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap();
  assert_eq!(next, "0");
}

#[test]
fn interim_replies_are_followed_by_another_head() {
  let read = read("HTTP/1.1 100 Continue\r\n\r\n");
  assert_eq!(read, Ok(("HTTP/1.1 100 Continue\r\n\r\n".to_owned(), "head".to_owned())));
}

#[test]
fn replies_that_two_readers_could_cut_differently_are_refused() {
  for (head, why) in [
    ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "changed the protocol, which it was not asked to"),
    (
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
      "has both Transfer-Encoding and Content-Length",
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "has more than one Content-Length"),
    ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "sent Transfer-Encoding with HTTP/1.0"),
    ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "has a header line that begins with white space"),
    ("SSH-2.0-x\r\n\r\n", "sent a malformed head"),
    ("\r\nHTTP/1.1 200 OK\r\n\r\n", "sent a malformed head"),
  ] {
    assert_eq!(read(head), Err(why), "{head:?}");
  }
}
