//! Whose turn it is while a file is written: its contents may take as long as whoever makes them, process 1 may not.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt, poll_fn};
use tokio::sync::watch;

use super::watch::{Patience, Watch};
use crate::error::{Error, Result};
use crate::supervisor::link::Link;

/// Shared by the contents, the operation, and who watches it.
#[derive(Clone)]
pub(super) struct Turn(watch::Sender<State>);

#[derive(Clone, Copy, Default)]
struct State {
  /// The contents are waited for; else process 1 is.
  ours: bool,
  /// How often something went on.
  moves: u64,
}

impl Turn {
  pub(super) fn new() -> Self {
    Self(watch::Sender::new(State::default()))
  }

  /// Process 1 did something.
  pub(super) fn moved(&self) {
    self.0.send_modify(|state| state.moves += 1);
  }

  /// The same contents, which say when they are waited for.
  pub(super) fn of(
    &self,
    mut contents: BoxStream<'static, Result<Bytes>>,
  ) -> BoxStream<'static, Result<Bytes>> {
    let turn = self.clone();
    poll_fn(move |cx| turn.poll(contents.as_mut(), cx)).boxed()
  }

  fn poll<T>(&self, contents: Pin<&mut dyn Stream<Item = T>>, cx: &mut Context<'_>) -> Poll<Option<T>> {
    let polled = contents.poll_next(cx);
    self.0.send_if_modified(|state| {
      let ours = polled.is_pending();
      let changed = !ours || !state.ours;
      *state = State { ours, moves: state.moves + u64::from(changed) };
      changed
    });
    polled
  }

  /// Resolves when process 1 has been waited for for too long.
  pub(super) async fn overdue(&self, link: &Link, what: &str) -> Error {
    let mut state = self.0.subscribe();
    loop {
      // `self` keeps the sender.
      state.wait_for(|state| !state.ours).await.ok();
      let moved = async {
        state.changed().await.ok();
        Ok(())
      };
      if let Err(late) = Watch::new(Patience::FILE).over(link, what, moved).await {
        return late;
      }
    }
  }
}
