//! Frames and messages: what is said is heard as it was said, what is heard would be said again in the same bytes, and no
//! garbage hides the frame behind it.

use arbitrary::{Result, Unstructured};
use sandbox_docker::supervisor::wire::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::messages::{self, Words, odd_frame};
use super::pieces::pieces;

const KEY: u64 = 0x1122_3344_5566_7788;
const FENCE: u64 = 7;
/// What a decoder may ever hold, twice over where it moves to a larger buffer, and what this target has beside it.
const MEMORY: usize = 8 * 1024 * 1024;
/// Longest stream that is tried.
const LONGEST: usize = 256 * 1024;

pub fn check(data: &[u8]) {
  let Some((how, rest)) = data.split_first() else { return };
  super::bounded(MEMORY, || match how % 4 {
    0 => payload(rest),
    1 => stream(rest, how / 4),
    // An input that ends too early is none.
    2 => _ = said(&mut Unstructured::new(rest)),
    _ => _ = segments(&mut Unstructured::new(rest), how / 4),
  });
}

fn encoder() -> Encoder {
  Encoder::new(KEY, FENCE)
}

/// A payload of any bytes under every kind.
fn payload(bytes: &[u8]) {
  let Some((kind, payload)) = bytes.split_first() else { return };
  if let Ok(Some((entry, length))) = Entry::read(payload) {
    let mut out = Vec::new();
    entry.write(&mut out);
    assert_eq!(out, payload[..length], "{entry:?}");
  }
  image_digest(payload);
  let Some(kind) = Kind::from_u8(*kind) else { return };
  let frame = Frame { kind, key: KEY, fence: FENCE, op: 1, payload };
  if let Ok(message) = ToHost::decode(&frame) {
    assert_eq!(message.kind(), kind);
    repeats(payload, |out| message.encode(&encoder(), 1, out));
  }
  if let Ok(message) = ToInside::decode(&frame) {
    assert_eq!(message.kind(), kind);
    repeats(payload, |out| message.encode(&encoder(), 1, out));
  }
}

/// What was accepted is written as it came.
fn repeats(payload: &[u8], encode: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), WireError>) {
  let mut bytes = Vec::new();
  match encode(&mut bytes) {
    Ok(()) => assert_eq!(&bytes[HEADER..], payload),
    // Nothing so long comes out of a decoder.
    Err(error) => assert!(payload.len() > MAX_PAYLOAD, "{error}"),
  }
}

/// A message of either end arrives as it was said.
fn said(u: &mut Unstructured<'_>) -> Result<()> {
  let op = messages::number(u)?;
  let words = Words::new(u)?;
  let mut bytes = Vec::new();
  if u.arbitrary()? {
    let message = messages::to_host(u)?;
    message.encode(&encoder(), op, &mut bytes).unwrap();
    let frame = Frame::whole(&bytes).unwrap();
    assert_eq!((frame.key, frame.fence, frame.op), (KEY, FENCE, op));
    assert_eq!(ToHost::decode(&frame), Ok(message));
  } else {
    let message = messages::to_inside(u, &words, &[], 1)?;
    message.encode(&encoder(), op, &mut bytes).unwrap();
    let frame = Frame::whole(&bytes).unwrap();
    let unnamed =
      matches!(message, ToInside::Exec(exec) if exec.argv.iter().next().is_none_or(|name| name.is_empty()));
    let expected = if unnamed { Err(WireError::Invalid) } else { Ok(message) };
    assert_eq!(ToInside::decode(&frame), expected);
  }
  Ok(())
}

/// A stream of frames, right and wrong, and of what is none.
fn segments(u: &mut Unstructured<'_>, seed: u8) -> Result<()> {
  let mut all = Vec::new();
  while !u.is_empty() && all.len() < LONGEST {
    let encoder = match u.int_in_range(0..=7u8)? {
      0 => Encoder::new(KEY + 1, FENCE),
      1 => Encoder::new(KEY, FENCE - 1),
      _ => encoder(),
    };
    match u.int_in_range(0..=7u8)? {
      0 => all.extend_from_slice(messages::bytes(u, 4096)?),
      1 => all.extend_from_slice(&MAGIC[..u.int_in_range(1..=4usize)?]),
      2 => all.resize(all.len() + u.int_in_range(0..=100usize)?, 0),
      3 => {
        let (kind, length) = (u.arbitrary()?, u.arbitrary()?);
        all.extend(odd_frame(&encoder, messages::number(u)?, kind, length, messages::bytes(u, 4096)?));
      }
      4 => {
        // Half a frame, or one with a bit that is wrong.
        let (kind, payload) = (u.arbitrary()?, messages::bytes(u, 4096)?);
        let mut frame = odd_frame(&encoder, 1, kind, None, payload);
        let at = u.int_in_range(0..=frame.len() - 1)?;
        if u.arbitrary()? {
          frame.truncate(at)
        } else {
          frame[at] ^= 1 << u.int_in_range(0..=7u8)?
        }
        all.extend(frame);
      }
      _ => {
        let kind = *u.choose(Kind::ALL)?;
        let payload = messages::bytes(u, kind.max_payload().min(4096))?;
        let payload = &payload[..payload.len().min(kind.max_payload())];
        encoder.frame(&mut all, kind, messages::number(u)?, |out| out.extend_from_slice(payload)).unwrap();
      }
    }
  }
  stream(&all, seed);
  Ok(())
}

/// A frame, however long the decoder lives: kind, key, fence, operation, payload.
type Seen = (Kind, u64, u64, u64, Vec<u8>);

/// Any bytes, to each kind of decoder.
fn stream(bytes: &[u8], seed: u8) {
  let mut inside = Decoder::for_supervisor();
  heard(inside, bytes, seed, (None, true));
  inside = Decoder::for_supervisor();
  inside.bind(KEY, FENCE);
  heard(inside, bytes, seed, (Some((KEY, FENCE)), true));
  heard(Decoder::for_host(KEY, FENCE), bytes, seed, (Some((KEY, FENCE)), false));
}

fn heard(mut decoder: Decoder, bytes: &[u8], seed: u8, (holder, hellos): (Option<(u64, u64)>, bool)) {
  let (mut seen, mut passed) = (Vec::new(), 0);
  for piece in pieces(bytes, seed) {
    feed(&mut decoder, piece, &mut seen);
    passed += piece.len();
  }
  // Whatever half frame is in the way: so many zeros end it, and the next frame is heard.
  let mut zeros = 0;
  while decoder.pending() > 0 {
    assert!(zeros <= PREAMBLE, "{} bytes wait after {zeros} zeros", decoder.pending());
    feed(&mut decoder, &[0; 4096], &mut seen);
    zeros += 4096;
  }
  let mut last = Vec::new();
  let own = holder.map_or(Encoder::new(KEY, FENCE), |(key, fence)| Encoder::new(key, fence));
  let kind = if hellos { Kind::Hello } else { Kind::Notice };
  own.frame(&mut last, kind, 5, |out| out.extend_from_slice(b"resynchronised")).unwrap();
  feed(&mut decoder, &last, &mut seen);
  let end = seen.pop().unwrap();
  assert_eq!(
    end,
    (kind, KEY, FENCE, 5, b"resynchronised".to_vec()),
    "behind {passed} bytes and {zeros} zeros"
  );
  let whole = [bytes, &vec![0; zeros]].concat();
  let (expected, unknown) = expected(&whole, holder, hellos);
  assert_eq!(seen, expected);
  let skipped = decoder.take_skipped();
  assert_eq!(skipped.unknown, unknown.0);
  let frames: usize = seen.iter().map(|(.., payload)| HEADER + payload.len()).sum();
  assert_eq!(usize::try_from(skipped.bytes).unwrap() + frames + unknown.1, whole.len());
}

fn feed(decoder: &mut Decoder, mut bytes: &[u8], seen: &mut Vec<Seen>) {
  while !bytes.is_empty() {
    let taken = decoder.feed(bytes);
    assert!(taken > 0, "there is no room, and no frame");
    bytes = &bytes[taken..];
    while let Some(frame) = decoder.next_frame() {
      seen.push((frame.kind, frame.key, frame.fence, frame.op, frame.payload.to_vec()));
    }
  }
}

/// What docs/protocol.md says is heard: at each place, the first whole frame with right checks of the holder, or a hello
/// where hellos are taken; else one byte is passed over. The frames, and how many of unknown kinds with how many bytes.
fn expected(bytes: &[u8], holder: Option<(u64, u64)>, hellos: bool) -> (Vec<Seen>, (u64, usize)) {
  let (mut seen, mut unknown, mut at) = (Vec::new(), (0, 0), 0);
  while at < bytes.len() {
    let Some((number, key, fence, op, payload)) = frame(&bytes[at..]) else {
      at += 1;
      continue;
    };
    let kind = Kind::from_u8(number);
    if holder != Some((key, fence)) && !(hellos && kind == Some(Kind::Hello)) {
      at += 1;
      continue;
    }
    at += HEADER + payload.len();
    match kind {
      Some(kind) => seen.push((kind, key, fence, op, payload.to_vec())),
      None => unknown = (unknown.0 + 1, unknown.1 + HEADER + payload.len()),
    }
  }
  (seen, unknown)
}

fn frame(bytes: &[u8]) -> Option<(u8, u64, u64, u64, &[u8])> {
  let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
  let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
  if bytes.len() < HEADER || bytes[..4] != MAGIC || bytes[4] != VERSION || bytes[6..8] != [0, 0] {
    return None;
  }
  let (kind, key, fence, op, length) = (bytes[5], number(8), number(16), number(24), word(32) as usize);
  let most = Kind::from_u8(kind).map_or(MAX_PAYLOAD, Kind::max_payload);
  let payload = bytes[HEADER..].get(..length).filter(|_| length <= most)?;
  let right =
    word(44) == xxh3_64_with_seed(&bytes[..44], 0) as u32 && number(36) == xxh3_64_with_seed(payload, key);
  right.then_some((kind, key, fence, op, payload))
}
