//! Containers of the engine whose socket `SANDBOX_TEST_SOCKET` names.
#![expect(clippy::print_stderr, reason = "what process 1 says of itself belongs into the test's output")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use super::super::{HANG, Profile, supervisor};

/// One request to the engine; status and body.
fn engine(method: &str, path: &str, body: &str) -> (u16, String) {
  let mut stream = connect();
  let head = format!(
    "{method} /v1.41{path} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
    body.len()
  );
  stream.write_all(head.as_bytes()).unwrap();
  let mut reply = String::new();
  stream.read_to_string(&mut reply).unwrap();
  let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
  (status, reply.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn connect() -> UnixStream {
  let socket = std::env::var("SANDBOX_TEST_SOCKET").expect("SANDBOX_TEST_SOCKET names the engine's socket");
  let stream = UnixStream::connect(socket).unwrap();
  stream.set_read_timeout(Some(HANG)).unwrap();
  stream.set_write_timeout(Some(HANG)).unwrap();
  stream
}

fn hijack(path: &str, body: &str, patience: Duration) -> Option<Stdio> {
  let mut stream = connect();
  stream.set_read_timeout(Some(patience)).unwrap();
  let head = format!(
    "POST /v1.41{path} HTTP/1.1\r\nHost: d\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
    body.len()
  );
  stream.write_all(head.as_bytes()).unwrap();
  let mut reply = Vec::new();
  while !reply.ends_with(b"\r\n\r\n") {
    let mut byte = [0];
    stream.read_exact(&mut byte).ok()?;
    reply.push(byte[0]);
  }
  assert!(reply.starts_with(b"HTTP/1.1 101"), "{}", reply.escape_ascii());
  Some(Stdio { stream, left: 0, is_error: false })
}

/// No system call of Landlock is there.
const WITHOUT_LANDLOCK: &str = r#","seccomp={\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"landlock_create_ruleset\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":38}]}""#;

pub struct Container {
  pub id: String,
}

impl Container {
  pub fn create(profile: &Profile) -> Self {
    let image = std::env::var("SANDBOX_TEST_IMAGE").unwrap_or_else(|_| "alpine:3.21".to_owned());
    let binds = [format!("{}:/.sandbox/supervisor:ro", installed(profile.program).display())]
      .into_iter()
      .chain(profile.attack.iter().map(|path| format!("{}:/.sandbox/attack:ro", path.display())))
      .map(|bind| format!("\"{bind}\""))
      .collect::<Vec<_>>()
      .join(",");
    let user = profile.user;
    let body = format!(
      r#"{{"Image":"{image}","Entrypoint":["/.sandbox/supervisor"],"Cmd":["/workspace"],"User":"{user}:{user}","OpenStdin":true,
      "StdinOnce":false,"AttachStdin":true,"AttachStdout":true,"AttachStderr":true,"Tty":false,"NetworkDisabled":true,
      "Env":[],"HostConfig":{{"NetworkMode":"none","ReadonlyRootfs":true,"CapDrop":["ALL"],"CapAdd":{:?},"SecurityOpt":["no-new-privileges"{}],
      "PidsLimit":{},"Memory":{},"MemorySwap":{},"NanoCpus":{},"IpcMode":"none","LogConfig":{{"Type":"none"}},"Binds":[{binds}],
      "Tmpfs":{{"/workspace":"rw,exec,nosuid,nodev,size={}m,uid={user},gid={user},mode=0700","/tmp":"rw,exec,nosuid,nodev,size=16m,mode=1777"}}}}}}"#,
      profile.capabilities,
      if profile.landlock { "" } else { WITHOUT_LANDLOCK },
      profile.pids,
      profile.memory,
      profile.memory,
      profile.nano_cpus,
      profile.tmpfs_mib
    );
    let (status, reply) = engine("POST", "/containers/create", &body);
    assert_eq!(status, 201, "{reply}");
    let id = reply.split("\"Id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    Self { id }
  }

  /// `None`: the engine did not answer in time, since somebody holds up the stream.
  pub fn try_attach(&self, patience: Duration) -> Option<Stdio> {
    let path = format!("/containers/{}/attach?stream=1&stdin=1&stdout=1&stderr=1", self.id);
    hijack(&path, "", patience)
  }

  pub fn exec_as(&self, user: &str, argv: &[&str]) -> Stdio {
    let argv = argv.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(",");
    let body = format!(
      r#"{{"AttachStdin":true,"AttachStdout":true,"AttachStderr":true,"User":"{user}","Cmd":[{argv}]}}"#
    );
    let (status, reply) = engine("POST", &format!("/containers/{}/exec", self.id), &body);
    assert_eq!(status, 201, "{reply}");
    let id = reply.split("\"Id\":\"").nth(1).unwrap().split('"').next().unwrap();
    hijack(&format!("/exec/{id}/start"), r#"{"Detach":false,"Tty":false}"#, HANG).unwrap()
  }

  pub fn start(&self) {
    let (status, reply) = engine("POST", &format!("/containers/{}/start", self.id), "");
    assert_eq!(status, 204, "{reply}");
  }

  /// Exit code of process 1 once it ended.
  pub fn wait(&self) -> i64 {
    let (status, reply) = engine("POST", &format!("/containers/{}/wait", self.id), "");
    assert_eq!(status, 200, "{reply}");
    reply.split("\"StatusCode\":").nth(1).unwrap().split(['}', ',']).next().unwrap().trim().parse().unwrap()
  }

  pub fn freeze(&self, frozen: bool) {
    let verb = if frozen { "pause" } else { "unpause" };
    let (status, reply) = engine("POST", &format!("/containers/{}/{verb}", self.id), "");
    assert_eq!(status, 204, "{reply}");
  }

  pub fn is_running(&self) -> bool {
    engine("GET", &format!("/containers/{}/json", self.id), "").1.contains("\"Running\":true")
  }
}

impl Drop for Container {
  fn drop(&mut self) {
    let _ = engine("DELETE", &format!("/containers/{}?force=true&v=true", self.id), "");
  }
}

/// A copy of the supervisor with this mode.
fn installed(mode: u32) -> PathBuf {
  static COPIED: Mutex<BTreeMap<u32, PathBuf>> = Mutex::new(BTreeMap::new());
  let copy = || {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("supervisor-{mode:04o}"));
    let part = to.with_extension(std::process::id().to_string());
    std::fs::copy(supervisor(), &part).unwrap();
    std::fs::set_permissions(&part, std::fs::Permissions::from_mode(mode)).unwrap();
    // Whole or not at all: tests of other programs run at the same time, and may have it mounted.
    std::fs::rename(&part, &to).unwrap();
    to
  };
  COPIED.lock().unwrap().entry(mode).or_insert_with(copy).clone()
}

/// Both directions of an attached stream; the engine's eight-byte headers are taken off what comes.
pub struct Stdio {
  stream: UnixStream,
  left: usize,
  is_error: bool,
}

impl Stdio {
  /// The same stream for another thread, which only writes.
  pub fn writer(&self) -> Self {
    Self { stream: self.stream.try_clone().unwrap(), left: 0, is_error: false }
  }

  pub fn write(&mut self, bytes: &[u8]) {
    self.try_write(bytes).unwrap();
  }

  pub fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
    self.stream.write_all(bytes)
  }

  /// Bytes of process 1's standard output; 0: it ended. `None`: nothing came in time.
  pub fn read(&mut self, room: &mut [u8], patience: Duration) -> Option<usize> {
    self.stream.set_read_timeout(Some(patience)).unwrap();
    loop {
      if self.left == 0 {
        let mut header = [0; 8];
        match self.stream.read(&mut header[..1]) {
          Ok(0) => return Some(0),
          Ok(_) => {}
          Err(_) => return None,
        }
        self.stream.set_read_timeout(Some(HANG)).unwrap();
        self.stream.read_exact(&mut header[1..]).unwrap();
        self.left = u32::from_be_bytes(header[4..].try_into().unwrap()) as usize;
        self.is_error = header[0] == 2;
        continue;
      }
      let most = self.left.min(room.len());
      let count = self.stream.read(&mut room[..most]).unwrap();
      self.left -= count;
      if !self.is_error {
        return Some(count);
      }
      eprintln!("process 1 says: {}", room[..count].escape_ascii());
    }
  }
}
