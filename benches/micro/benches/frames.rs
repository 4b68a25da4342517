//! Frames between a host and process 1: written with their checks, found again in a stream, and the copy that is the least
//! that anything could cost.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sandbox_docker::supervisor::wire::{Data, Decoder, Encoder, Stream, ToHost};
use sandbox_docker_micro::{MIB, over};

const KEY: u64 = 0x0123_4567_89ab_cdef;
const FENCE: u64 = 1;

fn frames(criterion: &mut Criterion) {
  for piece in [64 * 1024 - 64, 4096, 64] {
    let mut group = criterion.benchmark_group(format!("frames of {piece} B"));
    let contents = vec![b'x'; piece];
    let count = 4 * MIB / piece;
    let stream = encoded(&contents, count);
    over(&mut group, "encode", stream.len(), || (), |()| encoded(&contents, count));
    over(&mut group, "decode", stream.len(), || (), |()| decoded(&stream, count));
    over(&mut group, "copy", stream.len(), || (), |()| black_box(&stream).clone());
    group.finish();
  }
}

fn encoded(contents: &[u8], count: usize) -> Vec<u8> {
  let encoder = Encoder::new(KEY, FENCE);
  let mut out = Vec::with_capacity(count * (contents.len() + 128));
  for number in 0..count {
    let offset = (number * contents.len()) as u64;
    ToHost::Data(Data { stream: Stream::Output, offset, bytes: contents })
      .encode(&encoder, 1, &mut out)
      .unwrap();
  }
  out
}

fn decoded(mut stream: &[u8], count: usize) -> usize {
  let mut decoder = Decoder::for_host(KEY, FENCE);
  let (mut found, mut bytes) = (0, 0);
  loop {
    while let Some(frame) = decoder.next_frame() {
      let ToHost::Data(data) = ToHost::decode(&frame).unwrap() else { unreachable!("only data was written") };
      found += 1;
      bytes += data.bytes.len();
    }
    if stream.is_empty() {
      assert_eq!(found, count);
      return bytes;
    }
    let fed = decoder.feed(stream);
    stream = &stream[fed..];
  }
}

criterion_group!(benches, frames);
criterion_main!(benches);
