use super::*;

fn record(kind: u8, contents: &[u8]) -> Vec<u8> {
  let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
  [&[kind, 3, 3], &length[..], contents].concat()
}

fn server_hello(random: [u8; 32]) -> Vec<u8> {
  [&[2, 0, 0, 40, 3, 3], &random[..], &[0, 0x13, 1, 0, 0, 0]].concat()
}

/// What is known after each part of at most so many bytes, and after how many bytes that was.
fn answered(bytes: &[u8], most: usize) -> Option<Answer> {
  let mut answering = Answering::default();
  bytes.chunks(most).find_map(|part| answering.push(part))
}

#[test]
fn a_retry_is_known_by_its_random_however_it_is_cut() {
  let other = [&RETRY[..31], &[0]].concat().try_into().unwrap();
  for (random, answer) in [(RETRY, Answer::Retry), (other, Answer::Other)] {
    let whole = server_hello(random);
    for fragment in [1, 5, 38, 100] {
      let bytes: Vec<u8> = whole.chunks(fragment).flat_map(|part| record(22, part)).collect();
      for part in [1, 4, 1000] {
        assert_eq!(answered(&bytes, part), Some(answer), "{fragment} {part}");
      }
    }
    assert_eq!(answered(&record(22, &whole[..37]), 1), None);
  }
}

#[test]
fn whatever_else_a_server_says_is_no_retry() {
  for bytes in [&record(21, &[2, 40])[..], b"SSH-2.0-x\r\n", b"HTTP/1.1 400", &record(22, &[11, 0, 0, 1, 0])]
  {
    assert_eq!(answered(bytes, 1), Some(Answer::Other), "{bytes:?}");
  }
  // A record without contents tells nothing.
  assert_eq!(answered(&[record(22, b""), record(22, &server_hello(RETRY))].concat(), 3), Some(Answer::Retry));
}

#[test]
fn a_handshake_record_is_found_behind_all_others() {
  let early = record(23, &[22; 300]);
  let change = record(20, &[1]);
  let before = [early, change, record(21, &[1, 0])].concat();
  let bytes = [&before[..], &record(22, b"second")].concat();
  for part in [1, 3, 5, 64, 10_000] {
    let mut following = Following::default();
    let mut passed = 0;
    let found = bytes.chunks(part).find_map(|bytes| {
      let found = following.push(bytes).unwrap();
      passed += found.unwrap_or(bytes.len());
      found
    });
    assert!(found.is_some());
    assert_eq!(passed, before.len(), "{part}");
  }
}

#[test]
fn what_is_no_record_ends_it() {
  for kind in (0..20).chain(24..=255) {
    assert_eq!(Following::default().push(&[kind]), Err(HelloFault::Malformed));
  }
  assert_eq!(Following::default().push(&[]), Ok(None));
}
