//! Process 1, as the fuzzer has it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use sandbox_docker::supervisor::wire::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::super::messages::{self, odd_frame};
use super::super::replies::frame;
use super::super::scripted_engine::{Gate, Talk};

/// Bytes of what is written.
const LONG: u64 = super::ask::LONG as u64;
/// How often a host sends a heartbeat (`HEARTBEAT_INTERVAL`), the next number each time.
const BEAT: Duration = Duration::from_secs(5);
/// How long it waits for a request before it goes on.
const AWAIT: Duration = Duration::from_secs(3);
/// A row of bytes for each of which the host wakes up.
const SHREDS: usize = 200;

/// What it does besides saying what it says.
#[derive(Clone, Copy)]
pub struct Plan {
  greeting: Greeting,
  capabilities: u64,
  /// Heartbeats are answered.
  beats: bool,
  /// What the host sends is read.
  reads: bool,
  /// It ends, and the container with it, where it has nothing more to say; else it lives on.
  ends: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
  Honest,
  /// As the input has it, and then a right one.
  Late,
  /// As the input has it.
  None,
}

/// What the check has to know of it.
#[derive(Default)]
pub struct Told {
  /// Something was said that no supervisor of ours says, and behind nothing that may swallow it.
  foreign: AtomicBool,
  over: AtomicBool,
}

impl Told {
  pub fn is_foreign(&self) -> bool {
    self.foreign.load(Ordering::Relaxed)
  }

  pub fn is_over(&self) -> bool {
    self.over.load(Ordering::Relaxed)
  }
}

impl Plan {
  pub fn read(u: &mut Unstructured<'_>) -> Result<Self> {
    Ok(Self {
      greeting: *u.choose(&[
        Greeting::Honest,
        Greeting::Honest,
        Greeting::Honest,
        Greeting::Late,
        Greeting::None,
      ])?,
      capabilities: u.int_in_range(0..=127u64)?,
      beats: u.ratio(3, 4)?,
      reads: u.ratio(15, 16)?,
      ends: u.ratio(1, 4)?,
    })
  }
}

/// The talk of a container that ends with it.
pub fn talk(plan: Plan, script: Arc<[u8]>, ended: Gate, told: Arc<Told>) -> Talk {
  Arc::new(move |stream| {
    let (script, ended, told) = (Arc::clone(&script), ended.clone(), Arc::clone(&told));
    Box::pin(async move {
      if let Some(mut peer) = Peer::meet(stream, plan, Arc::clone(&told)).await {
        // What the input says ends where it ends.
        let _ = peer.play(&mut Unstructured::new(&script)).await;
        peer.after().await;
      }
      told.over.store(true, Ordering::Relaxed);
      ended.open();
    })
  })
}

/// What the host said.
enum Heard {
  Request(u64),
  Heartbeat(u64),
}

struct Peer {
  plan: Plan,
  told: Arc<Told>,
  write: OwnedWriteHalf,
  encoder: Encoder,
  /// When the host said hello.
  since: Instant,
  heard: mpsc::UnboundedReceiver<Heard>,
  requests: Vec<u64>,
  /// Channels that it opened in their order.
  opened: u64,
  /// How much was said of each output stream.
  sent: HashMap<(u64, u8), u64>,
  welcomed: bool,
  /// Nothing was said that may swallow what comes behind it.
  clean: bool,
}

impl Peer {
  /// Reads the hello.
  async fn meet(stream: UnixStream, plan: Plan, told: Arc<Told>) -> Option<Self> {
    let (mut read, write) = stream.into_split();
    let mut decoder = Decoder::for_supervisor();
    let (key, fence) = loop {
      if let Some(frame) = decoder.next_frame() {
        break (frame.key, frame.fence);
      }
      let count = read.read(decoder.space()).await.ok().filter(|count| *count > 0)?;
      decoder.filled(count);
    };
    decoder.bind(key, fence);
    let (hear, heard) = mpsc::unbounded_channel();
    if plan.reads {
      tokio::spawn(listen(read, decoder, hear));
    } else {
      // Open, and never read.
      tokio::spawn(async move {
        let _read = read;
        hear.closed().await;
      });
    }
    let (encoder, since) = (Encoder::new(key, fence), Instant::now());
    let (requests, opened, sent) = (Vec::new(), 0, HashMap::new());
    Some(Self {
      plan,
      told,
      write,
      encoder,
      since,
      heard,
      requests,
      opened,
      sent,
      welcomed: false,
      clean: true,
    })
  }

  async fn play(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
    if self.plan.greeting == Greeting::Honest {
      self.welcome().await;
    }
    while !u.is_empty() {
      self.act(u).await?;
      while let Ok(heard) = self.heard.try_recv() {
        self.take(heard).await;
      }
    }
    Ok(())
  }

  /// Lives on, or not.
  async fn after(&mut self) {
    if self.plan.greeting == Greeting::Late {
      self.welcome().await;
    }
    if self.plan.ends {
      return;
    }
    while self.plan.beats && !self.plan.reads {
      // Without reading them, it answers those that must have been sent.
      sleep(BEAT).await;
      let number = self.since.elapsed().as_secs() / BEAT.as_secs();
      self.say(0, &ToHost::Heartbeat(number)).await;
    }
    while let Some(heard) = self.heard.recv().await {
      self.take(heard).await;
    }
    // The host is gone, or is not heard.
    std::future::pending::<()>().await;
  }

  async fn take(&mut self, heard: Heard) {
    match heard {
      Heard::Request(op) => self.requests.push(op),
      Heard::Heartbeat(number) if self.plan.beats => self.say(0, &ToHost::Heartbeat(number)).await,
      Heard::Heartbeat(_) => {}
    }
  }

  async fn welcome(&mut self) {
    self.welcomed = true;
    let self_test = SelfTest { tried: 0x7f, succeeded: 0 };
    let capabilities = self.plan.capabilities;
    let known = ActiveOperation { op: 5, kind: Kind::Exec, done: false, passed: [0; 3] };
    let welcome = Welcome { digest: [0; 32], capabilities, self_test, operations: vec![known] };
    self.say(0, &ToHost::Welcome(welcome)).await;
  }

  async fn act(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
    let op = self.operation(u)?;
    match u.int_in_range(0..=26u8)? {
      0 => sleep(Duration::from_millis(u.int_in_range(0..=40_000)?)).await,
      1 | 2 => {
        if let Ok(Some(heard)) = timeout(AWAIT, self.heard.recv()).await {
          self.take(heard).await;
        }
      }
      3 => {
        self.clean = false;
        let bytes = messages::bytes(u, 4096)?;
        self.output(bytes).await;
      }
      4 => {
        // In place of the engine's own framing.
        self.clean = false;
        let bytes = messages::bytes(u, 200)?;
        let _ = self.write.write_all(bytes).await;
      }
      5 => {
        self.clean = false;
        let frame = odd_frame(&self.encoder, op, u.arbitrary()?, u.arbitrary()?, messages::bytes(u, 4096)?);
        self.output(&frame).await;
      }
      6 => {
        // What only hosts send.
        let frame = odd_frame(&self.encoder, op, Kind::Cancel as u8, None, &[]);
        self.foreign(&frame).await;
      }
      7 => self.end(op, u).await?,
      8..=11 => {
        let stream = messages::stream(u)?;
        let bytes = messages::bytes(u, MAX_DATA)?;
        let sent = self.sent.entry((op, stream as u8)).or_default();
        let data = Data { stream, offset: *sent, bytes };
        *sent += bytes.len() as u64;
        self.say(op, &ToHost::Data(data)).await;
      }
      12 => {
        let mut bytes = Vec::new();
        for _ in 0..u.int_in_range(0..=4u8)? {
          let path = *u.choose(&[&b"d/a"[..], b"d/b", b"d/a/c", b"d/..", b"/d", b"d", b"e/a", b"d/\xff"])?;
          Entry { kind: *u.choose(EntryKind::ALL)?, mode: u.arbitrary()?, size: messages::number(u)?, path }
            .write(&mut bytes);
        }
        let offset = self.sent.insert((op, Stream::Output as u8), bytes.len() as u64).unwrap_or(0);
        self.say(op, &ToHost::Data(Data { stream: Stream::Output, offset, bytes: &bytes })).await;
      }
      13 => {
        // The last word of an honest one, by what it said before.
        let sent = self.sent.get(&(op, Stream::Output as u8)).copied().unwrap_or(0);
        let reply = *u.choose(&[
          Reply::Read(Read { size: sent, mode: 0o644, sent }),
          Reply::Written(Written { size: LONG }),
          Reply::Tar(TarDone { bytes: sent, entries: 1, skipped: 0 }),
          Reply::Tar(TarDone { bytes: LONG, entries: 1, skipped: 0 }),
          Reply::Listening,
        ])?;
        self.say(op, &ToHost::Done(reply)).await;
      }
      what @ 20..=26 => self.channel(what, op, u).await?,
      _ => {
        let message = messages::to_host(u)?;
        if u.ratio(1, 16)? {
          self.shreds(op, &message).await;
        } else {
          self.say(op, &message).await;
        }
      }
    }
    Ok(())
  }

  /// Something about a connection to the proxy.
  async fn channel(&mut self, what: u8, op: u64, u: &mut Unstructured<'_>) -> Result<()> {
    match what {
      23..=25 => {
        self.opened += 1;
        let window = u32::try_from(messages::number(u)?).unwrap_or(CHANNEL_WINDOW);
        self.say(channel_number(self.opened), &ToHost::Connect(Connect { window })).await;
      }
      26 => {
        // The last words on a channel that an honest one says.
        if u.arbitrary()? {
          self.say(op, &ToHost::End(Stream::Output)).await;
        }
        let how = if u.arbitrary()? { Close::Ended } else { Close::Reset };
        self.say(op, &ToHost::Close(how)).await;
      }
      _ => {
        let number = messages::channel(u)?;
        let message = messages::to_host(u)?;
        self.say(number, &message).await;
      }
    }
    Ok(())
  }

  /// An operation that was asked for, mostly the last one; a channel; none.
  fn operation(&self, u: &mut Unstructured<'_>) -> Result<u64> {
    let back = match u.int_in_range(0..=9u8)? {
      0 => return messages::number(u),
      2..=4 if self.opened > 0 => return Ok(channel_number(u.int_in_range(1..=self.opened)?)),
      1 => 1,
      _ => 0,
    };
    Ok(self.requests.iter().rev().nth(back).copied().unwrap_or(0))
  }

  /// The end of a command, told twice as it must be.
  async fn end(&mut self, op: u64, u: &mut Unstructured<'_>) -> Result<()> {
    let end = messages::command_end(u)?;
    self.say(op, &ToHost::Exited(end)).await;
    self.say(op, &ToHost::Done(Reply::Command(end))).await;
    Ok(())
  }

  async fn say(&mut self, op: u64, message: &ToHost<'_>) {
    let mut bytes = Vec::new();
    if message.encode(&self.encoder, op, &mut bytes).is_ok() {
      self.output(&bytes).await;
    }
  }

  async fn shreds(&mut self, op: u64, message: &ToHost<'_>) {
    let mut bytes = Vec::new();
    if message.encode(&self.encoder, op, &mut bytes).is_ok() {
      let (front, rest) = bytes.split_at(bytes.len().min(SHREDS));
      for byte in front {
        self.output(&[*byte]).await;
        tokio::task::yield_now().await;
      }
      self.output(rest).await;
    }
  }

  /// Says what no supervisor says. Once the host has welcomed it, that must not be forgiven.
  async fn foreign(&mut self, bytes: &[u8]) {
    let taken = self.write.write_all(&frame(1, bytes)).await.is_ok();
    if taken && self.clean && self.welcomed {
      self.told.foreign.store(true, Ordering::Relaxed);
    }
  }

  /// Standard output, as the engine passes it on.
  async fn output(&mut self, bytes: &[u8]) {
    // Whoever is gone hears nothing.
    let _ = self.write.write_all(&frame(1, bytes)).await;
  }
}

async fn listen(mut read: OwnedReadHalf, mut decoder: Decoder, hear: mpsc::UnboundedSender<Heard>) {
  loop {
    while let Some(frame) = decoder.next_frame() {
      let is_request = (Kind::ReadFile as u8..=Kind::Listen as u8).contains(&(frame.kind as u8));
      let heard = match ToInside::decode(&frame) {
        Ok(ToInside::Heartbeat(number)) => Heard::Heartbeat(number),
        _ if is_request => Heard::Request(frame.op),
        _ => continue,
      };
      if hear.send(heard).is_err() {
        return;
      }
    }
    match read.read(decoder.space()).await {
      Ok(count @ 1..) => decoder.filled(count),
      _ => return,
    }
  }
}
