//! The first program of an emulated machine: what an engine is to the tests of process 1, where there is no engine.
//!
//! `scripts/test-arm64.mjs` compiles it statically and starts it as `/init`. It makes containers with the namespaces,
//! mounts and credentials that an engine gives them, and obeys a client over TCP: one line for each connection.
//!
//! | request                                  | answer                                                       |
//! | ---------------------------------------- | ------------------------------------------------------------ |
//! | `create MEMORY TMPFS_MIB NANO_CPUS PIDS` | the number of a new container; 0 CPUs is no quota            |
//! | `start N`                                | `ok`                                                         |
//! | `attach N`                               | `ok`, then both streams of process 1, as `docker attach`     |
//! | `wait N`                                 | the exit code, once it ended; 128 and more after a signal    |
//! | `running N`                              | `true` or `false`                                            |
//! | `remove N`                               | `ok`, once nothing of it runs                                |
//!
//! Anything that fails answers `error` and why.

mod container;
mod kernel;
mod machine;
mod requests;
mod streams;

fn main() {
  let arguments: Vec<String> = std::env::args().collect();
  match arguments.get(1).map(String::as_str) {
    Some("container") => container::run(&arguments[2..]),
    _ => machine::run(),
  }
}
