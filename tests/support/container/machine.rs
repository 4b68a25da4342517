//! Containers of an emulated machine; `support/guest/` is the other end and says what may be asked for.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::super::{HANG, Profile};

/// Where the machine takes requests.
pub fn address() -> Option<String> {
  std::env::var("SANDBOX_TEST_MACHINE").ok()
}

pub struct Container {
  address: String,
  pub id: String,
}

impl Container {
  /// The machine's image always holds `/.sandbox/attack`.
  pub fn create(address: String, profile: &Profile) -> Self {
    let request =
      format!("create {} {} {} {}", profile.memory, profile.tmpfs_mib, profile.nano_cpus, profile.pids);
    let id = ask(&address, &request).1;
    Self { address, id }
  }

  pub fn attach(&self) -> Stdio {
    let (stream, answer) = self.ask("attach");
    assert_eq!(answer, "ok");
    Stdio { stream }
  }

  pub fn start(&self) {
    assert_eq!(self.ask("start").1, "ok");
  }

  pub fn wait(&self) -> i64 {
    self.ask("wait").1.parse().unwrap()
  }

  pub fn is_running(&self) -> bool {
    self.ask("running").1.parse().unwrap()
  }

  fn ask(&self, verb: &str) -> (TcpStream, String) {
    ask(&self.address, &format!("{verb} {}", self.id))
  }
}

impl Drop for Container {
  fn drop(&mut self) {
    assert_eq!(self.ask("remove").1, "ok");
  }
}

/// The answer, and the connection behind it.
fn ask(address: &str, request: &str) -> (TcpStream, String) {
  let mut stream = TcpStream::connect(address).unwrap();
  stream.set_nodelay(true).unwrap();
  stream.set_read_timeout(Some(HANG)).unwrap();
  stream.set_write_timeout(Some(HANG)).unwrap();
  stream.write_all(format!("{request}\n").as_bytes()).unwrap();
  let mut answer = Vec::new();
  while !answer.ends_with(b"\n") {
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    answer.push(byte[0]);
  }
  let answer = String::from_utf8(answer).unwrap().trim_end().to_owned();
  assert!(!answer.starts_with("error"), "{request}: {answer}");
  (stream, answer)
}

pub struct Stdio {
  stream: TcpStream,
}

impl Stdio {
  /// The same stream for another thread, which only writes.
  pub fn writer(&self) -> Self {
    Self { stream: self.stream.try_clone().unwrap() }
  }

  pub fn write(&mut self, bytes: &[u8]) {
    self.try_write(bytes).unwrap();
  }

  pub fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
    self.stream.write_all(bytes)
  }

  pub fn read(&mut self, room: &mut [u8], patience: Duration) -> Option<usize> {
    self.stream.set_read_timeout(Some(patience)).unwrap();
    match self.stream.read(room) {
      Ok(count) => Some(count),
      Err(error)
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
      {
        None
      }
      // The machine closed it while something of ours was still under way.
      Err(_) => Some(0),
    }
  }
}
