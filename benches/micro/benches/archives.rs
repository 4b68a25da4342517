//! A workspace's archive: what 64 MiB in 1,000 files, and 10,000 tiny files, cost to read with every rule applied, to read
//! and write afresh, and to write. Beside them, the `tar` crate's reader, which applies none.

use std::hint::black_box;
use std::io::Read;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::{FutureExt, StreamExt, stream};
use sandbox_docker::archive::{
  ArchiveLimits, EntryPath, Owner, PackEntry, PackOptions, ReemitOptions, Unpacker, pack, reemit,
};
use sandbox_docker::error::ErrorCode;
use sandbox_docker_micro::{MIB, over};

const OWNER: Owner = Owner { uid: 1000, gid: 1000 };
/// What one read of the engine's stream brings.
const CHUNK: usize = 64 * 1024;

fn archives(criterion: &mut Criterion) {
  for (what, files, size) in
    [("64 MiB in 1,000 files", 1000, 64 * MIB / 1000), ("10,000 files of 100 B", 10_000, 100)]
  {
    let mut group = criterion.benchmark_group(what);
    group.sample_size(20);
    let contents = Bytes::from(vec![b'x'; size]);
    let options = PackOptions { owner: OWNER, mtime: 1_700_000_000, limits: ArchiveLimits::default() };
    let entries: Vec<_> = (0..files).map(|number| entry(number, &contents)).collect();
    let archive = pack(entries.clone(), &options).unwrap();
    let chunks: Vec<Bytes> =
      (0..archive.len()).step_by(CHUNK).map(|at| archive.slice(at..archive.len().min(at + CHUNK))).collect();
    over(&mut group, "pack", archive.len(), || entries.clone(), |entries| pack(entries, &options).unwrap());
    over(&mut group, "unpack", archive.len(), || chunks.clone(), unpack);
    over(
      &mut group,
      "reemit",
      archive.len(),
      || chunks.clone(),
      |chunks| {
        let limits = ArchiveLimits::default();
        let options = ReemitOptions { base: None, owner: OWNER, limits, code: ErrorCode::SnapshotInvalid };
        let mut out = reemit(Box::pin(stream::iter(chunks.into_iter().map(Ok))), options);
        let mut bytes = 0;
        // Nothing here waits: all chunks are there.
        while let Some(chunk) = out.next().now_or_never().unwrap() {
          bytes += chunk.unwrap().len();
        }
        bytes
      },
    );
    over(
      &mut group,
      "tar crate, read only",
      archive.len(),
      || (),
      |()| {
        let mut archive = tar::Archive::new(&archive[..]);
        let mut buffer = vec![0; CHUNK];
        let mut bytes = 0;
        for entry in archive.entries().unwrap() {
          let mut entry = entry.unwrap();
          black_box(entry.path_bytes());
          loop {
            match entry.read(&mut buffer).unwrap() {
              0 => break,
              read => bytes += read,
            }
          }
        }
        bytes
      },
    );
    group.finish();
  }
}

fn entry(number: usize, contents: &Bytes) -> PackEntry {
  let path = EntryPath::parse(format!("src/part-{}/file-{number}.txt", number % 32).as_bytes()).unwrap();
  PackEntry::File { path, contents: contents.clone(), mode: 0o644 }
}

fn unpack(chunks: Vec<Bytes>) -> u64 {
  let mut reader = Unpacker::new(ArchiveLimits::default());
  for chunk in chunks {
    let mut sink = |event| {
      black_box(event);
      Ok(())
    };
    reader.push(chunk, &mut sink).unwrap();
  }
  reader.finish().unwrap().bytes
}

criterion_group!(benches, archives);
criterion_main!(benches);
