//! A proxy whose names and ways out are scripted, and clients and servers on loopback sockets.
#![expect(
  dead_code,
  clippy::unwrap_used,
  clippy::panic,
  clippy::indexing_slicing,
  reason = "test support; each program uses a part"
)]

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_docker::proxy::{
  Dialer, Host, OpenConnections, Policy, Proxy, ProxyEvent, ProxyEvents, ProxyParts, Quotas, Resolver,
  RunCounts, Served, Session,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A public address for every name that has none of its own.
pub const PUBLIC: &str = "93.184.216.34";
/// A hang must be a failed test. Far above what any test needs on a busy machine.
const HANG: Duration = Duration::from_secs(60);

/// Runs a test's body; fails it where it does not end.
pub async fn must_end<T>(body: impl Future<Output = T>) -> T {
  tokio::time::timeout(HANG, body).await.unwrap_or_else(|_| panic!("the proxy hung"))
}

/// One look-up: addresses, none, an error (`None`), or silence for ever.
#[derive(Clone)]
pub enum Answer {
  Addresses(Vec<&'static str>),
  Error,
  Silence,
}

/// What the world behind the proxy is like, and what the proxy did in it.
#[derive(Default)]
pub struct World {
  answers: Mutex<HashMap<String, Vec<Answer>>>,
  doors: Mutex<HashMap<SocketAddr, Door>>,
  pub asked: Mutex<Vec<String>>,
  pub dialled: Mutex<Vec<SocketAddr>>,
  pub events: Mutex<Vec<ProxyEvent>>,
}

/// What is behind an address.
#[derive(Clone, Copy)]
pub enum Door {
  /// A server on loopback.
  Open(SocketAddr),
  /// Nothing answers.
  Silent,
}

#[async_trait]
impl Resolver for World {
  async fn lookup(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
    let nth = {
      let mut asked = self.asked.lock().unwrap();
      asked.push(host.to_string());
      asked.iter().filter(|name| *name == host.as_str()).count() - 1
    };
    let answers = self.answers.lock().unwrap().get(host.as_str()).cloned();
    let answers = answers.unwrap_or_else(|| vec![Answer::Addresses(vec![PUBLIC])]);
    match &answers[nth.min(answers.len() - 1)] {
      Answer::Addresses(texts) => Ok(texts.iter().map(|text| text.parse().unwrap()).collect()),
      Answer::Error => Err(io::Error::other("no such name")),
      Answer::Silence => std::future::pending().await,
    }
  }
}

#[async_trait]
impl Dialer for World {
  async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
    self.dialled.lock().unwrap().push(address);
    let door = self.doors.lock().unwrap().get(&address).copied();
    match door {
      Some(Door::Open(real)) => TcpStream::connect(real).await,
      Some(Door::Silent) => std::future::pending().await,
      None => Err(io::ErrorKind::ConnectionRefused.into()),
    }
  }
}

impl ProxyEvents for World {
  fn record(&self, event: ProxyEvent) {
    self.events.lock().unwrap().push(event);
  }
}

impl World {
  pub fn new() -> Arc<Self> {
    Arc::default()
  }

  /// What look-ups of `host` say, one after the other; the last is said for ever.
  pub fn answers(&self, host: &str, answers: Vec<Answer>) {
    self.answers.lock().unwrap().insert(host.to_owned(), answers);
  }

  pub fn door(&self, address: &str, door: Door) {
    self.doors.lock().unwrap().insert(address.parse().unwrap(), door);
  }

  /// Lets a server be reached at the public address and this port.
  pub fn public(&self, port: u16, server: SocketAddr) {
    self.door(&format!("{PUBLIC}:{port}"), Door::Open(server));
  }

  /// A proxy in this world with a counter of its own.
  pub fn proxy(self: &Arc<Self>, policy: Policy, quotas: Quotas) -> Proxy {
    self.proxy_counting(policy, quotas, OpenConnections::new())
  }

  pub fn proxy_counting(self: &Arc<Self>, policy: Policy, quotas: Quotas, open: OpenConnections) -> Proxy {
    let (resolver, dialer, events) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
    Proxy::new(ProxyParts { policy, quotas, resolver, dialer, events, open })
  }

  /// A session that may reach `good.com` and names below it at 443, 80 and 2222.
  pub fn session(self: &Arc<Self>, quotas: Quotas) -> Session {
    self.proxy(good_policy(), quotas).run_session("run-1", RunCounts::default())
  }

  pub fn dialled(&self) -> Vec<String> {
    self.dialled.lock().unwrap().iter().map(ToString::to_string).collect()
  }

  /// What the last event, the end of a connection, says: bytes up, bytes down, and why.
  pub fn closed(&self) -> (u64, u64, Option<String>) {
    match self.events().pop() {
      Some(ProxyEvent::Closed { bytes_up, bytes_down, reason, .. }) => (bytes_up, bytes_down, reason),
      other => panic!("the last event is no end but {other:?}"),
    }
  }

  /// What the only event, a refusal, says: status and reason.
  pub fn refused(&self) -> (u16, String) {
    match &self.events()[..] {
      [ProxyEvent::Refused { status, reason, .. }] => (*status, reason.clone()),
      other => panic!("the events are no single refusal but {other:?}"),
    }
  }

  pub fn events(&self) -> Vec<ProxyEvent> {
    self.events.lock().unwrap().clone()
  }
}

pub fn good_policy() -> Policy {
  Policy::new(&["good.com", "*.good.com"], &[443, 80, 2222], false).unwrap()
}

/// A client's connection to the proxy.
pub struct Client {
  pub stream: TcpStream,
  pub served: JoinHandle<Served>,
}

/// Connects a client to a session as a carrier would.
pub async fn client(session: &Session) -> Client {
  let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
  let connecting = TcpStream::connect(listener.local_addr().unwrap());
  let (stream, accepted) = tokio::join!(connecting, listener.accept());
  let served = tokio::spawn(session.serve(accepted.unwrap().0));
  Client { stream: stream.unwrap(), served }
}

impl Client {
  pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
    self.stream.write_all(bytes.as_ref()).await.unwrap();
  }

  /// Sends a request and reads until the proxy closes.
  pub async fn ask(mut self, bytes: impl AsRef<[u8]>) -> (String, Served) {
    self.send(bytes).await;
    let reply = self.rest().await;
    // The proxy waits for a moment for this end, so that its reply is not lost.
    drop(self.stream);
    (String::from_utf8_lossy(&reply).into_owned(), self.served.await.unwrap())
  }

  /// Reads until the end, or a reset.
  pub async fn rest(&mut self) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = self.stream.read(&mut buffer).await {
      if read == 0 {
        break;
      }
      bytes.extend_from_slice(&buffer[..read]);
    }
    bytes
  }

  pub async fn exactly(&mut self, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    self.stream.read_exact(&mut bytes).await.unwrap();
    bytes
  }

  /// Asks for a tunnel and reads that it stands.
  pub async fn connect(&mut self, target: &str) {
    self.send(connect(target)).await;
    assert_eq!(String::from_utf8_lossy(&self.exactly(ESTABLISHED.len()).await), ESTABLISHED);
  }
}

pub const ESTABLISHED: &str = "HTTP/1.1 200 Connection Established\r\n\r\n";

pub fn connect(target: &str) -> String {
  format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

/// A server on loopback that treats each connection alike.
pub async fn server<F, E>(each: F) -> SocketAddr
where
  F: Fn(TcpStream) -> E + Send + 'static,
  E: Future<Output = ()> + Send + 'static,
{
  let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
  let address = listener.local_addr().unwrap();
  tokio::spawn(async move {
    while let Ok((stream, _)) = listener.accept().await {
      tokio::spawn(each(stream));
    }
  });
  address
}

/// A server that keeps all that it gets, and answers nothing. The handle tells what each connection brought.
pub async fn sink() -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<(Vec<u8>, bool)>) {
  let (tell, told) = tokio::sync::mpsc::unbounded_channel();
  let address = server(move |mut stream| {
    let tell = tell.clone();
    async move {
      let mut bytes = Vec::new();
      let whole = stream.read_to_end(&mut bytes).await.is_ok();
      drop(tell.send((bytes, whole)));
    }
  })
  .await;
  (address, told)
}

/// A server that sends back what it gets.
pub async fn echo() -> SocketAddr {
  server(|mut stream| async move {
    let (mut read, mut write) = stream.split();
    drop(tokio::io::copy(&mut read, &mut write).await);
  })
  .await
}

/// A TLS ClientHello with a server name, in one record.
pub fn client_hello(name: &str) -> Vec<u8> {
  fn vector(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
  }
  let entry = vector(&[vec![0], vector(name.as_bytes())].concat());
  let extensions = [vec![0, 0], vector(&entry)].concat();
  let front = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
  let body = [front, vector(&extensions)].concat();
  let message = [&[1, 0][..], &vector(&body)].concat();
  [&[22, 3, 1][..], &vector(&message)].concat()
}
