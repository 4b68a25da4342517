//! The system call filter of every command, made by hand. Process 1 is behind it too, and so is all that it starts.
//!
//! It is about what the kernel allows one user among its own processes whatever they do to hide: limits, priorities and
//! scheduling of process 1, tracing, and memory and channels that no cgroup of the container or no network owns. The
//! engine's own filter stays in front of it.

use rustix::io::Errno;

use super::last_error;

/// `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64` (`linux/audit.h`).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;
/// Numbers from here on are those of x32 (`asm/unistd.h`).
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data` (`linux/seccomp.h`): number, architecture, and the halves of each argument.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn low(argument: u32) -> u32 {
  16 + 8 * argument
}
const fn high(argument: u32) -> u32 {
  low(argument) + 4
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const fn refuse(errno: i32) -> u32 {
  libc::SECCOMP_RET_ERRNO | (errno as u32 & libc::SECCOMP_RET_DATA)
}

/// Never allowed.
const REFUSED: &[libc::c_long] = &[
  libc::SYS_ptrace,
  libc::SYS_process_vm_readv,
  libc::SYS_process_vm_writev,
  libc::SYS_kcmp,
  libc::SYS_migrate_pages,
  libc::SYS_move_pages,
  libc::SYS_io_uring_setup,
  libc::SYS_io_uring_enter,
  libc::SYS_io_uring_register,
  libc::SYS_shmget,
  libc::SYS_shmat,
  libc::SYS_shmctl,
  libc::SYS_shmdt,
  libc::SYS_semget,
  libc::SYS_semop,
  libc::SYS_semctl,
  libc::SYS_semtimedop,
  libc::SYS_msgget,
  libc::SYS_msgsnd,
  libc::SYS_msgrcv,
  libc::SYS_msgctl,
  libc::SYS_mq_open,
  libc::SYS_mq_unlink,
  libc::SYS_mq_timedsend,
  libc::SYS_mq_timedreceive,
  libc::SYS_mq_notify,
  libc::SYS_mq_getsetattr,
];

/// Allowed on the caller only: the first argument is a process and must be 0.
const ON_SELF: &[libc::c_long] = &[
  libc::SYS_sched_setparam,
  libc::SYS_sched_setscheduler,
  libc::SYS_sched_setattr,
  libc::SYS_sched_setaffinity,
];

/// The program. It is installed once, on process 1, before any command.
pub struct Filter {
  program: Vec<libc::sock_filter>,
}

impl Filter {
  /// Makes the filter for this architecture.
  pub fn new() -> Self {
    let mut filter = Self { program: Vec::with_capacity(160) };
    filter.load(ARCH);
    filter.unless_equal(ARCHITECTURE, &[give(KILL)]);
    filter.load(NUMBER);
    #[cfg(target_arch = "x86_64")]
    filter.program.extend([jump(libc::BPF_JGE, X32, 0, 1), give(refuse(libc::ENOSYS))]);
    for number in REFUSED {
      filter.on(*number, &[give(refuse(libc::EPERM))]);
    }
    for number in ON_SELF {
      filter.on(*number, &only_zero(0));
    }
    // (which, who): one process, and that the caller. `PRIO_PROCESS` is 0, `IOPRIO_WHO_PROCESS` 1.
    filter.on(libc::SYS_setpriority, &only_pair(0));
    filter.on(libc::SYS_ioprio_set, &only_pair(1));
    filter.on(libc::SYS_prlimit64, &own_limits());
    filter.on(libc::SYS_socket, &no_vsock());
    filter.program.push(give(ALLOW));
    filter
  }

  /// Puts it on the calling process and all that come from it, for ever. It must have no new privileges.
  pub fn install(&self) -> Result<(), Errno> {
    let program = libc::sock_fprog {
      len: u16::try_from(self.program.len()).map_err(|_| Errno::INVAL)?,
      filter: self.program.as_ptr().cast_mut(),
    };
    // SAFETY: the program is a live vector of that length, which the kernel only reads.
    #[expect(unsafe_code, reason = "rustix has no seccomp")]
    let result = unsafe {
      libc::prctl(libc::PR_SET_SECCOMP, libc::c_ulong::from(libc::SECCOMP_MODE_FILTER), &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
  }

  fn load(&mut self, offset: u32) {
    self.program.push(load(offset));
  }

  /// With that system call, `block` decides; each of its ways ends in a verdict.
  fn on(&mut self, number: libc::c_long, block: &[libc::sock_filter]) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    self.program.push(jump(libc::BPF_JEQ, number, 0, block.len() as u8));
    self.program.extend_from_slice(block);
  }

  fn unless_equal(&mut self, value: u32, block: &[libc::sock_filter]) {
    self.program.push(jump(libc::BPF_JEQ, value, block.len() as u8, 0));
    self.program.extend_from_slice(block);
  }
}

const fn load(offset: u32) -> libc::sock_filter {
  statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

const fn give(verdict: u32) -> libc::sock_filter {
  statement(libc::BPF_RET | libc::BPF_K, verdict)
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
  libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn jump(condition: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
  libc::sock_filter { code: (libc::BPF_JMP | condition | libc::BPF_K) as u16, jt, jf, k }
}

/// Processes are 32-bit numbers to the kernel, so the low half of the argument is all of it.
const fn only_zero(argument: u32) -> [libc::sock_filter; 4] {
  [load(low(argument)), jump(libc::BPF_JEQ, 0, 0, 1), give(ALLOW), give(refuse(libc::EPERM))]
}

const fn only_pair(which: u32) -> [libc::sock_filter; 6] {
  [
    load(low(0)),
    jump(libc::BPF_JEQ, which, 0, 3),
    load(low(1)),
    jump(libc::BPF_JEQ, 0, 0, 1),
    give(ALLOW),
    give(refuse(libc::EPERM)),
  ]
}

/// Of others, limits may be read (the third argument is null), not set.
const fn own_limits() -> [libc::sock_filter; 8] {
  [
    load(low(0)),
    jump(libc::BPF_JEQ, 0, 4, 0),
    load(low(2)),
    jump(libc::BPF_JEQ, 0, 0, 3),
    load(high(2)),
    jump(libc::BPF_JEQ, 0, 0, 1),
    give(ALLOW),
    give(refuse(libc::EPERM)),
  ]
}

const fn no_vsock() -> [libc::sock_filter; 4] {
  let vsock = libc::AF_VSOCK as u32;
  [load(low(0)), jump(libc::BPF_JEQ, vsock, 0, 1), give(refuse(libc::EAFNOSUPPORT)), give(ALLOW)]
}
