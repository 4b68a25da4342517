use futures_util::FutureExt;

use super::*;
use crate::supervisor::wire::{How, Written};

const END: CommandEnd = CommandEnd { how: How::Exited(0), killed: 0, micros: 1 };

fn data(stream: Stream, offset: u64, bytes: &[u8]) -> Data<'_> {
  Data { stream, offset, bytes }
}

fn taken(inbox: &Inbox) -> Vec<(Event, Option<u64>)> {
  std::iter::from_fn(|| inbox.next().now_or_never().flatten()).collect()
}

fn pieces(inbox: &Inbox) -> Vec<(Stream, usize)> {
  let events = taken(inbox).into_iter();
  events
    .map(|(event, _)| match event {
      Event::Data(stream, bytes) => (stream, bytes.len()),
      other => panic!("{other:?}"),
    })
    .collect()
}

#[test]
fn pieces_of_one_stream_join_until_they_are_taken() {
  let inbox = Inbox::default();
  for at in 0..1000 {
    inbox.data(&data(Stream::Output, at, b"x")).unwrap();
  }
  inbox.data(&data(Stream::Error, 0, b"yy")).unwrap();
  inbox.data(&data(Stream::Output, 1000, b"z")).unwrap();
  assert_eq!(pieces(&inbox), [(Stream::Output, 1000), (Stream::Error, 2), (Stream::Output, 1)]);
}

#[test]
fn a_writer_that_alternates_costs_no_more_than_its_bytes() {
  let inbox = Inbox::default();
  for at in 0..u64::from(WINDOW) {
    inbox.data(&data(Stream::Output, at, b"x")).unwrap();
    inbox.data(&data(Stream::Error, at, b"y")).unwrap();
  }
  let pieces = pieces(&inbox);
  assert_eq!(pieces.len(), MAX_PIECES);
  assert_eq!(pieces.iter().map(|(_, length)| length).sum::<usize>(), 2 * WINDOW as usize);
}

#[test]
fn order_is_the_protocols_and_half_a_window_is_granted_anew() {
  let inbox = Inbox::default();
  let half = vec![0; WINDOW as usize / 2];
  inbox.data(&data(Stream::Output, 0, &half)).unwrap();
  inbox.started(Started::Command { pid: 7 }).unwrap();
  inbox.end(Stream::Output).unwrap();
  inbox.exited(END).unwrap();
  inbox.credit(Stream::Input, 5).unwrap();
  inbox.credit(Stream::Input, 3).unwrap();
  inbox.done(Reply::Written(Written { size: 1 }));
  let events: [(Event, Option<u64>); 6] = taken(&inbox).try_into().unwrap();
  let [(started, None), (credit, None), (exited, None), (piece, Some(limit)), (end, None), (done, None)] =
    events
  else {
    panic!("not in this order");
  };
  assert!(matches!(started, Event::Started(Started::Command { pid: 7 })), "{started:?}");
  assert!(matches!(credit, Event::Credit(5)), "{credit:?}");
  assert!(matches!(exited, Event::Exited(END)), "{exited:?}");
  assert!(matches!(piece, Event::Data(Stream::Output, bytes) if bytes.len() == half.len()));
  assert_eq!(limit, u64::from(WINDOW) + half.len() as u64);
  assert!(matches!(end, Event::End(Stream::Output)), "{end:?}");
  assert!(matches!(done, Event::Done(Reply::Written(Written { size: 1 }))), "{done:?}");
}

#[test]
fn what_may_come_once_comes_once() {
  let inbox = Inbox::default();
  inbox.started(Started::Command { pid: 1 }).unwrap();
  assert_eq!(inbox.started(Started::Command { pid: 1 }), Err(Foreign::Order));
  inbox.exited(END).unwrap();
  assert_eq!(inbox.exited(END), Err(Foreign::Order));
  inbox.end(Stream::Error).unwrap();
  assert_eq!(inbox.end(Stream::Error), Err(Foreign::Order));
  assert_eq!(inbox.data(&data(Stream::Error, 0, b"late")), Err(Foreign::Order));
  assert_eq!(inbox.data(&data(Stream::Output, 0, b"")), Ok(()));
  assert_eq!(inbox.data(&data(Stream::Input, 0, b"x")), Err(Foreign::NoStream));
  assert_eq!(inbox.end(Stream::Input), Err(Foreign::NoStream));
  assert_eq!(inbox.credit(Stream::Output, 9), Err(Foreign::NoStream));
  assert_eq!(inbox.data(&data(Stream::Output, 1, b"x")), Err(Foreign::Flow(FlowError::Gap)));
  let much = vec![0; WINDOW as usize + 1];
  assert_eq!(inbox.data(&data(Stream::Output, 0, &much)), Err(Foreign::Flow(FlowError::Overrun)));
}

#[test]
fn a_broken_link_gives_what_had_come_and_then_nothing() {
  let inbox = Inbox::default();
  inbox.data(&data(Stream::Output, 0, b"last")).unwrap();
  inbox.close();
  assert_eq!(pieces(&inbox), [(Stream::Output, 4)]);
  assert!(matches!(inbox.next().now_or_never(), Some(None)));
}

#[tokio::test]
async fn who_cannot_take_output_is_told_what_does_not_wait_behind_it() {
  let inbox = Inbox::default();
  inbox.data(&Data { stream: Stream::Output, offset: 0, bytes: b"abc" }).unwrap();
  inbox.credit(Stream::Input, 7).unwrap();
  assert!(matches!(inbox.next_control().await, Some(Event::Credit(7))));
  inbox.end(Stream::Output).unwrap();
  let mut waiting = std::pin::pin!(inbox.next_control());
  assert!(futures_util::poll!(&mut waiting).is_pending());
  assert!(matches!(inbox.next().await, Some((Event::Data(Stream::Output, bytes), None)) if bytes == "abc"));
  inbox.close();
  assert!(matches!(inbox.next().await, Some((Event::End(Stream::Output), None))));
  assert!(waiting.await.is_none());
}
