//! How process 1 gets a holder, and a holder's stream its end.

use std::time::Instant;

use super::super::link::Way;
use super::{End, Supervisor};
use crate::supervisor::wire::{Encoder, Hello};

impl Supervisor {
  /// A hello on the stream that is listened to.
  pub(super) fn greet(&mut self, key: u64, fence: u64, hello: Option<Hello>) {
    let stranger = Encoder::new(key, fence);
    match (self.link.judge(&stranger, hello.as_ref(), Way::Own), hello) {
      (Ok(()), Some(hello)) => self.take_on(stranger, &hello),
      (Err(refusal), _) => self.link.refuse(&stranger, refusal),
      (Ok(()), None) => {}
    }
  }

  /// Looks after those that offer a stream. The one whose hello is accepted is the holder, at once and with everything:
  /// nothing is read from the old stream any more, and nothing is written to it.
  pub(super) fn attend_door(&mut self) {
    let Some(door) = &mut self.door else { return };
    let (link, mut accepted) = (&self.link, None);
    let bridged = door.turn(Instant::now(), |greeted| {
      let stranger = Encoder::new(greeted.key, greeted.fence);
      link.judge(&stranger, greeted.hello.as_ref(), Way::Bridge)?;
      accepted = greeted.hello.map(|hello| (stranger, hello));
      Ok(())
    });
    if let (Some(bridged), Some((holder, hello))) = (bridged, accepted) {
      self.wires.bridge(bridged);
      self.link.restart();
      self.decoder.forget();
      // What was on its way to the old stream is missing in them.
      self.channels.leave();
      self.take_on(holder, &hello);
    }
  }

  fn take_on(&mut self, holder: Encoder, hello: &Hello) {
    if !self.link.is_held_by(&holder) {
      self.channels.leave();
    }
    self.link.accept(holder, hello);
    self.decoder.bind(holder.key(), holder.fence());
    self.owes_welcome = true;
    self.welcome();
  }

  /// The stream is over. From a bridged one process 1 goes back to its own, where the next holder may attach; without
  /// its own nobody can reach it.
  pub(super) fn lost(&mut self) -> Result<(), End> {
    if !self.wires.leave_bridge() {
      return Err(End::Unreachable);
    }
    self.link.leave();
    self.channels.leave();
    self.decoder.forget();
    Ok(())
  }
}
