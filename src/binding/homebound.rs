//! Functions of JavaScript that are called from other threads.

use std::thread::{self, ThreadId};

/// A threadsafe function that is released on the thread that it belongs to, or by that thread's end. Elsewhere, a worker
/// that ends at this moment could free it between napi's look whether it is still there and its release: napi's own
/// finalizer cannot lock what is being dropped. One that is let go of elsewhere is left to the end of its thread.
pub struct Homebound<F> {
  /// There until the drop.
  function: Option<F>,
  home: ThreadId,
}

impl<F> Homebound<F> {
  /// A function of the JavaScript thread that this is called on.
  pub fn new(function: F) -> Self {
    Self { function: Some(function), home: thread::current().id() }
  }

  /// The function.
  pub const fn get(&self) -> Option<&F> {
    self.function.as_ref()
  }
}

impl<F> Drop for Homebound<F> {
  fn drop(&mut self) {
    if thread::current().id() != self.home {
      std::mem::forget(self.function.take());
    }
  }
}

#[cfg(test)]
mod tests {
  use std::sync::Arc;

  use super::*;

  #[test]
  fn it_is_released_at_home_and_nowhere_else() {
    let counted = Arc::new(());
    drop(Homebound::new(Arc::clone(&counted)));
    assert_eq!(Arc::strong_count(&counted), 1);
    let away = Homebound::new(Arc::clone(&counted));
    assert_eq!(away.get().map(Arc::strong_count), Some(2));
    thread::spawn(move || drop(away)).join().unwrap();
    assert_eq!(Arc::strong_count(&counted), 2);
  }
}
