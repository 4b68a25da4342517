//! Hosts that die at any byte of what they write: the next one finds the workspace as it was or as it should be, and
//! nothing of the dead one is ever mixed into what it does itself.
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/resident.rs"]
mod resident;

use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

use resident::{Container, HANG, Host, Profile, TOKEN};

const TURNS: u64 = 200;
/// An answer takes a fraction of a millisecond; where none came by then, half a frame may be in the way.
const PATIENCE: Duration = Duration::from_millis(100);

/// Takes over, with the preamble where it is needed. Says whether it was.
fn take_over(container: &Container, fence: u64) -> (Host, bool) {
  let mut host = Host::new(container.attach(), fence.wrapping_mul(0x9E37_79B9_7F4A_7C15), fence);
  let hello = ToInside::Hello(Hello { token: TOKEN, next_token: TOKEN, dead_man_ms: 0 });
  host.send(0, &hello);
  let start = Instant::now();
  while host.welcome.is_none() && start.elapsed() < PATIENCE {
    host.read(PATIENCE);
  }
  let stuck = host.welcome.is_none();
  if stuck {
    host.stdio.write(&vec![0; PREAMBLE]);
    host.send(0, &hello);
    host.until(|host| host.welcome.is_some());
  }
  (host, stuck)
}

/// A write of a file of which every byte is `number`, and a command, as one host would send them.
fn work(encoder: &Encoder, number: u8, size: usize) -> Vec<u8> {
  let contents = vec![number; size];
  let path = RelativePath::new(b"state").unwrap();
  let op = encoder.fence() << 32;
  let argv = StringsBuf::of(["sh", "-c", "echo $0 >>log", &number.to_string()]).unwrap();
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
  let mut bytes = Vec::new();
  let write = WriteFile { mode: 0o600, size: size as u64, overwrite: true, path };
  ToInside::WriteFile(write).encode(encoder, op, &mut bytes).unwrap();
  for (piece, chunk) in contents.chunks(10_000).enumerate() {
    let data = Data { stream: Stream::Input, offset: piece as u64 * 10_000, bytes: chunk };
    ToInside::Data(data).encode(encoder, op, &mut bytes).unwrap();
  }
  ToInside::End(Stream::Input).encode(encoder, op, &mut bytes).unwrap();
  ToInside::Exec(exec).encode(encoder, op + 1, &mut bytes).unwrap();
  bytes
}

/// Ends what the dead host left and says which of its operations were known.
fn settle(host: &mut Host) -> Vec<(u64, Option<Reply>)> {
  let left = host.welcome.clone().unwrap().operations;
  for operation in left.iter().filter(|operation| !operation.done) {
    host.send(operation.op, &ToInside::Cancel);
  }
  let mut ended = Vec::new();
  for operation in left {
    host.until(|host| host.operations.get(&operation.op).is_some_and(|outcome| outcome.done.is_some()));
    host.send(operation.op, &ToInside::Ack);
    ended.push((operation.op, host.operations.remove(&operation.op).unwrap().done));
  }
  ended
}

#[test]
fn two_hundred_hosts_die_in_the_midst_of_what_they_say() {
  let container = Container::create(&Profile::default());
  let first = container.attach();
  container.start();
  drop(first);
  let (mut size, mut number, mut stuck, mut cut_short) = (0, 0, 0, 0);
  for fence in 1..=TURNS {
    let (mut host, was_stuck) = take_over(&container, fence);
    stuck += u64::from(was_stuck);
    let ended = settle(&mut host);
    // The file is what the last whole write made of it.
    let whole = ended.iter().any(|(_, reply)| matches!(reply, Some(Reply::Written(_))));
    let next = (fence % 251) as u8;
    if whole {
      (size, number) = (1000 + (fence as usize - 1) * 397 % 90_000, ((fence - 1) % 251) as u8);
    } else if fence > 1 {
      cut_short += 1;
    }
    let read = host.read_file("state", 0, u64::MAX);
    assert!(read.output.len() == size && read.output.iter().all(|byte| *byte == number), "turn {fence}");
    if size > 0 {
      assert_eq!(read.done, Some(Reply::Read(Read { size: size as u64, mode: 0o600, sent: size as u64 })));
    }
    let bytes = work(&host.encoder, next, 1000 + fence as usize * 397 % 90_000);
    let cut = (fence.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as usize % (bytes.len() + bytes.len() / 3);
    host.stdio.write(&bytes[..cut.min(bytes.len())]);
  }
  let (mut host, _) = take_over(&container, TURNS + 1);
  settle(&mut host);
  // Only numbers that a host said whole are in the log, each at most once.
  let log = host.sh("cat log").text();
  let mut numbers: Vec<u32> = log.lines().map(|line| line.parse().unwrap()).collect();
  let count = numbers.len();
  numbers.sort_unstable();
  numbers.dedup();
  assert_eq!(numbers.len(), count);
  assert!(numbers.iter().all(|number| u64::from(*number) <= TURNS));
  assert!(stuck > 5 && cut_short > 20, "{stuck} {cut_short}");
  assert_eq!(host.sh("ls -A | grep zhivex").text(), "");
  assert!(HANG > PATIENCE);
}
