//! What arrived for one operation and was not taken yet. Its size is bounded whatever the peer sends: contents by the
//! windows that were granted, everything else by the rules of the protocol, which allow each of it once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use super::{Event, WINDOW};
use crate::supervisor::wire::{CommandEnd, Data, FlowError, ReceiveWindow, Reply, Started, Stream};

/// Pieces of the two streams in the order in which they came. With more than so many, a piece joins the last one of its
/// stream: a writer that alternates byte by byte would otherwise cost a piece for each.
const MAX_PIECES: usize = 1024;

/// A rule of the protocol that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
  /// Windows and offsets.
  #[error(transparent)]
  Flow(#[from] FlowError),
  /// Something that may come once came twice, or after the end of what it belongs to.
  #[error("a frame came twice, or after the end of what it belongs to")]
  Order,
  /// An operation of the host's has no such stream.
  #[error("a frame is about a stream that the operation does not have")]
  NoStream,
  /// It ended in a way that what was asked for cannot end in.
  #[error("an operation ended in a way that it cannot end in")]
  Answer,
}

/// Shared by the task that reads and the operation.
#[derive(Clone, Default)]
pub struct Inbox(Arc<Inner>);

#[derive(Default)]
struct Inner {
  state: Mutex<State>,
  arrived: Notify,
}

struct State {
  started: Option<Started>,
  was_started: bool,
  pieces: VecDeque<(Stream, BytesMut)>,
  windows: [ReceiveWindow; 3],
  /// Ends that came, and those that were taken.
  ended: [bool; 3],
  end_taken: [bool; 3],
  /// How far input may be sent, if that changed.
  credit: Option<u64>,
  exited: Option<CommandEnd>,
  was_exited: bool,
  done: Option<Reply>,
  /// Nothing comes any more: the link is broken.
  closed: bool,
}

impl Default for State {
  fn default() -> Self {
    Self {
      started: None,
      was_started: false,
      pieces: VecDeque::new(),
      windows: [ReceiveWindow::new(WINDOW as u64); 3],
      ended: [false; 3],
      end_taken: [false; 3],
      credit: None,
      exited: None,
      was_exited: false,
      done: None,
      closed: false,
    }
  }
}

impl Inbox {
  /// It began.
  pub fn started(&self, started: Started) -> Result<(), Foreign> {
    self.put(|state| {
      state.started = Some(started);
      once(&mut state.was_started)
    })
  }

  /// A piece of its output.
  pub fn data(&self, data: &Data<'_>) -> Result<(), Foreign> {
    self.put(|state| {
      let stream = output(data.stream)?;
      let window = state.windows.get_mut(stream).ok_or(Foreign::NoStream)?;
      window.receive(data.offset, data.bytes.len() as u64)?;
      if state.ended.get(stream).copied().unwrap_or(true) {
        return Err(Foreign::Order);
      }
      if !data.bytes.is_empty() {
        state.append(data.stream, data.bytes);
      }
      Ok(())
    })
  }

  /// The end of one of its streams.
  pub fn end(&self, stream: Stream) -> Result<(), Foreign> {
    self.put(|state| once(state.ended.get_mut(output(stream)?).ok_or(Foreign::NoStream)?))
  }

  /// So much of its input may be sent in all.
  pub fn credit(&self, stream: Stream, limit: u64) -> Result<(), Foreign> {
    self.put(|state| {
      if stream != Stream::Input {
        return Err(Foreign::NoStream);
      }
      state.credit = Some(state.credit.unwrap_or(0).max(limit));
      Ok(())
    })
  }

  /// The command is gone.
  pub fn exited(&self, end: CommandEnd) -> Result<(), Foreign> {
    self.put(|state| {
      state.exited = Some(end);
      once(&mut state.was_exited)
    })
  }

  /// The last word. The caller lets go of the inbox, so it comes once.
  pub fn done(&self, reply: Reply) {
    let mut state = self.state();
    state.done = Some(reply);
    drop(state);
    self.0.arrived.notify_one();
  }

  /// The link is broken.
  pub fn close(&self) {
    self.state().closed = true;
    self.0.arrived.notify_one();
  }

  /// The next event, and the limit of a stream that is to be told the peer, since its reader has caught up. `None` where
  /// nothing comes any more.
  pub async fn next(&self) -> Option<(Event, Option<u64>)> {
    self.first(State::take).await
  }

  /// The same for who cannot take output now: it waits, and what comes behind it.
  pub async fn next_control(&self) -> Option<Event> {
    self.first(State::take_control).await
  }

  async fn first<T>(&self, take: impl Fn(&mut State) -> Option<T>) -> Option<T> {
    loop {
      let arrived = self.0.arrived.notified();
      {
        let mut state = self.state();
        if let Some(event) = take(&mut state) {
          return Some(event);
        }
        if state.closed {
          return None;
        }
      }
      arrived.await;
    }
  }

  fn put(&self, change: impl FnOnce(&mut State) -> Result<(), Foreign>) -> Result<(), Foreign> {
    change(&mut self.state())?;
    self.0.arrived.notify_one();
    Ok(())
  }

  fn state(&self) -> MutexGuard<'_, State> {
    // Nothing panics while it is held, and the state is whole between two uses.
    self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

impl State {
  fn append(&mut self, stream: Stream, bytes: &[u8]) {
    let crowded = self.pieces.len() >= MAX_PIECES;
    let mut last = self.pieces.iter_mut().rev();
    let piece = if crowded { last.find(|(of, _)| *of == stream) } else { last.next() };
    match piece {
      Some((of, piece)) if *of == stream => piece.extend_from_slice(bytes),
      _ => self.pieces.push_back((stream, BytesMut::from(bytes))),
    }
  }

  /// What does not wait behind output that nobody may want to read.
  fn take_control(&mut self) -> Option<Event> {
    let started = self.started.take().map(Event::Started);
    let credit = || self.credit.take().map(Event::Credit);
    let exited = || self.exited.take().map(Event::Exited);
    started.or_else(credit).or_else(exited)
  }

  fn take(&mut self) -> Option<(Event, Option<u64>)> {
    if let Some(event) = self.take_control() {
      return Some((event, None));
    }
    if let Some((stream, piece)) = self.pieces.pop_front() {
      let bytes: Bytes = piece.freeze();
      let grant = self.windows.get_mut(stream as usize).and_then(|window| window.consume(bytes.len() as u64));
      return Some((Event::Data(stream, bytes), grant));
    }
    for stream in [Stream::Output, Stream::Error] {
      let at = stream as usize;
      if let (Some(true), Some(taken @ false)) = (self.ended.get(at).copied(), self.end_taken.get_mut(at)) {
        *taken = true;
        return Some((Event::End(stream), None));
      }
    }
    self.done.take().map(|reply| (Event::Done(reply), None))
  }
}

fn once(flag: &mut bool) -> Result<(), Foreign> {
  if std::mem::replace(flag, true) { Err(Foreign::Order) } else { Ok(()) }
}

/// The place of a stream that the supervisor may write to.
const fn output(stream: Stream) -> Result<usize, Foreign> {
  match stream {
    Stream::Input => Err(Foreign::NoStream),
    Stream::Output | Stream::Error => Ok(stream as usize),
  }
}

#[cfg(test)]
mod tests;
