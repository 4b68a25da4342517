//! What a client may ask for.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::streams::Streams;

/// The period of a CPU quota, in microseconds (`CpuPeriod` of an engine).
const PERIOD: u64 = 100_000;
/// No request is as long.
const LONGEST: usize = 100;

/// All containers.
#[derive(Default)]
pub struct Machine {
  next: AtomicU64,
  containers: Mutex<HashMap<u64, Arc<Container>>>,
}

struct Container {
  group: String,
  tmpfs_mib: u64,
  streams: Streams,
}

/// Reads one request and answers it.
pub fn serve(machine: &Machine, mut stream: TcpStream) {
  stream.set_nodelay(true).unwrap();
  let line = read_line(&mut stream);
  let words: Vec<&str> = line.split(' ').collect();
  let numbers: Option<Vec<u64>> = words[1..].iter().map(|word| word.parse().ok()).collect();
  let answer = match (words[0], numbers.as_deref()) {
    ("create", Some(&[memory, tmpfs_mib, nano_cpus, pids])) => {
      machine.create(memory, tmpfs_mib, nano_cpus, pids)
    }
    (verb, Some(&[id])) => machine.about(verb, id, &mut stream),
    _ => Some(format!("error: not a request: {line}")),
  };
  if let Some(answer) = answer {
    // Whoever asked may be gone.
    let _ = stream.write_all(format!("{answer}\n").as_bytes());
  }
}

fn read_line(stream: &mut TcpStream) -> String {
  let mut line = Vec::new();
  let mut byte = [0];
  while line.len() < LONGEST && matches!(stream.read(&mut byte), Ok(1)) && byte != *b"\n" {
    line.extend(byte);
  }
  String::from_utf8_lossy(&line).into_owned()
}

impl Machine {
  fn create(&self, memory: u64, tmpfs_mib: u64, nano_cpus: u64, pids: u64) -> Option<String> {
    let id = self.next.fetch_add(1, Ordering::Relaxed);
    let group = format!("/sys/fs/cgroup/container-{id}");
    fs::create_dir(&group).unwrap();
    let mut limits = vec![("memory.max", memory.to_string()), ("pids.max", pids.to_string())];
    if nano_cpus > 0 {
      limits.push(("cpu.max", format!("{} {PERIOD}", nano_cpus * PERIOD / 1_000_000_000)));
    }
    for (name, value) in limits {
      fs::write(format!("{group}/{name}"), value).unwrap();
    }
    let container = Container { group, tmpfs_mib, streams: Streams::default() };
    self.containers.lock().unwrap().insert(id, Arc::new(container));
    Some(id.to_string())
  }

  /// `None`: it answered itself.
  fn about(&self, verb: &str, id: u64, stream: &mut TcpStream) -> Option<String> {
    let found = self.containers.lock().unwrap().get(&id).cloned();
    let Some(container) = found else { return Some(format!("error: no container {id}")) };
    match verb {
      "start" => container.start(),
      "attach" => {
        container.streams.attach(stream);
        return None;
      }
      "wait" => return Some(container.streams.wait().to_string()),
      "running" => return Some(container.streams.is_running().to_string()),
      "remove" => {
        self.containers.lock().unwrap().remove(&id);
        container.remove();
      }
      _ => return Some(format!("error: not a request: {verb}")),
    }
    Some("ok".to_owned())
  }
}

impl Container {
  fn start(self: &Arc<Self>) {
    let mut command = Command::new("/init");
    command.args(["container", &self.group, &self.tmpfs_mib.to_string()]);
    // It has the library fork: its `posix_spawn` starts programs with signals 32 and 33 ignored, which no engine does.
    unsafe { command.pre_exec(|| Ok(())) };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    self.streams.begin(child.stdin.take().unwrap());
    let container = self.clone();
    std::thread::spawn(move || container.streams.run(child));
  }

  fn remove(&self) {
    fs::write(format!("{}/cgroup.kill", self.group), "1").unwrap();
    if self.streams.was_started() {
      self.streams.wait();
    }
    // The kernel takes the last process off a group a moment after its parent knows that it ended.
    while fs::read_to_string(format!("{}/cgroup.events", self.group)).unwrap().contains("populated 1") {
      std::thread::sleep(std::time::Duration::from_millis(1));
    }
    fs::remove_dir(&self.group).unwrap();
  }
}
