//! Output of a command that is handed on instead of kept.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::stream::frame::Channel;

/// Hands pieces on, and looks for the mark that says that a command left nothing behind.
pub struct Tap {
  sender: mpsc::Sender<(Channel, Bytes)>,
  /// Read and not handed on yet: at most what one read gave.
  waiting: Vec<(Channel, Bytes)>,
  mark: Vec<u8>,
  /// The last bytes of standard error, in which the mark may have begun.
  tail: Vec<u8>,
  /// The mark was there.
  pub marked: bool,
}

impl Tap {
  /// A tap into `sender`.
  pub fn new(sender: mpsc::Sender<(Channel, Bytes)>, mark: Option<&str>) -> Self {
    let mark = mark.unwrap_or_default().as_bytes().to_vec();
    Self { sender, waiting: Vec::new(), mark, tail: Vec::new(), marked: false }
  }

  /// A piece was read.
  pub fn push(&mut self, channel: Channel, data: &[u8]) {
    if channel == Channel::Stderr {
      self.look(data);
    }
    self.waiting.push((channel, Bytes::copy_from_slice(data)));
  }

  /// Waits until all of it has found room. Where nobody takes it any more, it is dropped.
  pub async fn hand_on(&mut self) {
    for piece in self.waiting.drain(..) {
      self.sender.send(piece).await.ok();
    }
  }

  fn look(&mut self, data: &[u8]) {
    if self.marked || self.mark.is_empty() {
      return;
    }
    self.tail.extend_from_slice(data);
    self.marked = self.tail.windows(self.mark.len()).any(|window| window == self.mark);
    let surplus = self.tail.len().saturating_sub(self.mark.len() - 1);
    self.tail.drain(..surplus);
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[tokio::test]
  async fn a_mark_is_found_wherever_it_is_cut_and_nothing_is_held_back() {
    let text = b"err n1:end; late";
    for at in 0..text.len() {
      let (sender, mut taken) = mpsc::channel(8);
      let mut tap = Tap::new(sender, Some("n1:end;"));
      let (head, rest) = text.split_at(at);
      tap.push(Channel::Stdout, b"n1:end;");
      assert!(!tap.marked);
      tap.push(Channel::Stderr, head);
      tap.push(Channel::Stderr, rest);
      assert!(tap.marked, "{at}");
      tap.hand_on().await;
      drop(tap);
      let mut stderr = Vec::new();
      while let Some((channel, data)) = taken.recv().await {
        if channel == Channel::Stderr {
          stderr.extend_from_slice(&data);
        }
      }
      assert_eq!(stderr, text);
    }
  }

  #[tokio::test]
  async fn output_that_nobody_takes_any_more_is_dropped() {
    let (sender, taken) = mpsc::channel(1);
    drop(taken);
    let mut tap = Tap::new(sender, None);
    tap.push(Channel::Stdout, b"a");
    tap.push(Channel::Stdout, b"b");
    tap.hand_on().await;
    assert!(!tap.marked);
  }
}
