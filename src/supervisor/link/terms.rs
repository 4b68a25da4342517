//! What can be said of an operation, by what was asked for. Everything else comes from no supervisor of ours, and must not
//! reach the application as if it had been: a cancellation that nobody asked for, a time limit that was not set.

use super::inbox::Foreign;
use crate::supervisor::wire::{Capability, Failure, How, Kind, Reply, ToInside, Welcome};

/// The terms of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
  kind: Kind,
  has_deadline: bool,
  has_cap: bool,
  counts_memory_kills: bool,
  cancelled: bool,
}

impl Terms {
  /// Of a request to a supervisor that presented itself so.
  pub const fn new(request: &ToInside<'_>, welcome: &Welcome) -> Self {
    let (has_deadline, has_cap) = match request {
      ToInside::Exec(exec) => {
        (exec.timeout_ms != 0, exec.max_stdout != u64::MAX || exec.max_stderr != u64::MAX)
      }
      _ => (false, false),
    };
    let counts_memory_kills = welcome.can(Capability::MemoryKills);
    Self { kind: request.kind(), has_deadline, has_cap, counts_memory_kills, cancelled: false }
  }

  /// It was asked to stop.
  pub const fn cancel(&mut self) {
    self.cancelled = true;
  }

  /// Whether a command can have ended so.
  pub fn end(&self, how: How) -> Result<(), Foreign> {
    fits(self.kind == Kind::Exec && self.can_end(how))
  }

  /// Whether this can be the last word.
  pub fn reply(&self, reply: &Reply) -> Result<(), Foreign> {
    fits(match (reply, self.kind) {
      (Reply::Command(end), Kind::Exec) => self.can_end(end.how),
      (Reply::Failed(failed), _) => self.can_fail(failed.failure),
      (Reply::Read(_), Kind::ReadFile)
      | (Reply::Written(_), Kind::WriteFile)
      | (Reply::Listed(_), Kind::List)
      | (Reply::Tar(_), Kind::TarOut | Kind::TarIn)
      | (Reply::SelfTest(_), Kind::SelfTest)
      | (Reply::Listening, Kind::Listen) => true,
      _ => false,
    })
  }

  const fn can_end(&self, how: How) -> bool {
    match how {
      How::TimedOut => self.has_deadline,
      How::OutputLimit => self.has_cap,
      How::Cancelled => self.cancelled,
      How::OutOfMemory => self.counts_memory_kills,
      How::Exited(_) | How::Signaled(_) | How::Swept | How::NotStarted(..) => true,
    }
  }

  /// What the kernel says of files is possible for every operation on files; a command that fails says how it ended.
  const fn can_fail(&self, failure: Failure) -> bool {
    match failure {
      Failure::TooMany | Failure::BadRequest | Failure::Unsupported | Failure::InUse => true,
      _ if matches!(self.kind, Kind::Exec) => false,
      Failure::Cancelled => self.cancelled,
      Failure::Cut => matches!(self.kind, Kind::WriteFile),
      Failure::BadArchive => matches!(self.kind, Kind::TarIn),
      _ => true,
    }
  }
}

const fn fits(fits: bool) -> Result<(), Foreign> {
  if fits { Ok(()) } else { Err(Foreign::Answer) }
}

#[cfg(test)]
mod tests;
