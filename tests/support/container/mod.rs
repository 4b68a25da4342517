//! A container whose process 1 is the supervisor: made by an engine, or by the emulated machine that
//! `scripts/test-arm64.mjs` starts where `SANDBOX_TEST_MACHINE` names one.

use std::time::Duration;

use super::Profile;

mod engine;
mod machine;

/// Removed at the end of the test however it ends.
pub enum Container {
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
      Some(address) => Self::Machine(machine::Container::create(address, profile)),
      None => Self::Engine(engine::Container::create(profile)),
    }
  }

  /// Another stream to process 1; the ones before stay.
  pub fn attach(&self) -> Stdio {
    match self {
      Self::Engine(container) => Stdio::Engine(container.attach()),
      Self::Machine(container) => Stdio::Machine(container.attach()),
    }
  }

  pub fn start(&self) {
    match self {
      Self::Engine(container) => container.start(),
      Self::Machine(container) => container.start(),
    }
  }

  /// Exit code of process 1 once it ended.
  pub fn wait(&self) -> i64 {
    match self {
      Self::Engine(container) => container.wait(),
      Self::Machine(container) => container.wait(),
    }
  }

  pub fn is_running(&self) -> bool {
    match self {
      Self::Engine(container) => container.is_running(),
      Self::Machine(container) => container.is_running(),
    }
  }
}

impl Stdio {
  pub fn write(&mut self, bytes: &[u8]) {
    match self {
      Self::Engine(stdio) => stdio.write(bytes),
      Self::Machine(stdio) => stdio.write(bytes),
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
