//! A gibibyte through one tunnel, with memory that does not grow. Takes seconds with optimisation:
//!
//!   cargo test --release --test proxy_volume -- --ignored
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/proxy.rs"]
mod support;

use sandbox_docker::proxy::{Quotas, Served};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const GIB: u64 = 1 << 30;
/// When memory is measured for the first time: buffers and the sockets' own are in use by then.
const WARM: u64 = 64 << 20;
/// What the allocator may keep for itself meanwhile.
const GROWTH: u64 = 4 << 20;

/// Memory of this process in bytes: proxy, client and server together.
fn resident() -> u64 {
  let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
  let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
  pages * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "moves 2 GiB; run it with optimisation, as the file says"]
async fn a_gibibyte_each_way_in_flat_memory() {
  let world = World::new();
  world.public(2222, echo().await);
  let quotas =
    Quotas { max_bytes_up: GIB, max_bytes_down: GIB, max_network_bytes: 2 * GIB, ..Quotas::default() };
  let session = world.session(quotas);
  let mut client = client(&session).await;
  client.connect("good.com:2222").await;
  let (mut read, mut write) = client.stream.into_split();
  let sending = tokio::spawn(async move {
    let bytes = vec![7; 256 * 1024];
    let mut left = GIB;
    while left > 0 {
      write.write_all(&bytes).await.unwrap();
      left -= bytes.len() as u64;
    }
    write.shutdown().await.unwrap();
  });
  let mut buffer = vec![0; 256 * 1024];
  let (mut got, mut warm) = (0, None);
  loop {
    let count = read.read(&mut buffer).await.unwrap() as u64;
    if count == 0 {
      break;
    }
    got += count;
    if warm.is_none() && got >= WARM {
      warm = Some(resident());
    }
  }
  let growth = resident().saturating_sub(warm.unwrap());
  sending.await.unwrap();
  assert_eq!(got, GIB);
  assert_eq!(client.served.await.unwrap(), Served::Ended);
  assert_eq!(world.closed(), (GIB, GIB, None));
  assert_eq!(session.counts().bytes, 2 * GIB);
  assert!(growth <= GROWTH, "memory grew by {growth} bytes");
}
