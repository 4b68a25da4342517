//! From the kernel's first process to a machine that takes requests.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;

use crate::kernel;
use crate::requests::{Machine, serve};

/// Where the machine listens, and its address in the network of an emulator that gave it none.
const PORT: u16 = 7000;
const ADDRESS: &str = "10.0.2.15";
/// The network card's, in the order in which they need each other.
const MODULES: [&str; 4] = ["virtio_mmio", "failover", "net_failover", "virtio_net"];

/// Sets the machine up and serves for ever.
pub fn run() {
  for (kind, to) in
    [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("cgroup2", "/sys/fs/cgroup")]
  {
    kernel::attach(kind, to, kind, 0, "");
  }
  std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +memory +pids").unwrap();
  for module in MODULES {
    kernel::load(&format!("/modules/{module}.ko"));
  }
  for arguments in [["lo", "127.0.0.1"], ["eth0", ADDRESS]] {
    let status =
      Command::new("/image/bin/busybox").arg("ifconfig").args(arguments).arg("up").status().unwrap();
    assert!(status.success(), "ifconfig {arguments:?}");
  }
  let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
  let machine = Arc::new(Machine::default());
  // What the script waits for.
  println!("machine: ready");
  for stream in listener.incoming() {
    let (stream, machine) = (stream.unwrap(), machine.clone());
    std::thread::spawn(move || serve(&machine, stream));
  }
}
