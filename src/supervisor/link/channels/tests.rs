use futures_util::FutureExt;
use tokio::io::ReadBuf;

use super::*;
use crate::supervisor::wire::{FlowError, Reply, channel_number};

const ONE: u64 = channel_number(1);

fn opened(_number: u64) -> ToHost<'static> {
  ToHost::Connect(Connect { window: 10 })
}

fn data(offset: u64, bytes: &[u8]) -> ToHost<'_> {
  ToHost::Data(Data { stream: Stream::Output, offset, bytes })
}

fn one() -> (Channels, mpsc::Receiver<Arrival>, Arc<Channel>) {
  let channels = Channels::default();
  let mut arrived = channels.expect();
  assert_eq!(channels.take(ONE, &opened(ONE)), Ok(None));
  let Arrival { number, channel } = arrived.try_recv().ok().unwrap();
  assert_eq!(number, ONE);
  (channels, arrived, channel)
}

/// Bytes that were read, and up to where the peer may send now.
type Piece = (Vec<u8>, Option<u64>);

/// What is read of a channel at once; `None` while nothing is there.
fn read(channel: &Channel) -> Option<Result<Piece, Lost>> {
  let mut room = vec![0; 1 << 20];
  let mut buffer = ReadBuf::new(&mut room);
  let polled = std::future::poll_fn(|context| channel.poll_read(context, &mut buffer)).now_or_never()?;
  Some(polled.map(|grant| (buffer.filled().to_vec(), grant)))
}

fn room(channel: &Channel) -> Option<Result<(usize, u64), Lost>> {
  std::future::poll_fn(|context| channel.poll_room(context)).now_or_never()
}

#[test]
fn nobody_who_was_not_asked_opens_a_channel() {
  let channels = Channels::default();
  assert_eq!(channels.take(ONE, &opened(ONE)), Err(Foreign::Order));
}

#[test]
fn a_number_is_used_once_and_is_that_of_a_channel() {
  let (channels, _arrived, _channel) = one();
  assert_eq!(channels.take(ONE, &opened(ONE)), Err(Foreign::Order));
  assert_eq!(channels.take(2, &opened(2)), Err(Foreign::Order));
  assert_eq!(channels.take(ONE, &ToHost::Close(Close::Ended)), Ok(None));
  assert_eq!(channels.take(ONE, &opened(ONE)), Err(Foreign::Order));
  assert_eq!(channels.take(ONE, &ToHost::Close(Close::Ended)), Err(Foreign::Order));
  assert_eq!(channels.take(ONE, &data(0, b"x")), Err(Foreign::Order));
}

#[test]
fn there_are_never_more_than_the_protocol_allows() {
  let channels = Channels::default();
  let _arrived = channels.expect();
  for count in 1..=MAX_CHANNELS as u64 {
    assert_eq!(channels.take(channel_number(count), &opened(count)), Ok(None));
  }
  let next = channel_number(MAX_CHANNELS as u64 + 1);
  assert_eq!(channels.take(next, &opened(next)), Err(Foreign::Order));
}

#[test]
fn one_that_nobody_wants_still_counts_until_its_last_word() {
  let channels = Channels::default();
  drop(channels.expect());
  for count in 1..=MAX_CHANNELS as u64 {
    assert_eq!(channels.take(channel_number(count), &opened(count)), Ok(Some(Close::Reset)));
  }
  assert_eq!(channels.take(ONE, &data(0, b"on its way")), Ok(None));
  let next = channel_number(1000);
  assert_eq!(channels.take(next, &opened(next)), Err(Foreign::Order));
  assert_eq!(channels.take(ONE, &ToHost::Close(Close::Reset)), Ok(None));
  assert_eq!(channels.take(next, &opened(next)), Ok(Some(Close::Reset)));
}

#[test]
fn what_comes_is_read_once_and_credit_follows_the_reader() {
  let (channels, _arrived, channel) = one();
  assert_eq!(read(&channel), None);
  let half = vec![7; CHANNEL_WINDOW as usize / 2];
  assert_eq!(channels.take(ONE, &data(0, &half)), Ok(None));
  assert_eq!(channels.take(ONE, &data(half.len() as u64, &half)), Ok(None));
  let over = Err(Foreign::Flow(FlowError::Overrun));
  assert_eq!(channels.take(ONE, &data(u64::from(CHANNEL_WINDOW), b"x")), over);
  let (bytes, grant) = read(&channel).unwrap().unwrap();
  assert_eq!((bytes.len(), grant), (CHANNEL_WINDOW as usize, Some(2 * u64::from(CHANNEL_WINDOW))));
  assert_eq!(channels.take(ONE, &data(5, b"x")), Err(Foreign::Flow(FlowError::Gap)));
}

#[test]
fn an_end_is_no_reset_and_comes_once() {
  let (channels, _arrived, channel) = one();
  assert_eq!(channels.take(ONE, &data(0, b"last")), Ok(None));
  assert_eq!(channels.take(ONE, &ToHost::End(Stream::Output)), Ok(None));
  assert_eq!(channels.take(ONE, &ToHost::End(Stream::Output)), Err(Foreign::Order));
  assert_eq!(channels.take(ONE, &data(4, b"x")), Err(Foreign::Order));
  assert_eq!(read(&channel), Some(Ok((b"last".to_vec(), None))));
  assert_eq!(read(&channel), Some(Ok((Vec::new(), None))));
  assert_eq!(room(&channel), Some(Ok((10, 0))), "the other direction goes on");
  let (channels, _arrived, channel) = one();
  assert_eq!(channels.take(ONE, &ToHost::Close(Close::Reset)), Ok(None));
  assert_eq!((read(&channel), room(&channel)), (Some(Err(Lost)), Some(Err(Lost))));
}

#[test]
fn what_is_sent_waits_for_credit() {
  let (channels, _arrived, channel) = one();
  assert_eq!(room(&channel), Some(Ok((10, 0))));
  channel.sent(10);
  assert_eq!(room(&channel), None);
  let credit = ToHost::Credit(Credit { stream: Stream::Input, limit: 15 });
  assert_eq!(channels.take(ONE, &credit), Ok(None));
  assert_eq!(room(&channel), Some(Ok((5, 10))));
}

#[test]
fn a_channel_has_no_other_frames() {
  let (channels, _arrived, _channel) = one();
  for message in [
    ToHost::End(Stream::Input),
    ToHost::End(Stream::Error),
    ToHost::Data(Data { stream: Stream::Error, offset: 0, bytes: b"x" }),
    ToHost::Credit(Credit { stream: Stream::Output, limit: 1 }),
    ToHost::Done(Reply::Listening),
  ] {
    assert_eq!(channels.take(ONE, &message), Err(Foreign::NoStream), "{message:?}");
  }
}

#[test]
fn a_broken_link_breaks_every_connection() {
  let (channels, mut arrived, channel) = one();
  channels.close();
  assert_eq!(read(&channel), Some(Err(Lost)));
  assert!(arrived.try_recv().is_err());
  assert_eq!(channels.take(channel_number(2), &opened(2)), Err(Foreign::Order));
}
