//! A host that speaks the wire to process 1 of a container: blocking, one thread, no library.
#![expect(
  dead_code,
  clippy::expect_used,
  clippy::indexing_slicing,
  clippy::panic,
  clippy::unwrap_used,
  reason = "test support"
)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

#[path = "container/mod.rs"]
mod container;
pub use container::{Container, Stdio};

/// A hang is a failed test. Far above what any test needs on a busy machine.
pub const HANG: Duration = Duration::from_secs(60);
/// What the first holder of a test is.
pub const TOKEN: Token = Token([7; 32]);

/// The user of all containers but those in which a test wants another.
pub const NOBODY: u32 = 65534;
/// The mode in which the product installs the supervisor: only to be executed, which by itself keeps others out of its
/// memory.
pub const INSTALLED: u32 = 0o111;

/// What a test wants other than the full profile. The emulated machine knows memory, processors, processes and the size of
/// the workspace.
pub struct Profile {
  pub nano_cpus: u64,
  pub memory: u64,
  pub tmpfs_mib: u32,
  /// A program that is there as `/.sandbox/attack`.
  pub attack: Option<PathBuf>,
  /// Without it the kernel keeps commands from each other and from the door less well, as older ones do.
  pub landlock: bool,
  pub pids: u32,
  /// User and group, whose the workspace is.
  pub user: u32,
  /// Capabilities that the product gives to nobody.
  pub capabilities: &'static [&'static str],
  /// The mode of the supervisor's file.
  pub program: u32,
}

impl Default for Profile {
  fn default() -> Self {
    Self {
      nano_cpus: 0,
      memory: 256 << 20,
      tmpfs_mib: 128,
      attack: None,
      landlock: true,
      pids: 64,
      user: NOBODY,
      capabilities: &[],
      program: INSTALLED,
    }
  }
}

impl Profile {
  /// Whether user, capabilities and program are as the product has them.
  pub const fn is_ordinary(&self) -> bool {
    self.user == NOBODY && self.capabilities.is_empty() && self.program == INSTALLED
  }
}

/// How many bytes go through at once where a test wants many: emulated, 32 MiB take about as long as a command may.
pub fn many_bytes() -> u32 {
  if std::env::var_os("SANDBOX_TEST_MACHINE").is_some() { 4 << 20 } else { 32 << 20 }
}

/// With Landlock's scopes and without. Emulated there is a kernel that is too old for them.
pub fn landlocks() -> &'static [bool] {
  if std::env::var_os("SANDBOX_TEST_MACHINE").is_some() { &[false] } else { &[true, false] }
}

/// The supervisor that `scripts/build-supervisor.mjs` built.
pub fn supervisor() -> PathBuf {
  let built = std::env::var_os("SANDBOX_SUPERVISOR").map(PathBuf::from);
  let path =
    built.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/embed/supervisor-x64"));
  assert!(path.exists(), "{} is not there: run scripts/build-supervisor.mjs", path.display());
  path
}

/// Where the attacking program is in a container that has it.
pub const ATTACK: &str = "/.sandbox/attack";

/// The attacking program, compiled once. `SANDBOX_ATTACK` names it where it was compiled for another architecture.
pub fn attack() -> PathBuf {
  static BUILT: OnceLock<PathBuf> = OnceLock::new();
  if let Some(built) = std::env::var_os("SANDBOX_ATTACK") {
    return PathBuf::from(built);
  }
  let build = || {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("attack");
    let part = to.with_extension(std::process::id().to_string());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/attack.rs");
    let flags = ["--edition", "2024", "-O", "-C", "target-feature=+crt-static", "-o"];
    let status = std::process::Command::new("rustc").args(flags).arg(&part).arg(source).status().unwrap();
    assert!(status.success());
    std::fs::rename(&part, &to).unwrap();
    to
  };
  BUILT.get_or_init(build).clone()
}

/// What came of one operation.
#[derive(Debug, Default, Clone)]
pub struct Outcome {
  pub started: Option<Started>,
  pub output: Vec<u8>,
  pub error: Vec<u8>,
  pub ended: [bool; 3],
  pub exited: Option<CommandEnd>,
  pub done: Option<Reply>,
  /// How far its input may be sent.
  pub granted: u64,
  /// Bytes of output and error that went to an earlier holder.
  missed: [u64; 2],
}

impl Outcome {
  pub fn how(&self) -> How {
    match self.done {
      Some(Reply::Command(end)) => end.how,
      ref other => panic!("no command ended: {other:?}"),
    }
  }

  pub fn text(&self) -> String {
    String::from_utf8_lossy(&self.output).into_owned()
  }

  pub fn failure(&self) -> Failure {
    match self.done {
      Some(Reply::Failed(failed)) => failed.failure,
      ref other => panic!("it did not fail: {other:?}"),
    }
  }
}

/// The holder of a container.
pub struct Host {
  pub stdio: Stdio,
  pub encoder: Encoder,
  decoder: Decoder,
  pub welcome: Option<Welcome>,
  pub refused: Option<Refusal>,
  pub notices: Vec<(Notice, u64)>,
  pub operations: HashMap<u64, Outcome>,
  pub heartbeats: Vec<u64>,
  pub ended: bool,
  /// Grant output as it comes.
  pub greedy: bool,
  next: u64,
}

/// How much output an operation may send at first.
pub const WINDOW: u32 = 256 * 1024;

impl Host {
  pub fn new(stdio: Stdio, key: u64, fence: u64) -> Self {
    Self {
      stdio,
      encoder: Encoder::new(key, fence),
      decoder: Decoder::for_host(key, fence),
      welcome: None,
      refused: None,
      notices: Vec::new(),
      operations: HashMap::new(),
      heartbeats: Vec::new(),
      ended: false,
      greedy: true,
      next: fence << 32,
    }
  }

  /// Says hello and waits for the answer.
  pub fn greet(&mut self, token: Token, dead_man_ms: u32) {
    self.send(0, &ToInside::Hello(Hello { token, next_token: token, dead_man_ms }));
    self.until(|host| host.welcome.is_some() || host.refused.is_some());
  }

  pub fn send(&mut self, op: u64, message: &ToInside<'_>) {
    let mut bytes = Vec::new();
    message.encode(&self.encoder, op, &mut bytes).unwrap();
    self.stdio.write(&bytes);
  }

  /// Sends to somebody who may be gone by now.
  pub fn offer(&mut self, op: u64, message: &ToInside<'_>) {
    let mut bytes = Vec::new();
    message.encode(&self.encoder, op, &mut bytes).unwrap();
    let _ = self.stdio.try_write(&bytes);
  }

  /// Opens an operation.
  pub fn open(&mut self, request: &ToInside<'_>) -> u64 {
    self.next += 1;
    let op = self.next;
    self.operations.insert(op, Outcome { granted: INITIAL_WINDOW, ..Outcome::default() });
    self.send(op, request);
    op
  }

  /// Reads until it is so.
  pub fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
    let start = Instant::now();
    while !is_so(self) {
      assert!(start.elapsed() < HANG, "the supervisor hung");
      assert!(!self.ended, "process 1 ended; notices {:?}", self.notices);
      self.read(HANG);
    }
  }

  /// Reads for so long.
  pub fn read_for(&mut self, time: Duration) {
    let start = Instant::now();
    while !self.ended && start.elapsed() < time {
      self.read(Duration::from_millis(20));
    }
  }

  pub fn read(&mut self, patience: Duration) {
    match self.stdio.read(self.decoder.space(), patience) {
      None => return,
      Some(0) => {
        self.ended = true;
        return;
      }
      Some(count) => self.decoder.filled(count),
    }
    let mut grants = Vec::new();
    while let Some(frame) = self.decoder.next_frame() {
      let op = frame.op;
      let message = ToHost::decode(&frame).unwrap();
      match message {
        ToHost::Welcome(welcome) => self.welcome = Some(welcome),
        ToHost::Refused(refusal) => self.refused = Some(refusal),
        ToHost::Heartbeat(number) => self.heartbeats.push(number),
        ToHost::Notice(notice, count) => self.notices.push((notice, count)),
        message => {
          let outcome = self.operations.entry(op).or_default();
          if let Some(grant) = note(outcome, message) {
            grants.push((op, grant));
          }
        }
      }
    }
    grants.retain(|_| self.greedy);
    for (op, credit) in grants {
      self.offer(op, &ToInside::Credit(credit));
    }
  }

  /// Waits for the end of an operation and acknowledges it.
  pub fn finish(&mut self, op: u64) -> Outcome {
    self.until(|host| host.operations[&op].done.is_some());
    self.send(op, &ToInside::Ack);
    self.operations.remove(&op).unwrap()
  }

  /// Sends the input of an operation as it is granted, then its end.
  pub fn feed(&mut self, op: u64, bytes: &[u8]) {
    let mut sent = 0;
    while sent < bytes.len() {
      let granted = usize::try_from(self.operations[&op].granted).unwrap();
      let next = granted.min(bytes.len()).min(sent + MAX_DATA);
      if next > sent {
        self.send(
          op,
          &ToInside::Data(Data { stream: Stream::Input, offset: sent as u64, bytes: &bytes[sent..next] }),
        );
        sent = next;
      } else if self.operations[&op].done.is_some() {
        return;
      } else {
        self.read(HANG);
      }
    }
    self.send(op, &ToInside::End(Stream::Input));
  }

  /// Begins a command.
  pub fn spawn(&mut self, argv: &[&str], change: impl FnOnce(&mut Exec<'_>)) -> u64 {
    let argv = StringsBuf::of(argv).unwrap();
    let env = StringsBuf::of(["PATH=/usr/bin:/bin:/usr/sbin:/sbin", "A=b"]).unwrap();
    let mut exec = Exec {
      window: WINDOW,
      timeout_ms: 50_000,
      max_stdout: 1 << 40,
      max_stderr: 1 << 20,
      stdin: false,
      cwd: RelativePath::WORKSPACE,
      argv: argv.view(),
      env: env.view(),
    };
    change(&mut exec);
    self.open(&ToInside::Exec(exec))
  }

  /// The number of a command's first process, once it has executed its program.
  pub fn pid(&mut self, op: u64) -> u32 {
    self.until(|host| host.operations[&op].started.is_some());
    match self.operations[&op].started {
      Some(Started::Command { pid }) => pid,
      other => panic!("it is no command: {other:?}"),
    }
  }

  /// Runs a command to its end.
  pub fn run(&mut self, argv: &[&str]) -> Outcome {
    let op = self.spawn(argv, |_| {});
    self.finish(op)
  }

  pub fn sh(&mut self, script: &str) -> Outcome {
    self.run(&["sh", "-c", script])
  }

  pub fn write_file(&mut self, path: &str, contents: &[u8]) -> Outcome {
    let path = RelativePath::new(path.as_bytes()).unwrap();
    let op = self.open(&ToInside::WriteFile(WriteFile {
      mode: 0o640,
      size: contents.len() as u64,
      overwrite: true,
      path,
    }));
    self.feed(op, contents);
    self.finish(op)
  }

  pub fn read_file(&mut self, path: &str, offset: u64, limit: u64) -> Outcome {
    let path = RelativePath::new(path.as_bytes()).unwrap();
    let op = self.open(&ToInside::ReadFile(ReadFile { window: WINDOW, offset, limit, path }));
    self.finish(op)
  }

  pub fn list(&mut self, path: &str, depth: u32, limit: u32) -> Outcome {
    let path = RelativePath::new(path.as_bytes()).unwrap();
    let op = self.open(&ToInside::List(List { window: WINDOW, depth, limit, path }));
    self.finish(op)
  }
}

/// Paths and kinds of a listing's output.
pub fn entries(mut bytes: &[u8]) -> Vec<(String, EntryKind, u64, u32)> {
  let mut all = Vec::new();
  while let Some((entry, length)) = Entry::read(bytes).unwrap() {
    all.push((String::from_utf8_lossy(entry.path).into_owned(), entry.kind, entry.size, entry.mode));
    bytes = &bytes[length..];
  }
  assert!(bytes.is_empty());
  all
}

fn note(outcome: &mut Outcome, message: ToHost<'_>) -> Option<Credit> {
  assert!(outcome.done.is_none(), "a frame after the last one: {message:?}");
  match message {
    ToHost::Started(started) => outcome.started = Some(started),
    ToHost::Exited(end) => outcome.exited = Some(end),
    ToHost::Done(reply) => outcome.done = Some(reply),
    ToHost::End(stream) => outcome.ended[stream as usize] = true,
    ToHost::Credit(credit) => outcome.granted = credit.limit,
    ToHost::Data(data) => {
      assert!(!outcome.ended[data.stream as usize]);
      let is_output = data.stream == Stream::Output;
      let to = if is_output { &mut outcome.output } else { &mut outcome.error };
      let missed = &mut outcome.missed[usize::from(is_output)];
      // Only of an operation that another holder opened does some come from the middle.
      if to.is_empty() && outcome.granted == 0 {
        *missed = data.offset;
      }
      assert_eq!(data.offset, *missed + to.len() as u64);
      to.extend_from_slice(data.bytes);
      return Some(Credit {
        stream: data.stream,
        limit: data.offset + data.bytes.len() as u64 + u64::from(WINDOW),
      });
    }
    other => panic!("not about an operation: {other:?}"),
  }
  None
}

/// A fresh container and its first holder.
pub fn resident(profile: &Profile) -> (Container, Host) {
  let container = Container::create(profile);
  let stdio = container.attach();
  container.start();
  let mut host = Host::new(stdio, 0xA1, 1);
  host.greet(TOKEN, 0);
  assert_eq!(host.refused, None);
  (container, host)
}
