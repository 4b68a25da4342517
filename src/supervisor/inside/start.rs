//! From exec to the loop: nothing of the container has run yet.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;

use super::bridge::{self, Door};
use super::channels::Channels;
use super::command::{Launcher, Processes};
use super::files::Workspace;
use super::link::Link;
use super::looping::{Parts, Supervisor};
use super::memory::MemoryKills;
use super::system::filter::Filter;
use super::system::{child, image, limits, signals};
use super::wires::Wires;
use crate::supervisor::wire::Capability;

/// Where the workspace is, unless the first argument says otherwise.
const WORKSPACE: &str = "/workspace";

/// First argument of the process that brings another stream.
const BRIDGE: &str = "bridge";

/// Exit codes that say why it did not start; the engine shows them.
mod code {
  /// It is not process 1.
  pub const NOT_FIRST: u8 = 80;
  /// The kernel refused what every rule here rests on.
  pub const KERNEL: u8 = 81;
  /// There is no workspace.
  pub const WORKSPACE: u8 = 82;
}

/// Makes this process what it must be; the error is its exit code, or that of a bridge when it is over.
pub fn start() -> Result<Supervisor, u8> {
  // First of all: until here only the file's mode keeps others out.
  rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|_| code::KERNEL)?;
  if std::env::args_os().nth(1).is_some_and(|argument| argument == BRIDGE) {
    return Err(bridge::offer());
  }
  if rustix::process::getpid().as_raw_nonzero().get() != 1 {
    return Err(code::NOT_FIRST);
  }
  let children = prepare().map_err(|_| code::KERNEL)?;
  let root = std::env::args_os().nth(1).unwrap_or_else(|| WORKSPACE.into());
  let workspace = Workspace::open(&root).map_err(|_| code::WORKSPACE)?;
  let null = open_null().map_err(|_| code::KERNEL)?;
  let launcher = Launcher::new(null);
  let (door, memory_kills) = (Door::open().ok(), MemoryKills::open());
  let capabilities = workspace.capability()
    | launcher.capability()
    | Channels::capability()
    | if door.is_some() { Capability::Bridge as u64 } else { 0 }
    | if memory_kills.is_there() { Capability::MemoryKills as u64 } else { 0 };
  let processes = Processes::open().map_err(|_| code::KERNEL)?;
  let link = Link::new(image::own_digest());
  let mut supervisor = Supervisor::new(Parts {
    wires: Wires::standard(),
    link,
    door,
    workspace,
    launcher,
    processes,
    memory_kills,
    children,
    capabilities,
  });
  // What it needs is there by now. Where the memory may not be locked, the host learns it.
  if rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT).is_ok() {
    supervisor.add_capability(Capability::Locked);
  }
  // Everything from here on inherits both. The filter costs 0.1 ms to install, and process 1 needs nothing it refuses.
  limits::for_all().and_then(|()| Filter::new().install()).map_err(|_| code::KERNEL)?;
  Ok(supervisor)
}

fn prepare() -> Result<OwnedFd, Errno> {
  limits::raise_descriptors()?;
  signals::settle();
  child::no_new_privileges()?;
  let flags = rustix::fs::fcntl_getfl(std::io::stdin())?;
  rustix::fs::fcntl_setfl(std::io::stdin(), flags | OFlags::NONBLOCK)?;
  let flags = rustix::fs::fcntl_getfl(std::io::stdout())?;
  rustix::fs::fcntl_setfl(std::io::stdout(), flags | OFlags::NONBLOCK)?;
  signals::child_hints()
}

fn open_null() -> Result<OwnedFd, Errno> {
  rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
}
