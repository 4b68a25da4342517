//! A Docker engine that speaks bytes: for each request the test says exactly what is written, how it is cut, when it
//! waits and how it ends. Everything that comes in is recorded, connection by connection.
//!
//! It lives in the test's own single-threaded runtime, so that a pause is a handing-over and not a span of time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// One thing that the engine does in reply to a request.
#[derive(Clone)]
pub enum Act {
  /// Writes these bytes at once.
  Write(Vec<u8>),
  /// Writes these bytes in pieces of this length, each read by the client before the next is written.
  Cut(Vec<u8>, usize),
  /// Waits until the gate is open.
  Wait(Gate),
  /// Opens a gate, on which the test or another reply waits.
  Open(Gate),
  /// Reads until the client closes its half, and records it.
  ReadToEnd,
  /// Looks without waiting whether the client closed its half.
  Probe,
  /// Closes the connection.
  Close,
  /// Does nothing more and leaves the connection open, unread.
  Hang,
  /// Gives the connection away, as behind the head of a hijacked stream; it is over when the talk is.
  Talk(Talk),
}

/// What has a connection for itself.
pub type Talk = Arc<dyn Fn(UnixStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A point that something waits for.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
  /// A closed gate.
  pub fn new() -> Self {
    Self(Arc::new(watch::Sender::new(false)))
  }

  /// Lets everyone through, now and later.
  pub fn open(&self) {
    self.0.send_replace(true);
  }

  /// Waits until it is open.
  pub async fn passed(&self) {
    self.0.subscribe().wait_for(|open| *open).await.unwrap();
  }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
  /// Which connection, counted from 0.
  pub connection: usize,
  pub method: String,
  /// Path and query, without the version.
  pub path: String,
  /// `v1.41`, or empty for a path without one.
  pub version: String,
  /// The head, as text.
  pub head: String,
  pub body: Vec<u8>,
}

impl Seen {
  /// The body as JSON.
  pub fn json(&self) -> serde_json::Value {
    serde_json::from_slice(&self.body).unwrap()
  }
}

type Reply = Vec<Act>;
type Answer = Box<dyn Fn(&Seen) -> Reply + Send + Sync>;

#[derive(Default)]
struct Record {
  requests: Vec<Seen>,
  /// What came on a connection behind its last request, by connection.
  raw: HashMap<usize, Vec<u8>>,
  /// Connections whose other half the client closed.
  ended: Vec<usize>,
  unscripted: Vec<String>,
  connections: usize,
}

/// The engine. Stops when dropped; a request that no reply was scripted for fails the test then.
pub struct ScriptedEngine {
  socket: PathBuf,
  record: Arc<Mutex<Record>>,
  _serving: JoinSet<()>,
  _home: tempfile::TempDir,
}

/// Replies by method and path.
#[derive(Default)]
pub struct Script {
  routes: HashMap<(String, String), Answer>,
}

impl Script {
  pub fn new() -> Self {
    Self::default()
  }

  /// What is replied to a request: each time the same.
  pub fn on(self, method: &str, path: &str, reply: Reply) -> Self {
    self.on_each(method, path, vec![reply])
  }

  /// One reply after the other; the last for all that follow.
  pub fn on_each(self, method: &str, path: &str, replies: Vec<Reply>) -> Self {
    let next = Mutex::new(0);
    self.on_seen(method, path, move |_request| {
      let mut next = next.lock().unwrap();
      let reply = replies[(*next).min(replies.len() - 1)].clone();
      *next += 1;
      reply
    })
  }

  /// A reply made from the request. `path` is without version; where it has no query, any query fits.
  pub fn on_seen(
    mut self,
    method: &str,
    path: &str,
    answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
  ) -> Self {
    self.routes.insert((method.to_owned(), path.to_owned()), Box::new(answer));
    self
  }

  /// Starts the engine.
  pub fn serve(self) -> ScriptedEngine {
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("engine.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let record = Arc::new(Mutex::new(Record::default()));
    let mut serving = JoinSet::new();
    serving.spawn(accept(listener, Arc::new(self), record.clone()));
    ScriptedEngine { socket, record, _serving: serving, _home: home }
  }

  fn reply(&self, request: &Seen) -> Option<Reply> {
    let key = |path: &str| (request.method.clone(), path.to_owned());
    let bare = request.path.split('?').next().unwrap_or_default();
    let answer = self.routes.get(&key(&request.path)).or_else(|| self.routes.get(&key(bare)))?;
    Some(answer(request))
  }
}

impl ScriptedEngine {
  pub fn socket(&self) -> &Path {
    &self.socket
  }

  /// All requests so far, in order.
  pub fn requests(&self) -> Vec<Seen> {
    self.record.lock().unwrap().requests.clone()
  }

  /// `METHOD path` of all requests so far, without queries.
  pub fn calls(&self) -> Vec<String> {
    let bare = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
    self.requests().iter().map(|seen| format!("{} {}", seen.method, bare(&seen.path))).collect()
  }

  /// The first request of this method and path without query.
  pub fn request(&self, method: &str, path: &str) -> Seen {
    let found = |seen: &Seen| seen.method == method && seen.path.split('?').next() == Some(path);
    self.requests().into_iter().find(found).unwrap_or_else(|| panic!("{method} {path} never came"))
  }

  /// What came on a connection while the engine was not expecting a request.
  pub fn raw(&self, connection: usize) -> Vec<u8> {
    self.record.lock().unwrap().raw.get(&connection).cloned().unwrap_or_default()
  }

  /// True once the client closed its half of a connection, as seen by `ReadToEnd` and `Probe`.
  pub fn ended(&self, connection: usize) -> bool {
    self.record.lock().unwrap().ended.contains(&connection)
  }
}

impl Drop for ScriptedEngine {
  fn drop(&mut self) {
    if !std::thread::panicking() {
      assert_eq!(self.record.lock().unwrap().unscripted, Vec::<String>::new(), "no reply was scripted");
    }
  }
}

async fn accept(listener: UnixListener, script: Arc<Script>, record: Arc<Mutex<Record>>) {
  let mut connections = JoinSet::new();
  while let Ok((stream, _)) = listener.accept().await {
    let number = {
      let mut record = record.lock().unwrap();
      record.connections += 1;
      record.connections - 1
    };
    let connection = Connection { stream, number, record: record.clone(), buffer: Vec::new() };
    connections.spawn(connection.serve(script.clone()));
  }
}

struct Connection {
  stream: UnixStream,
  number: usize,
  record: Arc<Mutex<Record>>,
  buffer: Vec<u8>,
}

impl Connection {
  async fn serve(mut self, script: Arc<Script>) {
    while let Some(seen) = self.next_request().await {
      let what = format!("{} {}", seen.method, seen.path);
      let reply = script.reply(&seen);
      self.record.lock().unwrap().requests.push(seen);
      let Some(reply) = reply else {
        self.record.lock().unwrap().unscripted.push(what);
        return;
      };
      for act in reply {
        if self.perform(act).await.is_none() {
          return;
        }
      }
    }
  }

  /// `None` where the connection is over.
  async fn perform(&mut self, act: Act) -> Option<()> {
    match act {
      Act::Write(bytes) => self.stream.write_all(&bytes).await.ok()?,
      Act::Cut(bytes, length) => {
        for piece in bytes.chunks(length) {
          self.stream.write_all(piece).await.ok()?;
          hand_over().await;
        }
      }
      Act::Wait(gate) => gate.passed().await,
      Act::Open(gate) => gate.open(),
      Act::ReadToEnd => self.read_to_end().await,
      Act::Probe => {
        if matches!(self.stream.try_read(&mut [0; 1]), Ok(0)) {
          self.record.lock().unwrap().ended.push(self.number);
        }
      }
      Act::Close => return None,
      Act::Hang => std::future::pending().await,
      Act::Talk(talk) => {
        // Nothing may come before the head was read.
        assert_eq!(self.buffer, Vec::<u8>::new());
        let (unused, _) = UnixStream::pair().unwrap();
        talk(std::mem::replace(&mut self.stream, unused)).await;
        return None;
      }
    }
    Some(())
  }

  async fn read_to_end(&mut self) {
    let mut rest = std::mem::take(&mut self.buffer);
    self.stream.read_to_end(&mut rest).await.ok();
    let mut record = self.record.lock().unwrap();
    record.raw.entry(self.number).or_default().extend(rest);
    record.ended.push(self.number);
  }

  async fn next_request(&mut self) -> Option<Seen> {
    let end = loop {
      if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
        break at + 4;
      }
      self.more().await?;
    };
    let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
    let body = self.body(&head).await?;
    let mut words = head.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let versioned = target.strip_prefix("/v1.").and_then(|rest| rest.split_once('/'));
    let (version, path) = match versioned {
      Some((minor, path)) => (format!("v1.{minor}"), format!("/{path}")),
      None => (String::new(), target),
    };
    Some(Seen { connection: self.number, method, path, version, head, body })
  }

  async fn body(&mut self, head: &str) -> Option<Vec<u8>> {
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
      return self.chunked_body().await;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    while self.buffer.len() < length {
      self.more().await?;
    }
    Some(self.buffer.drain(..length).collect())
  }

  async fn chunked_body(&mut self) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
      let line = loop {
        if let Some(at) = self.buffer.windows(2).position(|window| window == b"\r\n") {
          break self.buffer.drain(..at + 2).collect::<Vec<u8>>();
        }
        self.more().await?;
      };
      let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
      while self.buffer.len() < size + 2 {
        self.more().await?;
      }
      body.extend(self.buffer.drain(..size));
      self.buffer.drain(..2);
      if size == 0 {
        return Some(body);
      }
    }
  }

  async fn more(&mut self) -> Option<()> {
    let read = self.stream.read_buf(&mut self.buffer).await.ok()?;
    (read > 0).then_some(())
  }
}

/// Lets the client read what was written: in a single-threaded runtime a task that yields goes on only after the
/// sockets were looked at and whoever waited for them ran.
async fn hand_over() {
  for _ in 0..4 {
    tokio::task::yield_now().await;
  }
}
