//! The host's end of connections to the proxy. How many there are, and what is held for each, is bounded whatever the peer
//! does: channels by their number, contents by the windows that were granted, everything else by the rules of the protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;
use tokio::sync::mpsc;

use super::inbox::Foreign;
use crate::supervisor::wire::{
  CHANNEL_WINDOW, Close, Connect, Credit, Data, MAX_CHANNELS, MAX_DATA, ReceiveWindow, SendWindow, Stream,
  ToHost, is_channel,
};

/// A channel that was opened just now.
pub(super) struct Arrival {
  /// Its number.
  pub(super) number: u64,
  /// What is known of it.
  pub(super) channel: Arc<Channel>,
}

/// All channels of a link.
#[derive(Default)]
pub(super) struct Channels(Mutex<Table>);

#[derive(Default)]
struct Table {
  /// Where new ones go; `None`: nobody asked for any, and none may come.
  arrivals: Option<mpsc::Sender<Arrival>>,
  /// The highest number that there was.
  last: u64,
  /// Those of which the last word has not come, whether anybody here still wants them or not.
  open: HashMap<u64, Arc<Channel>>,
  /// The link is broken.
  closed: bool,
}

impl Channels {
  /// Channels may come from now on. What came to an earlier call's receiver goes on.
  pub(super) fn expect(&self) -> mpsc::Receiver<Arrival> {
    // There are never more that nobody has taken.
    let (arrivals, arrived) = mpsc::channel(MAX_CHANNELS);
    let mut table = self.table();
    if !table.closed {
      table.arrivals = Some(arrivals);
    }
    arrived
  }

  /// What a frame says of a channel. `Some`: nobody wants it, and the peer is to be told so.
  pub(super) fn take(&self, number: u64, message: &ToHost<'_>) -> Result<Option<Close>, Foreign> {
    match message {
      ToHost::Connect(connect) => return self.connect(number, *connect),
      ToHost::Close(how) => {
        let gone = self.table().open.remove(&number).ok_or(Foreign::Order)?;
        gone.close(*how);
        return Ok(None);
      }
      _ => {}
    }
    let channel = self.table().open.get(&number).cloned().ok_or(Foreign::Order)?;
    match message {
      ToHost::Data(data) => channel.data(data)?,
      ToHost::End(Stream::Output) => channel.end()?,
      ToHost::Credit(Credit { stream: Stream::Input, limit }) => channel.raise(*limit),
      _ => return Err(Foreign::NoStream),
    }
    Ok(None)
  }

  fn connect(&self, number: u64, connect: Connect) -> Result<Option<Close>, Foreign> {
    let mut table = self.table();
    let fits = is_channel(number) && number > table.last && table.open.len() < MAX_CHANNELS;
    let (true, Some(arrivals)) = (fits, table.arrivals.clone()) else { return Err(Foreign::Order) };
    let channel = Arc::new(Channel::new(connect.window));
    table.last = number;
    table.open.insert(number, Arc::clone(&channel));
    let taken = arrivals.try_send(Arrival { number, channel: Arc::clone(&channel) });
    Ok(taken.is_err().then(|| {
      channel.abandon();
      Close::Reset
    }))
  }

  /// The link is broken: every connection is.
  pub(super) fn close(&self) {
    let mut table = self.table();
    table.closed = true;
    table.arrivals = None;
    table.open.drain().for_each(|(_, channel)| channel.close(Close::Reset));
  }

  fn table(&self) -> MutexGuard<'_, Table> {
    // No code panics while it holds the lock, and a table is whole between two changes.
    self.0.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

/// What is known of one connection, shared by the task that reads frames and whoever serves it.
pub(super) struct Channel(Mutex<State>);

struct State {
  /// What came and was not read.
  output: BytesMut,
  window: ReceiveWindow,
  /// The program has said all.
  ended: bool,
  input: SendWindow,
  /// The last word came, or the link broke.
  closed: Option<Close>,
  /// Nobody here wants it any more: what still comes is dropped.
  abandoned: bool,
  reader: Option<Waker>,
  writer: Option<Waker>,
}

impl Channel {
  fn new(window: u32) -> Self {
    Self(Mutex::new(State {
      output: BytesMut::new(),
      window: ReceiveWindow::new(CHANNEL_WINDOW.into()),
      ended: false,
      input: SendWindow::new(window.into()),
      closed: None,
      abandoned: false,
      reader: None,
      writer: None,
    }))
  }

  fn data(&self, data: &Data<'_>) -> Result<(), Foreign> {
    let mut state = self.state();
    if data.stream != Stream::Output {
      return Err(Foreign::NoStream);
    }
    if state.ended {
      return Err(Foreign::Order);
    }
    state.window.receive(data.offset, data.bytes.len() as u64)?;
    if !state.abandoned {
      state.output.extend_from_slice(data.bytes);
    }
    wake(&mut state.reader);
    Ok(())
  }

  fn end(&self) -> Result<(), Foreign> {
    let mut state = self.state();
    if std::mem::replace(&mut state.ended, true) {
      return Err(Foreign::Order);
    }
    wake(&mut state.reader);
    Ok(())
  }

  fn raise(&self, limit: u64) {
    let mut state = self.state();
    state.input.raise(limit);
    wake(&mut state.writer);
  }

  fn close(&self, how: Close) {
    let mut state = self.state();
    state.closed = Some(how);
    wake(&mut state.reader);
    wake(&mut state.writer);
  }

  /// Nobody will read or write it any more. False: its last word has come.
  pub(super) fn abandon(&self) -> bool {
    let mut state = self.state();
    state.abandoned = true;
    state.output = BytesMut::new();
    state.closed.is_none()
  }

  /// Fills `buffer` with what came; none at the end. `Ok(Some)`: the peer may send up to this offset now.
  pub(super) fn poll_read(
    &self,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
  ) -> Poll<Result<Option<u64>, Lost>> {
    let mut state = self.state();
    let count = state.output.len().min(buffer.remaining());
    if count > 0 {
      buffer.put_slice(state.output.get(..count).unwrap_or_default());
      state.output.advance(count);
      if state.output.is_empty() {
        // Room for a window is not kept for a connection that is quiet.
        state.output = BytesMut::new();
      }
      return Poll::Ready(Ok(state.window.consume(count as u64)));
    }
    match state.closed {
      _ if buffer.remaining() == 0 || (state.ended && state.output.is_empty()) => Poll::Ready(Ok(None)),
      Some(_) => Poll::Ready(Err(Lost)),
      None => {
        state.reader = Some(context.waker().clone());
        Poll::Pending
      }
    }
  }

  /// How many bytes may be sent now, at which offset; never none.
  pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<(usize, u64), Lost>> {
    let mut state = self.state();
    if state.closed.is_some() {
      return Poll::Ready(Err(Lost));
    }
    let room = usize::try_from(state.input.room()).unwrap_or(MAX_DATA).min(MAX_DATA);
    if room == 0 {
      state.writer = Some(context.waker().clone());
      return Poll::Pending;
    }
    Poll::Ready(Ok((room, state.input.sent())))
  }

  /// So many bytes were sent.
  pub(super) fn sent(&self, count: usize) {
    self.state().input.advance(count as u64);
  }

  fn state(&self) -> MutexGuard<'_, State> {
    // As above.
    self.0.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

/// The connection is reset, or the link is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

fn wake(waker: &mut Option<Waker>) {
  if let Some(waker) = waker.take() {
    waker.wake();
  }
}

#[cfg(test)]
mod tests;
