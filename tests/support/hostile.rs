//! Process 1 of a container on a scripted engine: it says what a test tells it to say, right or wrong.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sandbox_docker::sandbox::resident::{Container, ResidentSandbox};
use sandbox_docker::supervisor::embedded::{Binary, binary};
use sandbox_docker::supervisor::link::{Identity, Link};
use sandbox_docker::supervisor::volume;
use sandbox_docker::supervisor::wire::{Decoder, Encoder, Kind, SelfTest, ToHost, ToInside, Token, Welcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::client;
use super::replies::{frame, reply, stream_head};
use super::scripted_engine::{Act, Gate, Script, ScriptedEngine, Talk};

/// Where in a frame its kind and its length are, and the check over what is before it (docs/protocol.md, "Frames").
const KIND: usize = 5;
const LENGTH: std::ops::Range<usize> = 32..36;
const CHECK: std::ops::Range<usize> = 44..48;

/// The supervisor that this build embeds for the scripted engine's image.
pub fn supervisor() -> &'static Binary {
  binary("amd64").expect("node scripts/build-supervisor.mjs builds it")
}

/// A welcome as ours says it.
pub fn welcome() -> Welcome {
  Welcome {
    digest: supervisor().image_digest().unwrap(),
    capabilities: 0,
    self_test: SelfTest { tried: (1 << SelfTest::ATTACKS.len()) - 1, succeeded: 0 },
    operations: Vec::new(),
  }
}

/// The container's end of an attached stream, after the host's hello.
pub struct Peer {
  stream: UnixStream,
  decoder: Decoder,
  pub encoder: Encoder,
}

impl Peer {
  /// Reads the hello.
  async fn meet(mut stream: UnixStream) -> Option<Self> {
    let mut decoder = Decoder::for_supervisor();
    loop {
      if let Some(frame) = decoder.next_frame() {
        let (key, fence) = (frame.key, frame.fence);
        decoder.bind(key, fence);
        return Some(Self { stream, decoder, encoder: Encoder::new(key, fence) });
      }
      let read = stream.read(decoder.space()).await.ok().filter(|read| *read > 0)?;
      decoder.filled(read);
    }
  }

  /// The bytes of a frame.
  pub fn frame(&self, op: u64, message: &ToHost<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&self.encoder, op, &mut bytes).unwrap();
    bytes
  }

  /// The bytes of a frame of any kind, number or length, right in all else.
  pub fn odd_frame(&self, kind: u8, length: Option<u32>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    self.encoder.frame(&mut bytes, Kind::Data, 1, |out| out.extend_from_slice(payload)).unwrap();
    bytes[KIND] = kind;
    if let Some(length) = length {
      bytes[LENGTH].copy_from_slice(&length.to_le_bytes());
    }
    let check = xxh3_64_with_seed(&bytes[..CHECK.start], 0) as u32;
    bytes[CHECK].copy_from_slice(&check.to_le_bytes());
    bytes
  }

  /// Writes a frame.
  pub async fn say(&mut self, op: u64, message: &ToHost<'_>) {
    let bytes = self.frame(op, message);
    self.output(&bytes).await;
  }

  /// Writes bytes to standard output; `false` where nobody listens any more.
  pub async fn output(&mut self, bytes: &[u8]) -> bool {
    self.engine(&frame(1, bytes)).await
  }

  /// Writes bytes in place of the engine's multiplexed stream.
  pub async fn engine(&mut self, bytes: &[u8]) -> bool {
    self.stream.write_all(bytes).await.is_ok()
  }

  /// The next request that opens an operation. Heartbeats before it are answered.
  pub async fn request(&mut self) -> Option<(u64, Kind)> {
    self.until(|kind| (Kind::ReadFile as u8..=Kind::Listen as u8).contains(&(kind as u8))).await
  }

  /// The next frame of a kind.
  pub async fn until(&mut self, is_it: impl Fn(Kind) -> bool) -> Option<(u64, Kind)> {
    loop {
      while let Some(frame) = self.decoder.next_frame() {
        if is_it(frame.kind) {
          return Some((frame.op, frame.kind));
        }
        if let Ok(ToInside::Heartbeat(number)) = ToInside::decode(&frame) {
          let answer = self.frame(0, &ToHost::Heartbeat(number));
          self.output(&answer).await;
        }
      }
      let read = self.stream.read(self.decoder.space()).await.ok().filter(|read| *read > 0)?;
      self.decoder.filled(read);
    }
  }

  /// Lives on, answers heartbeats and nothing else, whether anybody listens or not.
  pub async fn idle(&mut self) {
    while self.until(|_| false).await.is_some() {}
    std::future::pending().await
  }
}

/// A process 1: `act` begins after the hello, and its end is the container's.
pub fn process<F>(ended: &Gate, act: impl Fn(Peer) -> F + Send + Sync + 'static) -> Talk
where
  F: Future<Output = ()> + Send + 'static,
{
  let (ended, act) = (ended.clone(), Arc::new(act));
  Arc::new(move |stream| {
    let (ended, act) = (ended.clone(), Arc::clone(&act));
    Box::pin(async move {
      if let Some(peer) = Peer::meet(stream).await {
        act(peer).await;
      }
      ended.open();
    })
  })
}

/// An engine with a container of the resident transport, whose process 1 is `talk`.
pub fn engine(ended: &Gate, talk: Talk) -> ScriptedEngine {
  engine_that_saw("", ended, talk)
}

/// One that remembers these events.
pub fn engine_that_saw(events: &str, ended: &Gate, talk: Talk) -> ScriptedEngine {
  let binary = supervisor();
  let volume = serde_json::json!({
    "Name": volume::name(binary), "Driver": "local", "Options": null, "Labels": volume::labels(binary),
    "CreatedAt": "2026-01-01T00:00:00Z",
  });
  let whole_volume = reply(200, &volume.to_string());
  let code = br#"{"StatusCode":137}"#;
  let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", code.len());
  let waiting = vec![Act::Write(head.into_bytes()), Act::Wait(ended.clone()), Act::Write(code.to_vec())];
  let removal = [vec![Act::Open(ended.clone())], reply(204, "")].concat();
  Script::new()
    .on("GET", "/_ping", reply(200, "OK"))
    .on("GET", "/images/i%3A1/json", reply(200, r#"{"Id":"i1","Architecture":"amd64","Config":{}}"#))
    .on("GET", &format!("/volumes/{}", volume::name(binary)), whole_volume)
    .on("POST", "/containers/create", reply(201, r#"{"Id":"c1"}"#))
    .on("GET", "/containers/c1/json", reply(200, r#"{"Id":"c1","State":{"Running":false}}"#))
    .on_seen("GET", "/containers/c1/archive", |seen| {
      let name = seen.path.rsplit("%2F").next().unwrap();
      let contents = if name == "supervisor" { supervisor().bytes() } else { b"whole" };
      vec![Act::Write(archive(name, contents))]
    })
    .on("POST", "/containers/c1/wait", waiting)
    .on("POST", "/containers/c1/attach", vec![Act::Write(stream_head(101)), Act::Talk(talk)])
    .on("POST", "/containers/c1/start", reply(204, ""))
    .on("GET", "/events", reply(200, events))
    .on("GET", "/containers/json", reply(200, "[]"))
    .on("DELETE", "/containers/c1", removal)
    .serve()
}

fn archive(name: &str, contents: &[u8]) -> Vec<u8> {
  let mut tar = tar::Builder::new(Vec::new());
  let mut header = tar::Header::new_ustar();
  header.set_size(contents.len() as u64);
  header.set_mode(0o444);
  tar.append_data(&mut header, name, contents).unwrap();
  let tar = tar.into_inner().unwrap();
  let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", tar.len());
  [head.into_bytes(), tar].concat()
}

/// What can be done in a container on `engine`, which runs already.
pub async fn sandbox(engine: &ScriptedEngine) -> sandbox_docker::error::Result<ResidentSandbox> {
  let client = client(engine);
  let ending = client.ending("c1").await.unwrap();
  let identity = Identity { token: Token([7; 32]), fence: 1, dead_man: Duration::from_secs(60) };
  let link = Link::open(&client, "c1", identity, async { Ok(()) }).await?;
  let held = Box::new(|| futures_util::future::ready(true).boxed());
  Ok(ResidentSandbox::new(Container::new(client, "c1".to_owned(), ending, 0, held), link, BTreeMap::new()))
}
