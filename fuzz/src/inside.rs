//! The supervisor against whoever reaches its stream: its own loop, on a real directory, with hostile bytes. Nothing
//! outside the workspace is read or changed, what it says is what the protocol allows, and whatever it was told, an honest
//! host is heard afterwards.
//!
//! It makes no process here ([`guard`]): a request to run a command comes as far as the fork, which is refused.

mod guard;
mod place;

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use arbitrary::{Result, Unstructured};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use sandbox_docker::supervisor::inside::fuzzing::Driven;
use sandbox_docker::supervisor::wire::*;

use super::archive;
use super::messages::{self, Words, odd_frame};
use place::{PATHS, Place};

/// Two decoders, what waits to be written, 64 operations, each with what one of them may keep, and programs' channels.
const MEMORY: usize = 48 * 1024 * 1024;
/// Most turns of one input; and of an honest host afterwards, who waits for nothing but its own frames.
const TURNS: usize = 300;
const PATIENCE: usize = 20_000;
/// One of them is the one that was agreed.
const TOKENS: [Token; 2] = [Token([7; 32]), Token([8; 32])];
const KEY: u64 = 0x1122_3344_5566_7788;
const FENCE: u64 = 7;
/// The honest host's.
const LAST_FENCE: u64 = u64::MAX;
/// Most programs that are connected to the proxy.
const PROGRAMS: usize = 12;
/// Longest row of bytes that are sent before the supervisor has its turn: more stays in the pipe's buffer.
const MOST: usize = 48 * 1024;

pub fn check(data: &[u8]) {
  guard::no_processes();
  super::bounded(MEMORY, || {
    let place = Place::new();
    let mut host = Host::new(&place);
    // The end of an input is the end of what is said, wherever it is.
    let _ = host.play(&mut Unstructured::new(data));
    host.resynchronise();
    drop(host);
    place.is_as_it_was();
  });
}

/// The other end of the stream.
struct Host<'a> {
  place: &'a Place,
  supervisor: Driven,
  to: OwnedFd,
  from: OwnedFd,
  encoder: Encoder,
  /// Everybody who said hello. Who is refused changes nothing for the holder, who may go on.
  ears: Vec<Ear>,
  /// Process 1 would have ended.
  ended: bool,
  /// How much of its input each operation was sent.
  sent: HashMap<u64, u64>,
  /// Where the supervisor is asked to listen, and who connected there.
  port: u16,
  programs: Vec<TcpStream>,
}

/// Somebody who said hello, and hears what is for nobody else.
struct Ear {
  key: u64,
  fence: u64,
  decoder: Decoder,
  said: Said,
}

/// What the supervisor said to one of them.
#[derive(Default)]
struct Said {
  welcomes: usize,
  /// How far each output stream is.
  offsets: HashMap<(u64, Stream), u64>,
  ended: HashSet<(u64, Stream)>,
  /// Channels, and the highest number that there was.
  channels: HashSet<u64>,
  newest: u64,
  /// Operations whose last word was said, and not acknowledged.
  done: HashSet<u64>,
  /// Operations that were acknowledged before their last word was heard. A request may wait in the supervisor behind the head
  /// of a frame that never comes, and be understood together with its acknowledgement.
  acknowledged: HashSet<u64>,
}

impl<'a> Host<'a> {
  fn new(place: &'a Place) -> Self {
    let pair = || pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    let ((input, to), (from, output)) = (pair(), pair());
    let supervisor = Driven::new(place.workspace().as_os_str(), input, output).unwrap();
    Self {
      place,
      supervisor,
      to,
      from,
      encoder: Encoder::new(KEY, FENCE),
      ears: Vec::new(),
      ended: false,
      sent: HashMap::new(),
      port: free_port(),
      programs: Vec::new(),
    }
  }

  /// Says what the input says.
  fn play(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
    if u.ratio(7, 8)? {
      self.hello(Hello { token: TOKENS[0], next_token: TOKENS[0], dead_man_ms: 0 });
    }
    for _ in 0..TURNS {
      if u.is_empty() || self.ended {
        break;
      }
      self.act(u)?;
    }
    Ok(())
  }

  fn act(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
    let op = if u.ratio(1, 6)? { messages::channel(u)? } else { u.int_in_range(0..=5u64)? };
    match u.int_in_range(0..=17u8)? {
      16 => self.program(),
      17 => self.programs_act(u)?,
      0 => self.turn(),
      1 => {
        for _ in 0..u.int_in_range(0..=20u8)? {
          self.turn();
        }
        self.listen();
      }
      2 => self.send(messages::bytes(u, MOST)?),
      3 => {
        let (kind, length, payload) = (u.arbitrary()?, u.arbitrary()?, messages::bytes(u, 4096)?);
        // Who is believed, and whose token counts, is for [`Self::hello`] to say.
        if kind != Kind::Hello as u8 || payload.len() + HEADER != HELLO_FRAME {
          self.send(&odd_frame(&self.encoder, op, kind, length, payload));
        }
      }
      4 => {
        let (token, next_token) = (*u.choose(&TOKENS)?, *u.choose(&TOKENS)?);
        let fence = FENCE + u.int_in_range(0..=2u64)?;
        self.encoder = Encoder::new(u.int_in_range(KEY..=KEY + 1)?, fence);
        self.hello(Hello { token, next_token, dead_man_ms: 0 });
      }
      5 => {
        let mut frame = Vec::new();
        ToInside::End(Stream::Input).encode(&self.encoder, op, &mut frame).unwrap();
        self.send(&frame);
      }
      6 => self.input(op, messages::bytes(u, MOST)?),
      7 => {
        let length = u.int_in_range(0..=600.min(u.len()))?;
        let tar = archive::made(&mut Unstructured::new(u.bytes(length)?));
        self.input(op, &tar[..tar.len().min(MOST)]);
      }
      _ => {
        let words = Words::new(u)?;
        let message = messages::to_inside(u, &words, &PATHS, self.port)?;
        let mut frame = Vec::new();
        if message.encode(&self.encoder, op, &mut frame).is_err() {
          return Ok(());
        }
        match message {
          ToInside::Ack => {
            // A last word that is on its way is one of before.
            self.hear_all();
            let said = self.said();
            if !said.done.remove(&op) {
              said.acknowledged.insert(op);
            }
          }
          ToInside::WriteFile(_) | ToInside::TarIn(_) => drop(self.sent.remove(&op)),
          _ => {}
        }
        self.send(&frame);
      }
    }
    Ok(())
  }

  /// A program connects to the proxy, where the supervisor listens.
  fn program(&mut self) {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port);
    if self.programs.len() < PROGRAMS
      && let Ok(program) = TcpStream::connect(address)
    {
      program.set_nonblocking(true).unwrap();
      self.programs.push(program);
    }
  }

  /// One of them writes, reads, ends its direction, or goes.
  fn programs_act(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
    if self.programs.is_empty() {
      return Ok(());
    }
    let place = u.choose_index(self.programs.len())?;
    match u.int_in_range(0..=3u8)? {
      0 => drop(self.programs[place].write(messages::bytes(u, MOST)?)),
      1 => drop(self.programs[place].read(&mut [0; 4096])),
      2 => drop(self.programs[place].shutdown(std::net::Shutdown::Write)),
      _ => drop(self.programs.swap_remove(place)),
    }
    Ok(())
  }

  /// A piece of input behind what was sent before.
  fn input(&mut self, op: u64, bytes: &[u8]) {
    let offset = self.sent.entry(op).or_default();
    let data = Data { stream: Stream::Input, offset: *offset, bytes };
    *offset += bytes.len() as u64;
    let mut frame = Vec::new();
    data_frame(&self.encoder, op, data, &mut frame);
    self.send(&frame);
  }

  /// What was said under the present key and fence.
  fn said(&mut self) -> &mut Said {
    let ear = self.ear();
    &mut self.ears[ear].said
  }

  /// The place of who has the present key and fence.
  fn ear(&mut self) -> usize {
    let (key, fence) = (self.encoder.key(), self.encoder.fence());
    let known = self.ears.iter().position(|ear| (ear.key, ear.fence) == (key, fence));
    known.unwrap_or_else(|| {
      self.ears.push(Ear { key, fence, decoder: Decoder::for_host(key, fence), said: Said::default() });
      self.ears.len() - 1
    })
  }

  /// Says hello under the present key and fence.
  fn hello(&mut self, hello: Hello) {
    self.ear();
    let mut frame = Vec::new();
    ToInside::Hello(hello).encode(&self.encoder, 0, &mut frame).unwrap();
    self.send(&frame);
  }

  /// Sends all of it; where the pipe is full, the supervisor has its turn, and what it says is read.
  fn send(&mut self, mut bytes: &[u8]) {
    while !bytes.is_empty() && !self.ended {
      match rustix::io::write(&self.to, bytes) {
        Ok(count) => bytes = &bytes[count..],
        Err(Errno::AGAIN) => {
          self.turn();
          self.listen();
        }
        Err(error) => panic!("{error}"),
      }
    }
  }

  /// Until the supervisor has nothing more to say.
  fn hear_all(&mut self) {
    loop {
      self.turn();
      if self.listen() == 0 {
        return;
      }
    }
  }

  fn turn(&mut self) {
    if !self.ended {
      self.ended = self.supervisor.turn().is_err();
    }
  }

  /// Reads what was said, and holds it against the protocol: how many bytes.
  fn listen(&mut self) -> usize {
    let (mut room, mut all) = ([0; 64 * 1024], 0);
    while let Ok(count @ 1..) = rustix::io::read(&self.from, &mut room) {
      all += count;
      self.place.is_not_in(&room[..count]);
      for ear in &mut self.ears {
        ear.hear(&room[..count]);
      }
    }
    all
  }

  /// An honest host comes. If it has no answer, the one before may have left half a frame.
  fn resynchronise(&mut self) {
    self.encoder = Encoder::new(self.encoder.key() ^ 0x55, LAST_FENCE);
    for zeros in [0, PREAMBLE] {
      self.send(&vec![0; zeros]);
      for token in TOKENS {
        self.hello(Hello { token, next_token: token, dead_man_ms: 60_000 });
        self.hear_all();
        if self.ended || self.said().welcomes > 0 {
          return self.works();
        }
      }
    }
    panic!("an honest host is not heard");
  }

  /// And can work.
  fn works(&mut self) {
    const OP: u64 = 1 << 40;
    let request =
      ReadFile { window: 1000, offset: 0, limit: 1000, path: RelativePath::new(b"no/such/file").unwrap() };
    let mut frame = Vec::new();
    ToInside::ReadFile(request).encode(&self.encoder, OP, &mut frame).unwrap();
    self.send(&frame);
    for _ in 0..PATIENCE {
      if self.ended || self.said().done.contains(&OP) {
        return;
      }
      self.turn();
      self.listen();
    }
    panic!("an honest host has no answer");
  }
}

impl Ear {
  fn hear(&mut self, mut bytes: &[u8]) {
    while !bytes.is_empty() {
      let taken = self.decoder.feed(bytes);
      bytes = &bytes[taken..];
      while let Some(frame) = self.decoder.next_frame() {
        let op = frame.op;
        let message = ToHost::decode(&frame).unwrap();
        self.said.hear(op, &message);
      }
    }
  }
}

impl Said {
  fn hear(&mut self, op: u64, message: &ToHost<'_>) {
    let is_welcome = matches!(message, ToHost::Welcome(_));
    // What was said before it was there to hear is no part of this.
    if self.welcomes == 0 && !is_welcome {
      return;
    }
    let of_channel =
      matches!(message, ToHost::Data(_) | ToHost::End(_) | ToHost::Credit(_)) && is_channel(op);
    assert!(!of_channel || self.channels.contains(&op), "{op} is not open: {message:?}");
    match message {
      ToHost::Welcome(welcome) => {
        assert_eq!(op, 0);
        self.welcomes += 1;
        assert!(welcome.operations.len() <= MAX_ACTIVE + MAX_RETAINED);
        for known in &welcome.operations {
          for stream in [Stream::Output, Stream::Error] {
            self.offsets.insert((known.op, stream), known.passed[stream as usize]);
          }
        }
        // Those that are over are told again.
        self.done.clear();
      }
      ToHost::Data(data) => {
        assert!(!data.bytes.is_empty() && data.stream != Stream::Input, "{data:?}");
        assert!(!self.done.contains(&op) && !self.ended.contains(&(op, data.stream)), "{op}: {data:?}");
        let offset = self.offsets.entry((op, data.stream)).or_default();
        assert_eq!(data.offset, *offset, "{op}");
        *offset += data.bytes.len() as u64;
      }
      ToHost::End(stream) => assert!(self.ended.insert((op, *stream)), "{op}: {stream:?} ends twice"),
      ToHost::Done(Reply::Failed(Failed { failure: Failure::TooMany, .. })) => {}
      ToHost::Done(_) => {
        assert!(self.acknowledged.remove(&op) || self.done.insert(op), "{op} is done twice");
        self.offsets.retain(|(of, _), _| *of != op);
        self.ended.retain(|(of, _)| *of != op);
      }
      ToHost::Started(_) | ToHost::Credit(_) => {
        assert!(!self.done.contains(&op), "{op}: {message:?} after its end")
      }
      ToHost::Refused(_) | ToHost::Heartbeat(_) | ToHost::Notice(..) => {}
      ToHost::Connect(_) => {
        assert!(is_channel(op) && op > self.newest, "{op} is no new channel");
        self.newest = op;
        assert!(self.channels.insert(op) && self.channels.len() <= MAX_CHANNELS);
      }
      ToHost::Close(_) => assert!(self.channels.remove(&op), "{op} is no channel, or was closed"),
      ToHost::Exited(_) => panic!("{op}: nothing ever ran"),
    }
  }
}

/// A port of this machine's loopback address that nobody has; another process may take it, and then nobody listens.
fn free_port() -> u16 {
  TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn data_frame(encoder: &Encoder, op: u64, data: Data<'_>, out: &mut Vec<u8>) {
  ToInside::Data(data).encode(encoder, op, out).unwrap();
}
