//! What the holder's frames do.

use super::super::operations::{Context, Operations};
use super::End;
use crate::supervisor::wire::{Frame, Kind, Notice, ToHost, ToInside, is_channel};

/// Does what a frame of the holder says.
pub(super) fn obey(
  frame: &Frame<'_>,
  operations: &mut Operations,
  context: &mut Context<'_>,
) -> Result<(), End> {
  let message = ToInside::decode(frame).ok();
  let op = frame.op;
  if is_channel(op) {
    if !message.is_some_and(|message| obey_channel(op, &message, context)) {
      context.link.mention(0, &ToHost::Notice(Notice::Ignored, 1));
    }
    return Ok(());
  }
  let obeyed = match &message {
    Some(ToInside::Heartbeat(number)) => {
      context.link.heard();
      context.link.mention(0, &ToHost::Heartbeat(*number));
      true
    }
    Some(ToInside::Shutdown) => return Err(End::Shutdown),
    Some(ToInside::Ack) => {
      operations.acknowledge(op);
      true
    }
    Some(ToInside::Data(data)) => {
      operations.take(op, data, context);
      true
    }
    Some(ToInside::End(_)) => {
      operations.end_input(op);
      true
    }
    Some(ToInside::Credit(credit)) => {
      operations.raise(op, *credit);
      true
    }
    Some(ToInside::Cancel) => {
      operations.cancel(op, context.now);
      true
    }
    Some(ToInside::Signal(number)) => {
      operations.signal(op, *number);
      true
    }
    Some(ToInside::Close(_)) if op == 0 => {
      context.channels.leave();
      true
    }
    request => is_request(frame.kind) && operations.open(op, frame.kind, request.as_ref(), context),
  };
  if !obeyed {
    context.link.mention(0, &ToHost::Notice(Notice::Ignored, 1));
  }
  Ok(())
}

/// What the holder says of a connection to the proxy.
fn obey_channel(number: u64, message: &ToInside<'_>, context: &mut Context<'_>) -> bool {
  let Context { channels, link, now, .. } = context;
  match message {
    ToInside::Data(data) => channels.take(number, data, link),
    ToInside::End(_) => channels.end_input(number),
    ToInside::Credit(credit) => channels.raise(number, *credit),
    ToInside::Close(how) => channels.close(number, *how, *now),
    _ => return false,
  }
  true
}

const fn is_request(kind: Kind) -> bool {
  matches!(
    kind,
    Kind::ReadFile
      | Kind::WriteFile
      | Kind::List
      | Kind::Exec
      | Kind::TarOut
      | Kind::TarIn
      | Kind::SelfTest
      | Kind::Listen
  )
}
