mod damage;
mod flow;
mod messages;
mod takeover;

use super::*;

const KEY: u64 = 0x1122_3344_5566_7788;
const FENCE: u64 = 7;

/// Frames as values that outlive the decoder.
type Seen = (Kind, u64, Vec<u8>);

/// Everything that a decoder finds in these bytes, brought in pieces of `piece`.
fn decode(decoder: &mut Decoder, bytes: &[u8], piece: usize) -> Vec<Seen> {
  let mut seen = Vec::new();
  for mut chunk in bytes.chunks(piece.max(1)) {
    while !chunk.is_empty() {
      let taken = decoder.feed(chunk);
      chunk = &chunk[taken..];
      while let Some(frame) = decoder.next_frame() {
        seen.push((frame.kind, frame.op, frame.payload.to_vec()));
      }
    }
  }
  seen
}

fn bound() -> Decoder {
  let mut decoder = Decoder::for_supervisor();
  decoder.bind(KEY, FENCE);
  decoder
}

fn encoder() -> Encoder {
  Encoder::new(KEY, FENCE)
}

fn data(offset: u64, bytes: &[u8]) -> ToInside<'_> {
  ToInside::Data(Data { stream: Stream::Input, offset, bytes })
}
