//! What keeps hostile bytes from harming the machine that fuzzes. Commands are not tried here: the supervisor would run any
//! program, and kill whatever it can see.

use std::cell::Cell;
use std::collections::BTreeMap;

use seccompiler::{
  BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
  apply_filter,
};

/// `linux/sched.h`.
const CLONE_THREAD: u64 = 0x0001_0000;
const ENOSYS: u32 = 38;
const EPERM: u32 = 1;
/// By `SANDBOX_FUZZ_OPENAT2=no` the kernel has no `openat2`, and paths are walked.
const OPENAT2: &str = "SANDBOX_FUZZ_OPENAT2";

/// From now on the calling thread can make no process, become no other program and signal nobody else.
pub fn no_processes() {
  thread_local!(static DONE: Cell<bool> = const { Cell::new(false) });
  if DONE.replace(true) {
    return;
  }
  // Of `clone`, what makes a process; `clone3`, which hides its flags, is missing, as for programs of engines' filters.
  let process =
    SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(CLONE_THREAD), 0).unwrap();
  let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
    numbers::REFUSED.iter().map(|number| (*number, Vec::new())).collect();
  refused.insert(numbers::CLONE, vec![SeccompRule::new(vec![process]).unwrap()]);
  let mut missing = vec![numbers::CLONE3];
  if std::env::var_os(OPENAT2).is_some_and(|value| value == "no") {
    missing.push(numbers::OPENAT2);
  }
  apply(refused, EPERM);
  apply(missing.into_iter().map(|number| (number, Vec::new())).collect(), ENOSYS);
}

fn apply(calls: BTreeMap<i64, Vec<SeccompRule>>, error: u32) {
  let (other, matched) = (SeccompAction::Allow, SeccompAction::Errno(error));
  let architecture = std::env::consts::ARCH.try_into().unwrap();
  let filter = SeccompFilter::new(calls, other, matched, architecture).unwrap();
  let program: BpfProgram = filter.try_into().unwrap();
  apply_filter(&program).unwrap();
}

/// Numbers of calls: `asm/unistd_64.h` on x86-64, `asm-generic/unistd.h` on 64-bit ARM.
#[cfg(target_arch = "x86_64")]
mod numbers {
  pub const CLONE: i64 = 56;
  pub const CLONE3: i64 = 435;
  pub const OPENAT2: i64 = 437;
  /// `fork vfork execve execveat kill tkill pidfd_send_signal rt_sigqueueinfo`.
  pub const REFUSED: [i64; 8] = [57, 58, 59, 322, 62, 200, 424, 129];
}
#[cfg(target_arch = "aarch64")]
mod numbers {
  pub const CLONE: i64 = 220;
  pub const CLONE3: i64 = 435;
  pub const OPENAT2: i64 = 437;
  /// `execve execveat kill tkill pidfd_send_signal rt_sigqueueinfo`.
  pub const REFUSED: [i64; 6] = [221, 281, 129, 130, 424, 138];
}
