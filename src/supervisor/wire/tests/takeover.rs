use super::*;

fn hello(encoder: &Encoder) -> Vec<u8> {
  let token = Token([9; 32]);
  let mut bytes = Vec::new();
  let hello = ToInside::Hello(Hello { token, next_token: token, dead_man_ms: 0 });
  hello.encode(encoder, 0, &mut bytes).unwrap();
  bytes
}

#[test]
fn a_new_supervisor_hears_nothing_but_hellos() {
  let mut bytes = Vec::new();
  ToInside::Heartbeat(1).encode(&encoder(), 0, &mut bytes).unwrap();
  bytes.extend(hello(&encoder()));
  let mut decoder = Decoder::for_supervisor();
  let seen = decode(&mut decoder, &bytes, usize::MAX);
  assert_eq!(seen.iter().map(|frame| frame.0).collect::<Vec<_>>(), [Kind::Hello]);
  assert_eq!(decoder.take_skipped().stale, 1);
}

#[test]
fn a_host_hears_no_hello_and_no_other_key_or_fence() {
  let mut decoder = Decoder::for_host(KEY, FENCE);
  let mut bytes = hello(&Encoder::new(1, FENCE));
  for (key, fence) in [(KEY, FENCE - 1), (KEY, FENCE + 1), (KEY + 1, FENCE)] {
    ToHost::Heartbeat(1).encode(&Encoder::new(key, fence), 0, &mut bytes).unwrap();
  }
  assert_eq!(decode(&mut decoder, &bytes, usize::MAX), []);
  assert_eq!(decoder.take_skipped().stale, 4);
}

// A host died at any point of what it wrote; the next one says hello, waits, sends the preamble and says hello again.
#[test]
fn whatever_half_frame_a_dead_host_left_the_next_one_is_heard() {
  let next = Encoder::new(99, FENCE + 1);
  let mut dead = Vec::new();
  data(0, &[7; 100]).encode(&encoder(), 1, &mut dead).unwrap();
  let greeting = hello(&next);
  for cut in 0..dead.len() {
    let mut bytes = dead[..cut].to_vec();
    bytes.extend_from_slice(&greeting);
    bytes.resize(bytes.len() + PREAMBLE, 0);
    bytes.extend_from_slice(&greeting);
    let mut decoder = bound();
    let seen = decode(&mut decoder, &bytes, 5000);
    assert!(seen.iter().all(|frame| frame.0 == Kind::Hello), "{cut}");
    assert_eq!(seen.last().unwrap().2, greeting[HEADER..], "{cut}");
    assert!(decoder.take_skipped().bytes >= cut as u64);
  }
}

#[test]
fn the_preamble_ends_the_longest_request() {
  let next = Encoder::new(99, FENCE + 1);
  let mut bytes = Vec::new();
  encoder().frame(&mut bytes, Kind::Exec, 1, |out| out.resize(out.len() + MAX_EXEC_PAYLOAD, 1)).unwrap();
  bytes.truncate(HEADER);
  bytes.resize(bytes.len() + PREAMBLE, 0);
  bytes.extend_from_slice(&hello(&next));
  let seen = decode(&mut bound(), &bytes, 60_000);
  assert_eq!(seen.iter().map(|frame| frame.0).collect::<Vec<_>>(), [Kind::Hello]);
}

#[test]
fn after_bind_the_old_holder_is_not_heard() {
  let next = Encoder::new(99, FENCE + 1);
  let mut decoder = bound();
  let mut bytes = Vec::new();
  data(0, b"old").encode(&encoder(), 1, &mut bytes).unwrap();
  decoder.bind(99, FENCE + 1);
  data(0, b"new").encode(&next, 1, &mut bytes).unwrap();
  let seen = decode(&mut decoder, &bytes, usize::MAX);
  assert_eq!(seen.len(), 1);
  assert_eq!(seen[0].2[DATA_PREFIX..], *b"new");
}

// A stopped host and its successor write into one pipe: pieces of both alternate.
#[test]
fn interleaved_writers_make_no_frame_that_neither_wrote() {
  let next = Encoder::new(99, FENCE + 1);
  let (mut old, mut new) = (Vec::new(), Vec::new());
  for number in 0..40 {
    data(number * 50, &[b'o'; 50]).encode(&encoder(), 1, &mut old).unwrap();
    data(number * 50, &[b'n'; 50]).encode(&next, 1, &mut new).unwrap();
  }
  let mut mixed = Vec::new();
  for (one, other) in old.chunks(333).zip(new.chunks(333)) {
    mixed.extend_from_slice(one);
    mixed.extend_from_slice(other);
  }
  let mut decoder = bound();
  decoder.bind(99, FENCE + 1);
  let seen = decode(&mut decoder, &mixed, 100);
  assert!(seen.len() > 20, "{}", seen.len());
  assert!(seen.iter().all(|(_, _, payload)| payload[DATA_PREFIX..] == [b'n'; 50]));
}

// Contents of a file cannot hold a frame that is believed: they do not know the key, and a hello in them not the token.
#[test]
fn a_frame_hidden_in_contents_is_garbage() {
  let mut hidden = Vec::new();
  ToInside::Shutdown.encode(&Encoder::new(KEY ^ 1, FENCE), 0, &mut hidden).unwrap();
  let mut bytes = Vec::new();
  data(0, &hidden).encode(&encoder(), 1, &mut bytes).unwrap();
  bytes[HEADER - 1] ^= 1;
  assert_eq!(decode(&mut bound(), &bytes, usize::MAX), []);
}

#[test]
fn a_hello_has_one_length_and_is_whole_or_nothing() {
  let greeting = hello(&encoder());
  assert_eq!(greeting.len(), HELLO_FRAME);
  let frame = Frame::whole(&greeting).unwrap();
  assert_eq!((frame.kind, frame.key, frame.fence), (Kind::Hello, KEY, FENCE));
  for cut in 0..greeting.len() {
    assert_eq!(Frame::whole(&greeting[..cut]), None, "{cut}");
  }
  for at in 0..greeting.len() {
    let mut damaged = greeting.clone();
    damaged[at] ^= 1;
    assert_eq!(Frame::whole(&damaged), None, "{at}");
  }
  let longer = [greeting, vec![0]].concat();
  assert_eq!(Frame::whole(&longer), None);
}

// The rest of a frame that began on another stream never comes.
#[test]
fn what_was_forgotten_swallows_nothing_of_the_next_stream() {
  let mut decoder = bound();
  let mut half = Vec::new();
  data(0, &[7; 5000]).encode(&encoder(), 1, &mut half).unwrap();
  assert_eq!(decode(&mut decoder, &half[..3000], usize::MAX), []);
  assert_eq!(decoder.pending(), 3000);
  decoder.forget();
  assert_eq!(decoder.pending(), 0);
  let seen = decode(&mut decoder, &hello(&Encoder::new(99, FENCE + 1)), 10);
  assert_eq!(seen.iter().map(|frame| frame.0).collect::<Vec<_>>(), [Kind::Hello]);
  assert_eq!(decoder.take_skipped(), Skipped::default());
}
