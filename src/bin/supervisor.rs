//! Process 1 of a sandbox. Static, one thread, one event loop; `docs/protocol.md` is what it speaks.

use std::process::ExitCode;

fn main() -> ExitCode {
  sandbox_docker::supervisor::inside::main()
}
