mod double;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tar::{Builder, EntryType, Header};

use self::double::{Double, Mv, Realpath};
use super::*;
use crate::archive::Owner;
use crate::docker::ArchiveBody;
use crate::docker::model::ContainerSpec;
use crate::error::ErrorCode;
use crate::sandbox::EntryType as Type;

const OWNER: Owner = Owner { uid: 65534, gid: 65534 };

/// A container of 64 KiB with links, a pipe, a file in a directory.
struct Room {
  engine: Double,
  id: String,
}

impl Room {
  async fn new(options: &str) -> Self {
    let engine = Double::new(options);
    let spec = ContainerSpec {
      image: "alpine:3.21".to_owned(),
      working_dir: "/workspace".to_owned(),
      readonly_rootfs: true,
      tmpfs: BTreeMap::from([("/workspace".to_owned(), "size=64k,mode=0700".to_owned())]),
      ..ContainerSpec::default()
    };
    let id = engine.create_container(&spec).await.unwrap();
    engine.start_container(&id).await.unwrap();
    Self { engine, id }
  }

  /// Puts entries past the functions under test; done before faults are counted on.
  async fn put(&self, tar: Vec<u8>) {
    self.engine.inner.put_archive(&self.id, "/workspace", ArchiveBody::Bytes(tar.into())).await.unwrap();
  }

  async fn read(&self, path: &str) -> Result<(Vec<u8>, u64, u32)> {
    self.read_part(path, 0, u64::MAX).await
  }

  async fn read_part(&self, path: &str, offset: u64, limit: u64) -> Result<(Vec<u8>, u64, u32)> {
    let range = read_file(&self.engine, &self.id, &at(path), offset, limit, &Cancel::new()).await?;
    Ok((range.data.to_vec(), range.size, range.mode))
  }

  async fn write(&self, path: &str, contents: &[u8], mode: u32) -> Result<()> {
    let contents = Bytes::copy_from_slice(contents);
    write_file(&self.engine, &self.id, &at(path), contents, mode, OWNER, &Cancel::new()).await
  }

  async fn list(&self, path: &str, depth: u32, limit: usize) -> Result<(Vec<String>, bool)> {
    let listing = list(&self.engine, &self.id, &at(path), depth, limit, &Cancel::new()).await?;
    Ok((listing.entries.into_iter().map(|entry| entry.path).collect(), listing.truncated))
  }

  async fn paths(&self) -> Vec<String> {
    self.list("", 9, 1000).await.unwrap().0
  }
}

fn at(path: &str) -> WorkspacePath {
  WorkspacePath::parse(path).unwrap()
}

fn code(result: Result<impl std::fmt::Debug>) -> ErrorCode {
  result.unwrap_err().code()
}

/// A tar of entries: name as bytes, type, contents or link target. Raw, so that names may be anything.
fn tar_of(entries: &[(&[u8], EntryType, &[u8])]) -> Vec<u8> {
  let mut builder = Builder::new(Vec::new());
  for (name, kind, data) in entries {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_entry_type(*kind);
    header.set_mode(if *kind == EntryType::Directory { 0o750 } else { 0o640 });
    let contents: &[u8] = if matches!(*kind, EntryType::Symlink | EntryType::Link) {
      header.as_mut_bytes()[157..157 + data.len()].copy_from_slice(data);
      b""
    } else {
      data
    };
    header.set_size(contents.len() as u64);
    header.set_cksum();
    builder.append(&header, contents).unwrap();
  }
  builder.into_inner().unwrap()
}

async fn furnished() -> Room {
  let room = Room::new("{}").await;
  room
    .put(tar_of(&[
      (b"d", EntryType::Directory, b""),
      (b"d/f", EntryType::Regular, b"contents"),
      (b"to-file", EntryType::Symlink, b"d/f"),
      (b"to-dir", EntryType::Symlink, b"d"),
      (b"to-etc", EntryType::Symlink, b"/etc"),
      (b"dangling", EntryType::Symlink, b"nowhere"),
    ]))
    .await;
  room
}

#[tokio::test]
async fn what_was_written_is_read_in_any_part() {
  let room = Room::new("{}").await;
  let path = "src/naïve 漢字/-rf \\ü.txt";
  room.write(path, b"0123456789", 0o640).await.unwrap();
  assert_eq!(room.read(path).await.unwrap(), (b"0123456789".to_vec(), 10, 0o640));
  for (offset, limit, part) in
    [(0, 0, ""), (0, 3, "012"), (3, 4, "3456"), (8, 9, "89"), (10, 1, ""), (u64::MAX, u64::MAX, "")]
  {
    assert_eq!(
      room.read_part(path, offset, limit).await.unwrap(),
      (part.into(), 10, 0o640),
      "{offset}+{limit}"
    );
  }
  assert_eq!(room.paths().await, ["src", "src/naïve 漢字", path]);
  room.write(path, b"", 0o7777).await.unwrap();
  assert_eq!(room.read(path).await.unwrap(), (Vec::new(), 0, 0o777));
  assert_eq!(room.paths().await, ["src", "src/naïve 漢字", path]);
  let large: Vec<u8> = (0..40_000u32).map(|number| number as u8).collect();
  room.write("large", &large, 0o600).await.unwrap();
  assert_eq!(
    room.read_part("large", 511, 30_000).await.unwrap(),
    (large[511..30_511].to_vec(), 40_000, 0o600)
  );
}

#[tokio::test]
async fn links_are_refused_wherever_they_are() {
  let room = furnished().await;
  for path in
    ["to-file", "dangling", "to-dir", "to-dir/f", "to-dir/new", "to-etc/passwd", "dangling/x", "dangling/x/y"]
  {
    let error = room.write(path, b"x", 0o644).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PathInvalid, "{path}: {error}");
    assert!(error.message().contains("symbolic link"), "{path}: {error}");
  }
  for path in ["to-file", "dangling", "to-dir", "to-dir/f"] {
    let error = room.read(path).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PathInvalid, "{path}: {error}");
    assert!(error.message().contains("symbolic link"), "{path}: {error}");
    let error = room.list(path, 1, 10).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PathInvalid, "{path}: {error}");
  }
  assert_eq!(room.read("d/f").await.unwrap().0, b"contents");
  assert_eq!(room.paths().await, ["d", "d/f", "dangling", "to-dir", "to-etc", "to-file"]);
}

#[tokio::test]
async fn what_is_no_file_or_no_directory_is_named() {
  let room = furnished().await;
  for path in ["nope", "d/nope", "nope/f"] {
    assert_eq!(code(room.read(path).await), ErrorCode::NotFound, "{path}");
    assert_eq!(code(room.list(path, 1, 10).await), ErrorCode::NotFound, "{path}");
  }
  let messages = [
    (room.read("d").await.map(drop), "Cannot read d: it is a directory."),
    (room.read("").await.map(drop), "Cannot read .: it is a directory."),
    (room.write("d", b"", 0o644).await, "Cannot write d: it is a directory."),
    (room.write("", b"", 0o644).await, "Cannot write .: it is a directory."),
    (room.write("d/f/x", b"", 0o644).await, "Cannot write d/f/x: something on the way is no directory."),
    (room.write("d/f/x/y", b"", 0o644).await, "Cannot write d/f/x/y: something on the way is no directory."),
    (room.list("d/f", 1, 10).await.map(drop), "Cannot list d/f: something on the way is no directory."),
  ];
  for (result, wanted) in messages {
    let error = result.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PathInvalid);
    assert!(error.message().starts_with(wanted), "{error}");
  }
  room.put(tar_of(&[(b"d/pipe", EntryType::Fifo, b"")])).await;
  assert_eq!(room.read("d/pipe").await.unwrap_err().message(), "Cannot read d/pipe: it is no regular file.");
  assert_eq!(
    room.write("d/pipe", b"", 0o644).await.unwrap_err().message(),
    "Cannot write d/pipe: it is no regular file."
  );
  let error = room.list("", 1, 10).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::Unsupported);
  assert!(error.message().contains("\"workspace/d/pipe\""), "{error}");
}

#[tokio::test]
async fn lists_are_sorted_cut_and_as_deep_as_asked() {
  let room = furnished().await;
  room
    .put(tar_of(&[
      (b"d/e/g/h", EntryType::Regular, b"xyz"),
      (b"d-", EntryType::Regular, b""),
      (b"d/\xff", EntryType::Regular, b""),
      (b"d/\xfe", EntryType::Regular, b""),
    ]))
    .await;
  let entries = list(&room.engine, &room.id, &at("d"), 3, 100, &Cancel::new()).await.unwrap().entries;
  let seen: Vec<_> = entries.iter().map(|e| (e.path.as_str(), e.kind, e.size, e.mode)).collect();
  assert_eq!(
    seen,
    [
      ("d/e", Type::Directory, 0, 0o755),
      ("d/e/g", Type::Directory, 0, 0o755),
      ("d/e/g/h", Type::File, 3, 0o640),
      ("d/f", Type::File, 8, 0o640),
      ("d/\u{fffd}", Type::File, 0, 0o640),
      ("d/\u{fffd}", Type::File, 0, 0o640),
    ]
  );
  let top = list(&room.engine, &room.id, &at(""), 1, 100, &Cancel::new()).await.unwrap();
  let kinds: Vec<_> = top.entries.iter().map(|e| (e.path.as_str(), e.kind, e.mode)).collect();
  let link = |path| (path, Type::Symlink, 0o777);
  let (d, file) = (("d", Type::Directory, 0o750), ("d-", Type::File, 0o640));
  assert_eq!(kinds, [d, file, link("dangling"), link("to-dir"), link("to-etc"), link("to-file")]);

  let all = ["d", "d-", "d/e", "d/f", "d/\u{fffd}", "d/\u{fffd}", "dangling", "to-dir", "to-etc", "to-file"];
  assert_eq!(room.list("", 2, 11).await.unwrap(), (all.map(str::to_owned).to_vec(), false));
  assert_eq!(room.list("", 2, 10).await.unwrap(), (all.map(str::to_owned).to_vec(), false));
  assert_eq!(room.list("", 2, 9).await.unwrap(), (all[..9].iter().map(|&p| p.to_owned()).collect(), true));
  assert_eq!(room.list("", 2, 0).await.unwrap(), (Vec::new(), true));
  assert_eq!(room.list("", 0, 5).await.unwrap(), (Vec::new(), false));
  assert_eq!(Room::new("{}").await.list("", 1, 0).await.unwrap(), (Vec::new(), false));
}

#[tokio::test]
async fn another_name_of_a_file_has_its_size() {
  let mut room = furnished().await;
  let (file, link) = (EntryType::Regular, EntryType::Link);
  // The first name may lie deeper than the listing goes; a third name leads to it too.
  let tar = tar_of(&[
    (b"d", EntryType::Directory, b""),
    (b"d/a/b", file, b"12345"),
    (b"d/hard", link, b"d/a/b"),
    (b"d/hard2", link, b"d/a/b"),
  ]);
  room.engine.archive = Some(tar.into());
  let entries = list(&room.engine, &room.id, &at("d"), 1, 9, &Cancel::new()).await.unwrap().entries;
  let seen: Vec<_> = entries.iter().map(|e| (e.path.as_str(), e.kind, e.size)).collect();
  assert_eq!(seen, [("d/a", Type::Directory, 0), ("d/hard", Type::File, 5), ("d/hard2", Type::File, 5)]);
}

#[tokio::test]
async fn a_failure_at_any_call_changes_nothing() {
  // The first write has made one call of each, and two of exec.
  for (method, nth) in [("realpath", 2), ("getArchive", 2), ("exec", 3), ("putArchive", 2), ("exec", 4)] {
    let fail = format!(r#"{{"fail":[{{"method":"{method}","nth":{nth},"message":"broken here"}}]}}"#);
    let room = Room::new(&fail).await;
    room.write("f", b"old", 0o600).await.unwrap();
    let error = room.write("f", b"new", 0o644).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::DockerApi, "{method}");
    assert_eq!(error.message(), "Writing f: broken here", "{method}");
    assert_eq!(room.read("f").await.unwrap(), (b"old".to_vec(), 3, 0o600), "{method}");
    assert_eq!(room.paths().await, ["f"], "{method}");
  }
  for method in ["realpath", "getArchive"] {
    let fail = |nth| format!(r#"{{"fail":[{{"method":"{method}","nth":{nth},"message":"broken here"}}]}}"#);
    let room = Room::new(&fail(2)).await;
    room.write("f", b"old", 0o600).await.unwrap();
    assert_eq!(room.read("f").await.unwrap_err().message(), "Reading f: broken here");
    assert_eq!(room.read("f").await.unwrap().0, b"old");
    let room = Room::new(&fail(1)).await;
    assert_eq!(room.list("", 1, 1).await.unwrap_err().message(), "Listing .: broken here");
    assert_eq!(room.list("", 1, 1).await.unwrap(), (Vec::new(), false));
  }
}

#[tokio::test]
async fn a_full_workspace_keeps_what_it_had() {
  for mv in [Mv::Real, Mv::Missing] {
    let mut room = Room::new("{}").await;
    room.engine.mv = mv;
    room.write("full", &[1; 65536], 0o600).await.unwrap();
    room
      .engine
      .inner
      .put_archive(
        &room.id,
        "/workspace",
        ArchiveBody::Bytes(tar_of(&[(b"full", EntryType::Regular, b"old")]).into()),
      )
      .await
      .unwrap();
    let error = room.write("d/new", &[2; 65536], 0o600).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Limit);
    assert!(error.message().starts_with("Cannot write d/new: the workspace is full."), "{error}");
    assert_eq!(room.paths().await, ["d", "full"]);
    // One page is taken, so that 15 are left.
    assert_eq!(code(room.write("d/new", &[3; 61441], 0o600).await), ErrorCode::Limit);
    assert_eq!(room.paths().await, ["d", "full"]);
    room.write("d/new", &[4; 61440], 0o600).await.unwrap();
    assert_eq!(room.read("d/new").await.unwrap().1, 61440);
    assert_eq!(room.read("full").await.unwrap().0, b"old");
  }
  // A file that is there is replaced whole or stays.
  let room = Room::new("{}").await;
  room.write("f", b"old", 0o600).await.unwrap();
  assert_eq!(code(room.write("f", &[5; 61441], 0o600).await), ErrorCode::Limit);
  assert_eq!(room.read("f").await.unwrap(), (b"old".to_vec(), 3, 0o600));
  assert_eq!(room.paths().await, ["f"]);
}

#[tokio::test]
async fn files_are_written_where_there_is_no_mv() {
  for mv in [Mv::Missing, Mv::Stub] {
    let mut room = Room::new("{}").await;
    room.engine.mv = mv;
    room.write("a/f", b"one", 0o644).await.unwrap();
    room.write("a/f", b"two", 0o600).await.unwrap();
    assert_eq!(room.read("a/f").await.unwrap(), (b"two".to_vec(), 3, 0o600));
    assert_eq!(room.paths().await, ["a", "a/f"]);
  }
}

#[tokio::test]
async fn every_kind_of_realpath_will_do() {
  for realpath in [Realpath::LastMayMiss, Realpath::NoDots] {
    let mut room = furnished().await;
    room.engine.realpath = realpath;
    room.write("d/new", b"1", 0o644).await.unwrap();
    room.write("d/e/g/new", b"2", 0o644).await.unwrap();
    room.write("top", b"3", 0o644).await.unwrap();
    assert_eq!(room.read("d/e/g/new").await.unwrap().0, b"2");
    // Directories that were there keep their mode.
    let d = list(&room.engine, &room.id, &at(""), 1, 1, &Cancel::new()).await.unwrap().entries;
    assert_eq!((d[0].path.as_str(), d[0].mode), ("d", 0o750));
    for path in ["nope", "d/nope"] {
      assert_eq!(code(room.read(path).await), ErrorCode::NotFound);
      assert_eq!(code(room.list(path, 1, 1).await), ErrorCode::NotFound);
    }
    for path in ["to-dir/x", "to-file", "dangling/x"] {
      assert_eq!(code(room.write(path, b"x", 0o644).await), ErrorCode::PathInvalid, "{path}");
    }
  }
}

#[tokio::test]
async fn archives_that_hold_anything_else_are_errors() {
  let mut room = furnished().await;
  let file = EntryType::Regular;
  let good = tar_of(&[(b"f", file, &[7; 600])]);
  let mut huge = Header::new_gnu();
  huge.set_path("f").unwrap();
  huge.set_mode(0o644);
  huge.set_mtime(0);
  huge.set_size(1 << 40);
  huge.set_cksum();
  let cases: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
    ("nothing", Vec::new(), ErrorCode::DockerApi),
    ("no entries", vec![0; 1024], ErrorCode::DockerApi),
    ("no tar", vec![b'x'; 1024], ErrorCode::DockerApi),
    ("cut in the header", good[..300].to_vec(), ErrorCode::DockerApi),
    ("cut in the contents", good[..1000].to_vec(), ErrorCode::DockerApi),
    ("cut before the end marker", good[..1536].to_vec(), ErrorCode::DockerApi),
    ("another file", tar_of(&[(b"g", file, b"x")]), ErrorCode::DockerApi),
    ("one more file", tar_of(&[(b"f", file, b"x"), (b"g", file, b"x")]), ErrorCode::DockerApi),
    ("the file twice", tar_of(&[(b"f", file, b"x"), (b"f", file, b"y")]), ErrorCode::DockerApi),
    ("a path that leads up", tar_of(&[(b"../f", file, b"x")]), ErrorCode::DockerApi),
    ("an absolute path", tar_of(&[(b"/f", file, b"x")]), ErrorCode::DockerApi),
    ("a directory", tar_of(&[(b"f", EntryType::Directory, b"")]), ErrorCode::PathInvalid),
    ("a link", tar_of(&[(b"f", EntryType::Symlink, b"/etc/passwd")]), ErrorCode::PathInvalid),
    ("a device", tar_of(&[(b"f", EntryType::Char, b"")]), ErrorCode::PathInvalid),
    ("a tebibyte", huge.as_bytes().to_vec(), ErrorCode::Limit),
  ];
  for (what, tar, wanted) in cases {
    room.engine.archive = Some(tar.into());
    let error = room.read("d/f").await.unwrap_err();
    assert_eq!(error.code(), wanted, "{what}: {error}");
  }
  room.engine.archive = Some(good.into());
  assert_eq!(room.read("d/f").await.unwrap().1, 600);

  let dir = EntryType::Directory;
  for (what, tar) in [
    ("nothing", Vec::new()),
    ("cut", tar_of(&[(b"d", dir, b"")])[..512].to_vec()),
    ("a stranger", tar_of(&[(b"d", dir, b""), (b"e", file, b"")])),
    ("a longer name", tar_of(&[(b"d", dir, b""), (b"dd/f", file, b"")])),
    ("a way up", tar_of(&[(b"d", dir, b""), (b"d/../f", file, b"")])),
    ("below a file", tar_of(&[(b"d", dir, b""), (b"d/a", file, b""), (b"d/a/b", file, b"")])),
  ] {
    room.engine.archive = Some(tar.into());
    assert_eq!(code(room.list("d", 9, 9).await), ErrorCode::DockerApi, "{what}");
  }
  // An engine that keeps to no bound.
  room.engine.endless = true;
  room.engine.archive = Some(Bytes::from_static(&[0; 65536]));
  assert_eq!(code(room.read("d/f").await), ErrorCode::DockerApi);
  assert_eq!(code(room.list("d", 1, 1).await), ErrorCode::DockerApi);
}

#[tokio::test]
async fn an_archive_without_end_is_a_limit() {
  let mut room = furnished().await;
  let mut header = Header::new_gnu();
  header.set_path("d/big").unwrap();
  header.set_mode(0o644);
  header.set_mtime(0);
  header.set_size(0);
  header.set_cksum();
  // Entries of the same name for ever.
  room.engine.archive = Some(Bytes::copy_from_slice(header.as_bytes()));
  room.engine.endless = true;
  assert_eq!(code(room.list("d", 1, 1).await), ErrorCode::Limit);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_write_leaves_nothing() {
  let mut room = furnished().await;
  let cancel = Cancel::new();
  cancel.cancel();
  let contents = || Bytes::from_static(b"new");
  let path = at("d/f");
  let early = write_file(&room.engine, &room.id, &path, contents(), 0o644, OWNER, &cancel).await;
  assert_eq!(code(early), ErrorCode::Cancelled);
  let read = read_file(&room.engine, &room.id, &path, 0, 1, &cancel).await;
  assert_eq!(read.unwrap_err().message(), "Reading d/f was cancelled.");
  assert_eq!(code(list(&room.engine, &room.id, &at("d"), 1, 1, &cancel).await), ErrorCode::Cancelled);

  room.engine.stuck = true;
  for path in ["d/f", "d/new"] {
    let (cancel, path) = (Cancel::new(), at(path));
    let after = async {
      tokio::time::sleep(Duration::from_secs(1)).await;
      cancel.cancel();
    };
    let write = write_file(&room.engine, &room.id, &path, contents(), 0o644, OWNER, &cancel);
    let (written, ()) = tokio::join!(write, after);
    assert_eq!(code(written), ErrorCode::Cancelled);
  }
  assert_eq!(room.list("d", 1, 10).await.unwrap().0, ["d/f"]);
  assert_eq!(room.read("d/f").await.unwrap().0, b"contents");
}
