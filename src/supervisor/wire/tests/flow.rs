use proptest::prelude::*;

use super::*;

#[test]
fn a_sender_stops_at_its_limit_and_goes_on_when_it_is_raised() {
  let mut window = SendWindow::new(10);
  window.advance(10);
  assert_eq!((window.room(), window.sent()), (0, 10));
  window.raise(5);
  assert_eq!(window.room(), 0);
  window.raise(12);
  assert_eq!(window.room(), 2);
}

#[test]
fn a_receiver_takes_what_it_granted_in_order_and_no_more() {
  let mut window = ReceiveWindow::new(10);
  assert_eq!(window.receive(1, 1), Err(FlowError::Gap));
  assert_eq!(window.receive(0, 11), Err(FlowError::Overrun));
  assert_eq!(window.receive(0, u64::MAX), Err(FlowError::Overrun));
  assert_eq!(window.receive(0, 10), Ok(()));
  assert_eq!(window.receive(0, 1), Err(FlowError::Gap));
  assert_eq!(window.receive(10, 1), Err(FlowError::Overrun));
  assert_eq!(window.consume(4), None);
  assert_eq!(window.consume(1), Some(15));
  assert_eq!((window.limit(), window.received()), (15, 10));
  assert_eq!(window.receive(10, 5), Ok(()));
}

#[test]
fn a_new_holder_goes_on_where_the_stream_is() {
  let mut window = ReceiveWindow::resume(10, 1000);
  assert_eq!(window.limit(), 1010);
  assert_eq!(window.receive(1000, 10), Ok(()));
}

proptest! {
  // Neither end ever waits for the other for ever, and no more than the window is under way.
  #[test]
  fn a_stream_always_moves(size in 1u64..5000, pieces in prop::collection::vec(1u64..3000, 1..200)) {
    let mut sender = SendWindow::new(size);
    let mut receiver = ReceiveWindow::new(size);
    for piece in pieces {
      let mut left = piece;
      while left > 0 {
        let now = left.min(sender.room());
        prop_assert!(now > 0);
        prop_assert_eq!(receiver.receive(sender.sent(), now), Ok(()));
        sender.advance(now);
        if let Some(limit) = receiver.consume(now) {
          sender.raise(limit);
        }
        left -= now;
      }
    }
  }
}
