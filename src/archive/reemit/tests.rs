use futures_util::{StreamExt, stream};
use proptest::prelude::*;

use super::super::fixture::*;
use super::super::{BLOCK, Entry, EntryKind, EntryPath};
use super::*;
use crate::archive::PackEntry;

fn stream_of(bytes: &[u8], chunk: usize) -> TarStream {
  let chunks: Vec<_> = bytes.chunks(chunk).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
  Box::pin(stream::iter(chunks))
}

fn options() -> ReemitOptions {
  ReemitOptions {
    base: None,
    owner: Owner { uid: 1000, gid: 1000 },
    limits: limits(),
    code: ErrorCode::SnapshotInvalid,
  }
}

async fn collect(mut stream: TarStream) -> Result<Vec<u8>> {
  let mut all = Vec::new();
  while let Some(chunk) = stream.next().await {
    all.extend_from_slice(&chunk?);
  }
  assert!(stream.next().await.is_none());
  Ok(all)
}

fn run(bytes: &[u8], chunk: usize) -> Result<Vec<u8>> {
  futures_util::FutureExt::now_or_never(collect(reemit(stream_of(bytes, chunk), options()))).unwrap()
}

#[test]
fn the_result_is_plain_and_ours() {
  let long = [b'n'; 150];
  let hostile = archive(&[
    dir(b"./"),
    pax(&[("path", &long), ("size", b"4"), ("mtime", b"1.5"), ("uid", b"0")]),
    Raw::new(b'0', b"x", 0).set(100, b"0006755\0").set(265, b"root").seal(),
    padded(b"data"),
    file(b"a/f", b"x"),
    Raw::new(b'5', b"a", 0).set(100, b"0000555\0").seal(),
    link(b'2', b"s", b"a/f"),
    link(b'1', b"h", b"a/f"),
  ]);
  let ours = run(&hostile, 100).unwrap();
  let seen = read(&ours).unwrap();
  let entry = |path: &[u8], kind, mode, mtime, size| Entry {
    path: crate::archive::EntryPath::parse(path).unwrap(),
    kind,
    mode,
    mtime,
    size,
    implied: false,
  };
  let target = crate::archive::EntryPath::parse(b"a/f").unwrap();
  let expected = [
    entry(&long, EntryKind::File, 0o755, 1, 4),
    entry(b"a", EntryKind::Directory, 0o755, 7, 0),
    entry(b"a/f", EntryKind::File, 0o644, 7, 1),
    entry(b"a", EntryKind::Directory, 0o755, 7, 0),
    entry(b"s", EntryKind::Symlink { target: b"a/f".to_vec() }, 0o644, 7, 0),
    entry(b"h", EntryKind::HardLink { target }, 0o644, 7, 0),
  ];
  assert_eq!(seen.iter().map(|seen| seen.entry.clone()).collect::<Vec<_>>(), expected);
  assert_eq!(seen[0].data, b"data");
  // No PAX header, no name of a user, no owner but ours.
  for (at, block) in ours.chunks(BLOCK).enumerate().filter(|(_, block)| block[257..].starts_with(b"ustar")) {
    assert!(matches!(block[156], b'0' | b'1' | b'2' | b'5' | b'L'), "block {at}");
    assert_eq!((&block[108..116], &block[116..124]), (b"0001750\0".as_slice(), b"0001750\0".as_slice()));
    assert_eq!(block[265..329], [0; 64]);
  }
}

#[test]
fn the_first_refused_entry_ends_it() {
  let hostile = archive(&[file(b"ok", b"1"), file(b"../up", b""), file(b"never", b"")]);
  let error = run(&hostile, 7).unwrap_err();
  assert_eq!(error.code(), ErrorCode::SnapshotInvalid);
  assert_eq!(error.message(), r#"entry "../up" of the archive is refused: its name contains ".."."#);
  assert_eq!(run(&archive(&[file(b"big", &[0; 4097])]), 512).unwrap_err().code(), ErrorCode::Limit);
  let cut = run(&file(b"f", b"half"), 512).unwrap_err();
  assert_eq!(
    (cut.code(), cut.message()),
    (ErrorCode::SnapshotInvalid, "the archive ends in the middle, after 1024 bytes.")
  );
  assert_eq!(run(b"", 1).unwrap_err().code(), ErrorCode::SnapshotInvalid);
}

#[tokio::test]
async fn an_error_of_the_input_is_passed_on() {
  let lost = || Error::new(ErrorCode::DockerUnavailable, "gone");
  let input: TarStream = Box::pin(stream::iter([Ok(file(b"f", b"x").into()), Err(lost())]));
  let error = collect(reemit(input, options())).await.unwrap_err();
  assert_eq!((error.code(), error.message()), (ErrorCode::DockerUnavailable, "gone"));
}

#[tokio::test]
async fn an_endless_archive_neither_hangs_nor_grows() {
  let zeros: TarStream = Box::pin(stream::repeat_with(|| Ok(Bytes::from_static(&[0; 65_536]))));
  let error = collect(reemit(zeros, options())).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::SnapshotInvalid);
  let mut count = 0;
  let files: TarStream = Box::pin(stream::repeat_with(move || {
    count += 1;
    Ok(file(count.to_string().as_bytes(), b"").into())
  }));
  let error = collect(reemit(files, options())).await.unwrap_err();
  assert_eq!(error.message(), "entry \"101\" of the archive passes the limit of 100 entries.");
}

#[tokio::test]
async fn what_waits_is_bounded_however_much_a_header_becomes() {
  // Each entry brings 63 directories with long names along: 5 KiB become 300.
  let deep = |n: u32| {
    let top = format!("{n:0>60}");
    let name = std::iter::once(top.as_str()).chain(std::iter::repeat_n("d".repeat(60).leak() as &str, 63));
    [pax(&[("path", name.collect::<Vec<_>>().join("/").as_bytes())]), file(b"x", b"")].concat()
  };
  let hostile = archive(&(0..40).map(deep).collect::<Vec<_>>());
  let options = ReemitOptions { limits: ArchiveLimits::default(), ..options() };
  let mut inner = Reemit {
    input: stream_of(&hostile, hostile.len()),
    pending: Bytes::new(),
    reader: Some(Unpacker::new(options.limits)),
    writer: Writer::new(options.owner),
    root: false,
    code: options.code,
  };
  let (mut most, mut total) = (0, 0);
  while let Some(chunk) = inner.next().await {
    total += chunk.unwrap().len();
    most = most.max(inner.writer.waiting());
  }
  assert!(total > 20 * hostile.len(), "{total} from {}", hostile.len());
  assert!(most < 100 * SLICE_BYTES, "{most}");
}

proptest! {
  #[test]
  fn our_own_archives_come_back_byte_for_byte(
    files in prop::collection::btree_map("[a-f]{1,3}(/[g-k]{1,110}){0,2}", prop::collection::vec(any::<u8>(), 0..900), 0..6),
    chunk in 1_usize..3000,
  ) {
    let entries = files.into_iter().map(|(name, contents)| PackEntry::File {
      path: crate::archive::EntryPath::parse(name.as_bytes()).unwrap(),
      contents: contents.into(),
      mode: 0o640,
    });
    let pack = crate::archive::PackOptions { owner: options().owner, mtime: 9, limits: limits() };
    if let Ok(archive) = crate::archive::pack(entries.collect(), &pack) {
      prop_assert_eq!(run(&archive, chunk).unwrap(), archive);
    }
  }
}

#[test]
fn the_directory_that_the_archive_is_of_becomes_the_top() {
  let of_workspace = archive(&[
    dir(b"workspace/"),
    file(b"workspace/a/f", b"x"),
    link(b'1', b"workspace/h", b"workspace/a/f"),
    link(b'2', b"workspace/s", b"a/f"),
  ]);
  let options = ReemitOptions { base: Some("workspace"), ..options() };
  let rewrite = |bytes: &[u8]| {
    futures_util::FutureExt::now_or_never(collect(reemit(stream_of(bytes, 512), options))).unwrap()
  };
  let ours = rewrite(&of_workspace).unwrap();
  assert_eq!(names(&ours), ["a", "a/f", "h", "s"]);
  let hard = &read(&ours).unwrap()[2].entry;
  assert_eq!(hard.kind, EntryKind::HardLink { target: EntryPath::parse(b"a/f").unwrap() });

  for name in [b"other/f".as_slice(), b"workspacex/f", b"f", b"workspace/../f", b"workspace//f"] {
    assert!(rewrite(&archive(&[file(name, b"x")])).is_err(), "{}", name.escape_ascii());
  }
  let foreign = archive(&[file(b"workspace/f", b"x"), link(b'1', b"workspace/h", b"f")]);
  assert!(rewrite(&foreign).is_err());
}
