//! The engine's stream of a command taken apart: large pieces as of a file, small ones as of a program that prints lines.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sandbox_docker::stream::frame::Demux;
use sandbox_docker_micro::{MIB, over};

/// What the transport reads at once.
const READ: usize = 64 * 1024;

fn demux(criterion: &mut Criterion) {
  let mut group = criterion.benchmark_group("demux, 64 KiB reads");
  for piece in [32 * 1024, 1024, 80] {
    let stream = framed(piece);
    over(
      &mut group,
      &format!("frames of {piece} B"),
      stream.len(),
      || (),
      |()| {
        let mut demux = Demux::default();
        let mut seen = [0_usize; 2];
        for read in stream.chunks(READ) {
          demux.push(read, |channel, bytes| seen[channel as usize] += bytes.len()).unwrap();
        }
        demux.finish().unwrap();
        black_box(seen)
      },
    );
  }
  group.finish();
}

/// 8 MiB in frames whose contents have `piece` bytes, every fourth of them standard error.
fn framed(piece: usize) -> Vec<u8> {
  let mut stream = Vec::with_capacity(9 * MIB);
  for number in 0..8 * MIB / piece {
    stream.extend_from_slice(&[if number % 4 == 0 { 2 } else { 1 }, 0, 0, 0]);
    stream.extend_from_slice(&(piece as u32).to_be_bytes());
    stream.extend((0..piece).map(|byte| byte as u8));
  }
  stream
}

criterion_group!(benches, demux);
criterion_main!(benches);
