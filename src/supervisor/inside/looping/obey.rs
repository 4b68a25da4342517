//! What the holder's frames do.

use super::super::operations::{Context, Operations};
use super::End;
use crate::supervisor::wire::{Frame, Kind, Notice, ToHost, ToInside};

/// Does what a frame of the holder says.
pub(super) fn obey(
  frame: &Frame<'_>,
  operations: &mut Operations,
  context: &mut Context<'_>,
) -> Result<(), End> {
  let message = ToInside::decode(frame).ok();
  let op = frame.op;
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
    request => is_request(frame.kind) && operations.open(op, frame.kind, request.as_ref(), context),
  };
  if !obeyed {
    context.link.mention(0, &ToHost::Notice(Notice::Ignored, 1));
  }
  Ok(())
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
      | Kind::Connect
  )
}
