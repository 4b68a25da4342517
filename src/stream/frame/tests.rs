use proptest::prelude::*;

use super::*;

fn frame(stream: u8, data: &[u8]) -> Vec<u8> {
  let mut out = vec![stream, 0, 0, 0];
  out.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
  out.extend(data);
  out
}

/// Both streams' bytes when `input` arrives in pieces of these lengths.
fn split(input: &[u8], lengths: impl IntoIterator<Item = usize>) -> Result<(Vec<u8>, Vec<u8>), FrameError> {
  let (mut out, mut err): (Vec<u8>, Vec<u8>) = Default::default();
  let (mut demux, mut rest) = (Demux::default(), input);
  for len in lengths.into_iter().chain([input.len()]) {
    let (piece, after) = rest.split_at(len.min(rest.len()));
    rest = after;
    demux.push(piece, |channel, data| {
      assert!(!data.is_empty());
      match channel {
        Channel::Stdout => out.extend(data),
        Channel::Stderr => err.extend(data),
      }
    })?;
  }
  demux.finish()?;
  Ok((out, err))
}

#[test]
fn frames_of_length_0_1_and_70000_cut_at_every_byte_or_not_at_all() {
  let big: Vec<u8> = (0..70_000u32).map(|i| (i % 251) as u8).collect();
  let stream = [frame(1, b""), frame(2, b"x"), frame(1, &big), frame(2, b"")].concat();
  let expected = (big, b"x".to_vec());
  assert_eq!(split(&stream, std::iter::repeat_n(1, stream.len())).unwrap(), expected);
  assert_eq!(split(&stream, []).unwrap(), expected);
}

#[test]
fn bytes_out_are_bytes_in() {
  for data in [&b"a"[..], b"a\n", b"\n\n", b"a\r\nb", b"\0\xff"] {
    assert_eq!(split(&frame(1, data), []).unwrap().0, data);
  }
}

#[test]
fn a_stream_that_does_not_exist_is_an_error() {
  assert_eq!(split(&frame(7, b"x"), []), Err(FrameError::BadHeader([7, 0, 0, 0])));
  assert_eq!(split(b"HTTP/1.1 200", []), Err(FrameError::BadHeader(*b"HTTP")));
  assert_eq!(split(&frame(3, b"boom"), []), Err(FrameError::Engine));
}

#[test]
fn a_stream_that_stops_half_way_is_an_error() {
  assert_eq!(split(&[1, 0, 0, 0, 0], []), Err(FrameError::CutHeader(5)));
  assert_eq!(split(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, b'x'], []), Err(FrameError::CutFrame(u32::MAX - 1)));
  assert_eq!(split(&frame(1, b"abc")[..9], []), Err(FrameError::CutFrame(2)));
}

#[test]
fn bytes_of_an_unfinished_frame_are_passed_on_at_once() {
  let mut demux = Demux::default();
  let mut seen: Vec<u8> = Vec::new();
  demux.push(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, b'n', b'o', b'w'], |_, data| seen.extend(data)).unwrap();
  assert_eq!(seen, b"now");
}

proptest! {
  #[test]
  fn any_frames_in_any_cut(
    frames in prop::collection::vec((1u8..=2, prop::collection::vec(any::<u8>(), 0..50)), 0..12),
    cuts in prop::collection::vec(1usize..20, 0..60),
  ) {
    let stream: Vec<u8> = frames.iter().flat_map(|(kind, data)| frame(*kind, data)).collect();
    let of = |kind| frames.iter().filter(|f| f.0 == kind).flat_map(|f| f.1.clone()).collect::<Vec<u8>>();
    prop_assert_eq!(split(&stream, cuts).unwrap(), (of(1), of(2)));
  }

  #[test]
  fn hostile_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(0usize..9, 0..40)) {
    let _outcome = split(&input, cuts);
  }
}
