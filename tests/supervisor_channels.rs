//! Connections to the proxy over a real supervisor: what programs in the container send arrives, and what is sent to
//! them; ends and resets pass in both directions; one that is not read holds up nothing else. The environment is that of
//! `supervisor_inside.rs`.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/resident.rs"]
mod resident;

use std::time::Duration;

use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::Stdin;
use sandbox_docker::docker::client::Client;
use sandbox_docker::supervisor::link::{Connections, Event, Identity, Link, Operation, Previous};
use sandbox_docker::supervisor::wire::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use resident::{Container, Profile, TOKEN, resident};

const USER: &str = "65534:65534";
const PORT: u16 = 3128;
/// A tmpfs is not the point here: pieces come from and go to programs.
const MIB: usize = 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(20);

fn client() -> Client {
  let socket = std::env::var("SANDBOX_TEST_SOCKET").unwrap();
  Client::new(Some(socket.into()), None).unwrap()
}

async fn link(container: &Container, fence: u64) -> Link {
  let identity = Identity { token: TOKEN, fence, dead_man: Duration::ZERO };
  Link::take_over(&client(), &container.id, USER, identity, Previous::Gone).await.unwrap()
}

async fn listening() -> (Container, Link, Connections) {
  let (container, first) = resident(&Profile::default());
  drop(first);
  let link = link(&container, 2).await;
  let connections = link.listen(PORT).await.unwrap();
  (container, link, connections)
}

/// Begins a shell script.
async fn begin(link: &Link, script: &str) -> Operation {
  let argv = StringsBuf::of(["sh", "-c", script]).unwrap();
  let env = StringsBuf::of(["PATH=/bin:/usr/bin"]).unwrap();
  let exec = Exec {
    window: 1 << 16,
    timeout_ms: 30_000,
    max_stdout: 1 << 20,
    max_stderr: 1 << 20,
    stdin: false,
    cwd: RelativePath::WORKSPACE,
    argv: argv.view(),
    env: env.view(),
  };
  link.request(ToInside::Exec(exec)).await.unwrap()
}

/// What a script says in all.
async fn said(operation: Operation) -> String {
  let mut said = Vec::new();
  let take = |event| {
    if let Event::Data(_, bytes) = event {
      said.extend_from_slice(&bytes);
    }
    Ok(())
  };
  operation.run(Stdin::Empty, "The command", &Cancel::new(), take).await.unwrap();
  String::from_utf8(said).unwrap()
}

async fn next(connections: &mut Connections) -> sandbox_docker::supervisor::link::Connection {
  timeout(PATIENCE, connections.next()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_directions_carry_what_was_sent_and_end_by_themselves() {
  let (_container, link, mut connections) = listening().await;
  let program = begin(&link, "echo question | nc 127.0.0.1 3128").await;
  let mut connection = next(&mut connections).await;
  let mut question = String::new();
  timeout(PATIENCE, connection.read_to_string(&mut question)).await.unwrap().unwrap();
  assert_eq!(question, "question\n", "the program's end is the end of what it sends");
  connection.write_all(b"answer\n").await.unwrap();
  connection.shutdown().await.unwrap();
  connection.finish();
  assert_eq!(said(program).await, "answer\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn much_passes_both_ways_at_once_and_whole() {
  let (_container, link, mut connections) = listening().await;
  let script = "head -c 8388608 /dev/zero | nc 127.0.0.1 3128 | wc -c";
  let program = begin(&link, script).await;
  let (mut read, mut write) = tokio::io::split(next(&mut connections).await);
  let reader = tokio::spawn(async move {
    let (mut total, mut room) = (0, vec![0; 65_536]);
    loop {
      match read.read(&mut room).await.unwrap() {
        0 => return (read, total),
        count => total += count,
      }
    }
  });
  let piece = vec![7; MIB];
  for _ in 0..8 {
    write.write_all(&piece).await.unwrap();
  }
  // Not earlier: BusyBox's nc sends no more once the other side has ended.
  let (read, total) = timeout(PATIENCE, reader).await.unwrap().unwrap();
  write.shutdown().await.unwrap();
  assert_eq!(total, 8 * MIB);
  assert_eq!(said(program).await.trim(), (8 * MIB).to_string());
  read.unsplit(write).finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_passes_in_both_directions() {
  let (_container, link, mut connections) = listening().await;
  let program = begin(&link, "echo x | nc 127.0.0.1 3128; echo over").await;
  drop(next(&mut connections).await);
  assert!(said(program).await.contains("over"), "a program that is reset learns it");
  let program = begin(&link, "yes | nc 127.0.0.1 3128").await;
  let mut connection = next(&mut connections).await;
  let mut room = [0; 64];
  assert!(connection.read(&mut room).await.unwrap() > 0);
  // Its output unread in its socket, the program dies: its kernel resets the connection once it is written to.
  drop(program);
  let broken = async {
    loop {
      if connection.write_all(&[0; 4096]).await.is_err() {
        return;
      }
    }
  };
  timeout(PATIENCE, broken).await.expect("the other end is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_nobody_reads_holds_up_nothing_else() {
  let (_container, link, mut connections) = listening().await;
  let flood = begin(&link, "yes | nc 127.0.0.1 3128").await;
  let unread = next(&mut connections).await;
  for word in ["one", "two", "three"] {
    let program = begin(&link, &format!("echo {word} | nc 127.0.0.1 3128")).await;
    let mut connection = next(&mut connections).await;
    let mut said_there = String::new();
    timeout(PATIENCE, connection.read_to_string(&mut said_there)).await.unwrap().unwrap();
    assert_eq!(said_there.trim(), word);
    connection.finish();
    said(program).await;
    assert_eq!(said(begin(&link, &format!("echo {word}")).await).await.trim(), word);
  }
  drop((unread, flood));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_read_is_sent_no_more_than_fits() {
  let (_container, link, mut connections) = listening().await;
  // It stops itself once it is connected, and never reads.
  let stopped = begin(&link, "nc 127.0.0.1 3128 >/dev/null & sleep 1; kill -STOP $!; sleep 20").await;
  let mut connection = next(&mut connections).await;
  tokio::time::sleep(Duration::from_millis(1500)).await;
  let mut sent = 0;
  while let Ok(count) = timeout(Duration::from_secs(1), connection.write(&[0; 65_536])).await {
    sent += count.unwrap();
    assert!(sent < 64 * MIB, "somebody takes it all");
  }
  assert_eq!(said(begin(&link, "echo still here").await).await, "still here\n");
  drop((connection, stopped));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_holder_gets_new_connections_and_the_old_ones_are_reset() {
  let (container, old, mut connections) = listening().await;
  let program = begin(&old, "sleep 30 | nc 127.0.0.1 3128; echo over > /workspace/over").await;
  let connection = next(&mut connections).await;
  let new = link(&container, 3).await;
  // Before it asks, whoever connects is reset at once.
  let early = said(begin(&new, "echo x | nc 127.0.0.1 3128; echo $?").await).await;
  assert!(early.ends_with("0\n") || early.ends_with("1\n"), "{early}");
  let mut arriving = new.listen(PORT).await.unwrap();
  let second = begin(&new, "echo mine | nc 127.0.0.1 3128").await;
  let mut connection_two = next(&mut arriving).await;
  let mut text = String::new();
  timeout(PATIENCE, connection_two.read_to_string(&mut text)).await.unwrap().unwrap();
  assert_eq!(text, "mine\n");
  connection_two.finish();
  said(second).await;
  drop((program, connection));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_at_once_are_all_served_and_then_one_more() {
  let (_container, link, mut connections) = listening().await;
  // More than there are channels: the others wait in the kernel, or try again.
  let script =
    "i=0; while [ $i -lt 20 ]; do (echo $i | nc 127.0.0.1 3128 >/dev/null) & i=$((i+1)); done; wait";
  for _round in 0..50 {
    let program = begin(&link, script).await;
    for _ in 0..20 {
      let mut connection = next(&mut connections).await;
      tokio::spawn(async move {
        let mut text = Vec::new();
        connection.read_to_end(&mut text).await.unwrap();
        connection.shutdown().await.unwrap();
        connection.finish();
      });
    }
    timeout(PATIENCE, said(program)).await.unwrap();
  }
  let program = begin(&link, "echo last | nc 127.0.0.1 3128").await;
  let mut connection = next(&mut connections).await;
  let mut text = String::new();
  connection.read_to_string(&mut text).await.unwrap();
  assert_eq!(text, "last\n");
  connection.finish();
  said(program).await;
}
