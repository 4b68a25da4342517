//! Bytes in pieces, as a connection may bring them.

/// The same bytes in pieces whose lengths the seed decides: single bytes, short ones, long ones.
pub fn pieces(bytes: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
  let longest = [1, 2, 7, 64, 511, 513, 4096, usize::MAX][usize::from(seed % 8)];
  let mut state = u64::from(seed) | 1;
  let mut rest = bytes;
  std::iter::from_fn(move || {
    if rest.is_empty() {
      return None;
    }
    // Knuth's multiplier of MMIX; the upper bits are the random ones.
    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let length = 1 + usize::try_from(state >> 33).unwrap() % longest;
    let (piece, after) = rest.split_at(length.min(rest.len()));
    rest = after;
    Some(piece)
  })
}
