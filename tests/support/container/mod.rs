//! A container whose process 1 is the supervisor: made by an engine, or by the emulated machine that
//! `scripts/test-arm64.mjs` starts where `SANDBOX_TEST_MACHINE` names one.

use std::time::Duration;

use super::{HANG, Profile};

mod engine;
mod machine;

/// Removed at the end of the test however it ends.
pub struct Container {
  pub id: String,
  maker: Maker,
}

enum Maker {
  Engine(engine::Container),
  Machine(machine::Container),
}

/// Both directions of a stream to process 1.
pub enum Stdio {
  Engine(engine::Stdio),
  Machine(machine::Stdio),
}

impl Container {
  pub fn create(profile: &Profile) -> Self {
    match machine::address() {
      Some(address) => {
        assert!(profile.is_ordinary(), "only an engine makes such a container");
        let container = machine::Container::create(address, profile);
        Self { id: container.id.clone(), maker: Maker::Machine(container) }
      }
      None => {
        let container = engine::Container::create(profile);
        Self { id: container.id.clone(), maker: Maker::Engine(container) }
      }
    }
  }

  /// Another stream to process 1; the ones before stay.
  pub fn attach(&self) -> Stdio {
    self.try_attach(HANG).unwrap()
  }

  /// `None`: there was no answer in time, since somebody holds up the stream.
  pub fn try_attach(&self, patience: Duration) -> Option<Stdio> {
    match &self.maker {
      Maker::Engine(container) => container.try_attach(patience).map(Stdio::Engine),
      Maker::Machine(container) => Some(Stdio::Machine(container.attach())),
    }
  }

  pub fn start(&self) {
    match &self.maker {
      Maker::Engine(container) => container.start(),
      Maker::Machine(container) => container.start(),
    }
  }

  /// Exit code of process 1 once it ended.
  pub fn wait(&self) -> i64 {
    match &self.maker {
      Maker::Engine(container) => container.wait(),
      Maker::Machine(container) => container.wait(),
    }
  }

  /// Stops everything in it, or lets it go on. The machine cannot.
  pub fn freeze(&self, frozen: bool) {
    match &self.maker {
      Maker::Engine(container) => container.freeze(frozen),
      Maker::Machine(_) => panic!("only an engine freezes containers"),
    }
  }

  pub fn is_running(&self) -> bool {
    match &self.maker {
      Maker::Engine(container) => container.is_running(),
      Maker::Machine(container) => container.is_running(),
    }
  }

  /// A stream to a new process, which the engine starts and not the supervisor.
  pub fn exec(&self, argv: &[&str]) -> Stdio {
    self.exec_as("65534:65534", argv)
  }

  /// The machine cannot: tests of this need an engine.
  pub fn exec_as(&self, user: &str, argv: &[&str]) -> Stdio {
    match &self.maker {
      Maker::Engine(container) => Stdio::Engine(container.exec_as(user, argv)),
      Maker::Machine(_) => panic!("only an engine starts {argv:?}"),
    }
  }

  /// What such a process says until its end.
  pub fn exec_text(&self, argv: &[&str]) -> String {
    let (mut stdio, mut said, mut room) = (self.exec(argv), Vec::new(), [0; 4096]);
    loop {
      match stdio.read(&mut room, HANG) {
        Some(0) => return String::from_utf8(said).unwrap(),
        Some(count) => said.extend_from_slice(&room[..count]),
        None => panic!("{argv:?} hung"),
      }
    }
  }

  /// A stream that process 1 is offered.
  pub fn bridge(&self) -> Stdio {
    self.exec(&["/.sandbox/supervisor", "bridge"])
  }
}

impl Stdio {
  /// The same stream for another thread, which only writes.
  pub fn writer(&self) -> Self {
    match self {
      Self::Engine(stdio) => Self::Engine(stdio.writer()),
      Self::Machine(stdio) => Self::Machine(stdio.writer()),
    }
  }

  pub fn write(&mut self, bytes: &[u8]) {
    match self {
      Self::Engine(stdio) => stdio.write(bytes),
      Self::Machine(stdio) => stdio.write(bytes),
    }
  }

  /// An error: nobody is there any more.
  pub fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
    match self {
      Self::Engine(stdio) => stdio.try_write(bytes),
      Self::Machine(stdio) => stdio.try_write(bytes),
    }
  }

  /// Bytes of process 1's standard output; 0: it ended. `None`: nothing came in time.
  pub fn read(&mut self, room: &mut [u8], patience: Duration) -> Option<usize> {
    match self {
      Self::Engine(stdio) => stdio.read(room, patience),
      Self::Machine(stdio) => stdio.read(room, patience),
    }
  }
}
