//! The runtime's statuses of a run, as `release` gets them.

/// While a session is open.
pub const RUNNING: &str = "running";

/// Of a run that was ended for its holder.
pub const FAILED: &str = "failed";

/// After these the run goes on later: container, snapshot and lease are kept.
const KEEPING: [&str; 5] = ["queued", "running", "suspended", "waiting_approval", "cancel_requested"];

/// True where nothing is kept: `completed`, `failed`, `cancelled`, `timed_out`, and any word that we do not know, since
/// a container that nobody asks for again must not stay.
pub fn is_terminal(status: &str) -> bool {
  !KEEPING.contains(&status)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn what_keeps_and_what_ends() {
    for status in KEEPING {
      assert!(!is_terminal(status));
    }
    for status in ["completed", "failed", "cancelled", "timed_out", "", "Running", "other"] {
      assert!(is_terminal(status));
    }
  }
}
