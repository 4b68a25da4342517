//! The two ends of `benches/proxy.mjs`.
//!
//!   proxy_tunnel serve ORIGIN_PORT          the proxy on a free port of loopback, which it prints; ends with its input
//!   proxy_tunnel load PROXY_PORT HOST ORIGIN_PORT BYTES PID
//!                                           moves BYTES from an origin to a client through a proxy, and prints how many
//!                                           seconds that took and how many seconds of CPU the process PID had
//!   proxy_tunnel setups PROXY_PORT HOST ORIGIN_PORT COUNT
//!                                           opens COUNT tunnels one after the other, and prints how many that was a second
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a program for measuring")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sandbox_docker::proxy::{
  Host, Policy, Proxy, ProxyEvent, ProxyEvents, ProxyParts, Quotas, Resolver, RunCounts,
};

/// The kernel counts CPU in ticks of a hundredth of a second (`getconf CLK_TCK`).
const TICKS_PER_SECOND: f64 = 100.0;

struct Loopback;

#[async_trait]
impl Resolver for Loopback {
  async fn lookup(&self, _: &Host) -> std::io::Result<Vec<IpAddr>> {
    Ok(vec![Ipv4Addr::LOCALHOST.into()])
  }
}

impl ProxyEvents for Loopback {
  fn record(&self, _: ProxyEvent) {}
}

fn main() {
  let args: Vec<_> = std::env::args().skip(1).collect();
  let args: Vec<_> = args.iter().map(String::as_str).collect();
  match args.as_slice() {
    ["serve", origin] => serve(origin.parse().unwrap()),
    ["load", proxy, host, origin, bytes, pid] => {
      load(proxy.parse().unwrap(), host, origin.parse().unwrap(), bytes.parse().unwrap(), pid);
    }
    ["setups", proxy, host, origin, count] => {
      setups(proxy.parse().unwrap(), host, origin.parse().unwrap(), count.parse().unwrap());
    }
    _ => say("usage: proxy_tunnel serve | load | setups; the file says with what"),
  }
}

fn say(line: &str) {
  let mut out = std::io::stdout();
  out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).unwrap();
}

#[tokio::main]
async fn serve(origin: u16) {
  let policy = Policy::new(&["origin.example"], &[origin], true).unwrap();
  let (max, lifetime) = (u64::MAX / 4, Duration::from_secs(3600));
  let quotas = Quotas {
    max_bytes_up: max,
    max_bytes_down: max,
    max_network_bytes: max,
    tunnel_lifetime: lifetime,
    max_requests: max,
    max_network_requests: max,
    ..Quotas::default()
  };
  let mut parts = ProxyParts::new(policy, quotas, Arc::new(Loopback));
  parts.resolver = Arc::new(Loopback);
  let session = Proxy::new(parts).run_session("bench", RunCounts::default());
  let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
  say(&listener.local_addr().unwrap().port().to_string());
  std::thread::spawn(|| {
    drop(std::io::stdin().read(&mut [0]));
    std::process::exit(0);
  });
  while let Ok((stream, _)) = listener.accept().await {
    tokio::spawn(session.serve(stream));
  }
}

fn load(proxy: u16, host: &str, origin: u16, bytes: usize, pid: &str) {
  let listener = TcpListener::bind(("127.0.0.1", origin)).unwrap();
  std::thread::spawn(move || {
    let (mut stream, _) = listener.accept().unwrap();
    let block = vec![7; 256 * 1024];
    let mut left = bytes;
    while left > 0 {
      let count = left.min(block.len());
      stream.write_all(block.get(..count).unwrap()).unwrap();
      left -= count;
    }
  });
  let (begun, cpu) = (Instant::now(), cpu_seconds(pid));
  let (mut stream, head) = tunnel(proxy, host, origin);
  let (mut got, mut block) = (0, vec![0; 256 * 1024]);
  loop {
    match stream.read(&mut block).unwrap() {
      0 => break,
      count => got += count,
    }
  }
  assert_eq!(got, bytes, "{}", String::from_utf8_lossy(&head));
  say(&format!("{} {}", begun.elapsed().as_secs_f64(), cpu_seconds(pid) - cpu));
}

/// A tunnel that stands, and the reply that said so.
fn tunnel(proxy: u16, host: &str, origin: u16) -> (TcpStream, Vec<u8>) {
  let mut stream = TcpStream::connect(("127.0.0.1", proxy)).unwrap();
  let target = format!("{host}:{origin}");
  stream.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).unwrap();
  let (mut head, mut byte) = (Vec::new(), [0]);
  while !head.ends_with(b"\r\n\r\n") {
    stream.read_exact(&mut byte).expect("the proxy refused");
    head.push(byte[0]);
  }
  (stream, head)
}

fn setups(proxy: u16, host: &str, origin: u16, count: u32) {
  let listener = TcpListener::bind(("127.0.0.1", origin)).unwrap();
  std::thread::spawn(move || while listener.accept().is_ok() {});
  let begun = Instant::now();
  for _ in 0..count {
    let (_stream, head) = tunnel(proxy, host, origin);
    assert!(
      head.starts_with(b"HTTP/1.") && head.get(9..12) == Some(b"200"),
      "{}",
      String::from_utf8_lossy(&head)
    );
  }
  say(&format!("{}", f64::from(count) / begun.elapsed().as_secs_f64()));
}

/// User and system time of a process so far (`proc(5)`: fields 14 and 15, counted behind the name in brackets).
fn cpu_seconds(pid: &str) -> f64 {
  let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
  let (_, fields) = stat.rsplit_once(')').unwrap();
  let ticks: f64 =
    fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
  ticks / TICKS_PER_SECOND
}
