//! Whether a session's workspace is what its snapshot holds.
//!
//! Nothing in the workspace is asked: times and sizes are what commands make them. What counts is which operations this
//! holder began, since between them nothing runs in the container: the resident transport ends a command with all that it
//! started. The exec transport cannot vouch for that, so that there a command that ran at all counts as a change that goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an operation may do to the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
  /// It writes a file, and is over when it says so.
  Write,
  /// It runs a program.
  Command,
}

/// The operations of one session that may change its workspace. Cheap to clone.
#[derive(Clone)]
pub struct Changes(Arc<Inner>);

struct Inner {
  state: Mutex<State>,
  /// The lease on record does not say that the snapshot is current. An operation that may change something sees to that
  /// before it begins.
  doubted: AtomicBool,
  /// Nothing of a command is left once it has ended.
  commands_end: bool,
}

struct State {
  /// Operations that were begun.
  begun: u64,
  /// Those that are under way.
  active: u32,
  /// One was a command.
  commands: bool,
  /// How many were begun when the workspace was what the snapshot holds.
  saved: Option<u64>,
}

/// An operation that may change the workspace, until it is dropped.
pub struct Change(Changes);

/// A moment at which a snapshot began.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
  begun: u64,
  quiet: bool,
}

impl Changes {
  /// Of a session that begins with a workspace that is what its snapshot holds (`same`), or not. `commands_end`: nothing of
  /// a command is left once it has ended.
  pub fn new(same: bool, commands_end: bool) -> Self {
    let state = State { begun: 0, active: 0, commands: false, saved: same.then_some(0) };
    Self(Arc::new(Inner { state: Mutex::new(state), doubted: AtomicBool::new(!same), commands_end }))
  }

  fn state(&self) -> MutexGuard<'_, State> {
    // No code panics while it holds the lock, and the numbers are whole between two changes.
    self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
  }

  /// An operation begins. Before it does anything, [`Self::is_doubted`] must be true.
  pub fn begin(&self, by: By) -> Change {
    let mut state = self.state();
    state.begun += 1;
    state.active += 1;
    state.commands |= by == By::Command;
    Change(self.clone())
  }

  /// Whether the lease on record says, if anything, that the snapshot is older than the workspace.
  pub fn is_doubted(&self) -> bool {
    self.0.doubted.load(Ordering::SeqCst)
  }

  /// The lease says so now.
  pub fn doubt(&self) {
    self.0.doubted.store(true, Ordering::SeqCst);
  }

  /// A snapshot begins.
  pub fn moment(&self) -> Moment {
    let state = self.state();
    Moment { begun: state.begun, quiet: state.active == 0 }
  }

  /// A snapshot that began at `moment` is kept; whether it holds the workspace as it is, so that the lease may say so. From
  /// now on an operation that begins takes that back before it does anything, until [`Self::doubt`] is called.
  pub fn settle(&self, moment: Moment) -> bool {
    // Before the look at the count: an operation counts itself before it looks at this.
    self.0.doubted.store(false, Ordering::SeqCst);
    let mut state = self.state();
    let same = moment.quiet && moment.begun == state.begun;
    if same {
      state.saved = Some(moment.begun);
    }
    same
  }

  /// Whether something that a command started may be left although every command has ended.
  pub fn may_linger(&self) -> bool {
    !self.0.commands_end && self.state().commands
  }

  /// Whether no operation began since the workspace was what the snapshot holds.
  pub fn is_current(&self) -> bool {
    let state = self.state();
    state.active == 0 && state.saved == Some(state.begun)
  }

  /// Whether the workspace is known to be what the snapshot holds.
  pub fn is_unchanged(&self) -> bool {
    !self.may_linger() && self.is_current()
  }
}

impl Drop for Change {
  fn drop(&mut self) {
    self.0.state().active -= 1;
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_snapshot_is_current_until_an_operation_begins() {
    let changes = Changes::new(false, true);
    assert!(!changes.is_unchanged() && changes.is_doubted());
    drop(changes.begin(By::Write));
    assert!(changes.settle(changes.moment()));
    assert!(changes.is_unchanged() && !changes.is_doubted());
    let under_way = changes.begin(By::Command);
    assert!(!changes.is_unchanged());
    changes.doubt();
    drop(under_way);
    assert!(!changes.is_unchanged() && changes.is_doubted());
  }

  #[test]
  fn what_runs_while_a_snapshot_is_taken_is_not_in_it() {
    let changes = Changes::new(true, true);
    assert!(changes.is_unchanged() && !changes.is_doubted());
    // From before it to after it, within it, and still.
    let before = changes.begin(By::Write);
    let moment = changes.moment();
    drop(before);
    assert!(!changes.settle(moment) && !changes.is_unchanged() && !changes.is_doubted());
    let moment = changes.moment();
    drop(changes.begin(By::Write));
    assert!(!changes.settle(moment) && !changes.is_unchanged());
    let moment = changes.moment();
    let _after = changes.begin(By::Write);
    assert!(!changes.settle(moment) && !changes.is_unchanged());
  }

  #[test]
  fn where_commands_may_live_on_one_that_ran_is_a_change_that_goes_on() {
    let changes = Changes::new(true, false);
    drop(changes.begin(By::Write));
    assert!(changes.settle(changes.moment()) && changes.is_unchanged());
    drop(changes.begin(By::Command));
    assert!(changes.settle(changes.moment()), "as far as operations go");
    assert!(!changes.is_unchanged());
  }
}
