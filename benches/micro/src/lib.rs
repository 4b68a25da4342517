//! Benchmarks of the pure parts that every byte goes through. `npm run bench:micro` runs them; see `benches/`.

use criterion::{BatchSize, BenchmarkGroup, Throughput, measurement::WallTime};

/// Bytes in a mebibyte.
pub const MIB: usize = 1 << 20;

/// Measures `work` over `bytes` of data, which `prepare` makes and nobody times.
pub fn over<T, R>(
  group: &mut BenchmarkGroup<'_, WallTime>,
  name: &str,
  bytes: usize,
  mut prepare: impl FnMut() -> T,
  mut work: impl FnMut(T) -> R,
) {
  group.throughput(Throughput::Bytes(bytes as u64));
  group.bench_function(name, |bencher| bencher.iter_batched(&mut prepare, &mut work, BatchSize::LargeInput));
}
