use proptest::prelude::*;

use super::*;

fn three_frames() -> (Vec<u8>, Vec<Seen>) {
  let mut bytes = Vec::new();
  data(0, b"first").encode(&encoder(), 1, &mut bytes).unwrap();
  ToInside::Heartbeat(5).encode(&encoder(), 0, &mut bytes).unwrap();
  data(5, b"\xF5ZS\xFB").encode(&encoder(), 2, &mut bytes).unwrap();
  let seen = decode(&mut bound(), &bytes, usize::MAX);
  assert_eq!(
    seen.iter().map(|(kind, op, _)| (*kind, *op)).collect::<Vec<_>>(),
    [(Kind::Data, 1), (Kind::Heartbeat, 0), (Kind::Data, 2)]
  );
  (bytes, seen)
}

#[test]
fn every_piece_size_gives_the_same_frames() {
  let (bytes, seen) = three_frames();
  for piece in 1..=bytes.len() {
    let mut decoder = bound();
    assert_eq!(decode(&mut decoder, &bytes, piece), seen, "{piece}");
    assert_eq!(decoder.take_skipped(), Skipped::default());
    assert_eq!(decoder.pending(), 0);
  }
}

#[test]
fn a_cut_frame_is_no_frame() {
  let (bytes, seen) = three_frames();
  for cut in 0..bytes.len() {
    let found = decode(&mut bound(), &bytes[..cut], usize::MAX);
    assert!(found.len() < 3 && found == seen[..found.len()], "{cut}");
  }
}

// A changed byte loses the frame that it is in and no other.
#[test]
fn a_changed_byte_loses_its_own_frame_only() {
  let (bytes, seen) = three_frames();
  let ends = [HEADER + 9 + 5, 2 * HEADER + 9 + 5 + 8, bytes.len()];
  for at in 0..bytes.len() {
    let mut changed = bytes.clone();
    changed[at] ^= 0x40;
    let hit = ends.iter().position(|end| at < *end).unwrap();
    let mut expected = seen.clone();
    expected.remove(hit);
    let mut decoder = bound();
    // The preamble ends what a changed length may still be waiting for.
    changed.extend_from_slice(&[0; HEADER + MAX_PAYLOAD]);
    assert_eq!(decode(&mut decoder, &changed, usize::MAX), expected, "{at}");
    assert!(decoder.take_skipped().bytes > 0);
  }
}

#[test]
fn garbage_is_counted_and_skipped() {
  let (bytes, seen) = three_frames();
  let mut decoder = bound();
  let mixed = [b"noise \xF5 \xF5ZS \xF5Z".as_slice(), &bytes, b"tail"].concat();
  assert_eq!(decode(&mut decoder, &mixed, 7), seen);
  assert_eq!(decoder.take_skipped(), Skipped { bytes: 14 + 4, stale: 0, unknown: 0 });
  assert_eq!(decoder.take_skipped(), Skipped::default());
}

#[test]
fn a_length_beyond_its_kind_allocates_nothing() {
  for kind in Kind::ALL {
    let most = kind.max_payload();
    let mut bytes = Vec::new();
    encoder().frame(&mut bytes, *kind, 1, |out| out.resize(out.len() + most, 7)).unwrap();
    assert_eq!(decode(&mut bound(), &bytes, usize::MAX).len(), 1, "{kind:?}");
    bytes.clear();
    let over = encoder().frame(&mut bytes, *kind, 1, |out| out.resize(out.len() + most + 1, 7));
    assert_eq!((over, bytes.len()), (Err(WireError::TooLong), 0), "{kind:?}");
  }
  // A header that announces more than its kind allows, with checks that are right, is garbage at once.
  let mut bytes = Vec::new();
  encoder().frame(&mut bytes, Kind::Exec, 1, |out| out.resize(out.len() + MAX_PAYLOAD + 1, 7)).unwrap();
  bytes[5] = Kind::Data as u8;
  let check = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..44], 0) as u32;
  bytes[44..48].copy_from_slice(&check.to_le_bytes());
  let mut decoder = bound();
  assert_eq!(decode(&mut decoder, &bytes[..HEADER], usize::MAX), []);
  assert_eq!(decoder.pending(), 0);
}

#[test]
fn a_kind_of_a_later_version_is_passed_over_whole() {
  let (bytes, seen) = three_frames();
  let mut unknown = Vec::new();
  encoder().frame(&mut unknown, Kind::Data, 9, |out| out.extend_from_slice(b"later")).unwrap();
  unknown[5] = 0x7f;
  let check = xxhash_rust::xxh3::xxh3_64_with_seed(&unknown[..44], 0) as u32;
  unknown[44..48].copy_from_slice(&check.to_le_bytes());
  let mut decoder = bound();
  assert_eq!(decode(&mut decoder, &[unknown, bytes].concat(), usize::MAX), seen);
  assert_eq!(decoder.take_skipped(), Skipped { bytes: 0, stale: 0, unknown: 1 });
}

proptest! {
  #[test]
  fn frames_between_any_garbage_are_found(
    before in prop::collection::vec(any::<u8>(), 0..300),
    after in prop::collection::vec(any::<u8>(), 0..300),
    piece in 1usize..200,
  ) {
    let (bytes, seen) = three_frames();
    let found = decode(&mut bound(), &[before, bytes, after].concat(), piece);
    prop_assert_eq!(found, seen);
  }
}
