//! Both streams of a process 1 and whoever is attached to them. What it says while nobody is attached is lost; what is
//! said to it before it starts waits.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdin};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Default)]
pub struct Streams {
  state: Mutex<State>,
  changed: Condvar,
  /// Those that are attached, by their port.
  watchers: Mutex<Vec<(u16, TcpStream)>>,
}

#[derive(Default)]
struct State {
  input: Option<Arc<Mutex<ChildStdin>>>,
  code: Option<i32>,
}

impl Streams {
  /// A process has begun.
  pub fn begin(&self, input: ChildStdin) {
    self.state.lock().unwrap().input = Some(Arc::new(Mutex::new(input)));
    self.changed.notify_all();
  }

  /// Serves it until it ended.
  pub fn run(&self, mut child: Child) {
    let mut output = child.stdout.take().unwrap();
    let mut room = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = output.read(&mut room) {
      self.watchers.lock().unwrap().retain_mut(|(_, watcher)| watcher.write_all(&room[..count]).is_ok());
    }
    let code = child.wait().unwrap().code().unwrap_or(137);
    self.state.lock().unwrap().code = Some(code);
    self.changed.notify_all();
    for (_, watcher) in self.watchers.lock().unwrap().drain(..) {
      let _ = watcher.shutdown(Shutdown::Both);
    }
  }

  /// Passes on what a client says until it closes.
  pub fn attach(&self, stream: &mut TcpStream) {
    let port = stream.peer_addr().unwrap().port();
    {
      let mut watchers = self.watchers.lock().unwrap();
      if stream.write_all(b"ok\n").is_err() {
        return;
      }
      watchers.push((port, stream.try_clone().unwrap()));
    }
    let mut room = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut room) {
      let Some(input) = self.input() else { break };
      // It may end at any time.
      let _ = input.lock().unwrap().write_all(&room[..count]);
    }
    self.watchers.lock().unwrap().retain(|(other, _)| *other != port);
  }

  /// The process's standard input once it is there; `None`: it ended.
  fn input(&self) -> Option<Arc<Mutex<ChildStdin>>> {
    let state = self.state.lock().unwrap();
    let state =
      self.changed.wait_while(state, |state| state.input.is_none() && state.code.is_none()).unwrap();
    if state.code.is_some() { None } else { state.input.clone() }
  }

  /// Waits for the end; the exit code.
  pub fn wait(&self) -> i32 {
    let state = self.state.lock().unwrap();
    self.changed.wait_while(state, |state| state.code.is_none()).unwrap().code.unwrap()
  }

  pub fn was_started(&self) -> bool {
    self.state.lock().unwrap().input.is_some()
  }

  pub fn is_running(&self) -> bool {
    let state = self.state.lock().unwrap();
    state.input.is_some() && state.code.is_none()
  }
}
