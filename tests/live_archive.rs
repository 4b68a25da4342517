//! Archives into and out of containers of a real engine; see `support/live.rs` for what it needs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use sandbox_docker::docker::model::{ContainerSpec, PathStat};
use sandbox_docker::docker::{ArchiveBody, Engine, get_whole_archive};
use sandbox_docker::error::{Error, ErrorCode, Result};

use support::live::{Fixture, busybox, fixture, gnu, spec};
use support::must_end;

const MAX: u64 = 256 << 20;

/// A tar with these files.
fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
  let mut builder = tar::Builder::new(Vec::new());
  for (name, contents) in files {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o640);
    header.set_size(contents.len() as u64);
    builder.append_data(&mut header, name, *contents).unwrap();
  }
  builder.into_inner().unwrap()
}

fn contents_of(archive: &[u8], name: &str) -> Vec<u8> {
  let mut archive = tar::Archive::new(archive);
  for entry in archive.entries().unwrap() {
    let mut entry = entry.unwrap();
    if entry.path_bytes().as_ref() == name.as_bytes() {
      let mut contents = Vec::new();
      entry.read_to_end(&mut contents).unwrap();
      return contents;
    }
  }
  panic!("{name} is not in the archive")
}

fn pattern(size: usize) -> Vec<u8> {
  (0..size).map(|i| (i * 31 % 251) as u8).collect()
}

async fn put(fixture: &Fixture, path: &str, tar: Vec<u8>) -> Result<()> {
  must_end(fixture.client.put_archive(&fixture.id, path, ArchiveBody::Bytes(tar.into()))).await
}

async fn get(fixture: &Fixture, path: &str) -> Result<(Vec<u8>, PathStat)> {
  let archive = must_end(get_whole_archive(&fixture.client, &fixture.id, path, MAX)).await?;
  Ok((archive.tar, archive.stat))
}

#[tokio::test(flavor = "multi_thread")]
async fn large_archives_come_back_byte_for_byte_in_both_kinds_of_image() {
  let big = pattern(32 << 20);
  for image in [busybox(), gnu()] {
    let fixture = Fixture::start(&spec(image)).await;
    put(&fixture, "/workspace", tar_of(&[("dir/big.bin", &big), ("dir/empty", b"")])).await.unwrap();
    let (tar, stat) = get(&fixture, "/workspace/dir").await.unwrap();
    assert!(contents_of(&tar, "dir/big.bin") == big);
    assert_eq!((stat.name.as_str(), stat.size, stat.link_target.as_str()), ("dir", 0, ""));

    // And piece by piece.
    let pieces: Vec<_> = tar.chunks(100_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    fixture.sh("rm -r /workspace/dir").await;
    let body = ArchiveBody::Stream(stream::iter(pieces).boxed());
    must_end(fixture.client.put_archive(&fixture.id, "/workspace", body)).await.unwrap();
    let (again, _stat) = get(&fixture, "/workspace/dir/big.bin").await.unwrap();
    assert!(contents_of(&again, "big.bin") == big);
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_never_options_and_keep_their_characters() {
  let names = ["-rf", "--checkpoint-action=exec=sh", "ü ñ 漢字", "$(id) `x` 'q' \"", "a\nb", "*", "~"];
  for image in [busybox(), gnu()] {
    let fixture = Fixture::start(&spec(image)).await;
    let files: Vec<_> = names.iter().map(|name| (*name, name.as_bytes())).collect();
    put(&fixture, "/workspace", tar_of(&files)).await.unwrap();
    for name in names {
      let (tar, stat) = get(&fixture, &format!("/workspace/{name}")).await.unwrap();
      assert_eq!(contents_of(&tar, name), name.as_bytes());
      let expected =
        PathStat { name: name.to_owned(), size: name.len() as u64, mode: 0o640, ..PathStat::default() };
      assert_eq!(stat, expected);
    }
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_told_and_not_followed() {
  let fixture = fixture().await;
  fixture.sh("ln -s ../etc/passwd /workspace/link; mkdir -m 710 /workspace/d").await;
  let (_tar, stat) = get(&fixture, "/workspace/link").await.unwrap();
  assert_eq!((stat.size, stat.link_target.as_str()), (0, "../etc/passwd"));
  assert_eq!(get(&fixture, "/workspace/d").await.unwrap().1.mode, 0o710);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_found_and_what_is_no_path_is_refused() {
  for image in [busybox(), gnu()] {
    let fixture = Fixture::start(&spec(image)).await;
    for path in ["/workspace/missing", "/no/such/place", "/workspace/-x"] {
      assert_eq!(get(&fixture, path).await.unwrap_err().code(), ErrorCode::NotFound, "{path}");
    }
    for path in ["/", "relative", "/workspace/..", "/workspace/."] {
      assert_eq!(get(&fixture, path).await.unwrap_err().code(), ErrorCode::PathInvalid, "{path}");
    }
    let nowhere = put(&fixture, "/no/such", tar_of(&[("a", b"1")])).await.unwrap_err();
    assert_eq!(nowhere.code(), ErrorCode::DockerApi, "{nowhere}");
    let torn = put(&fixture, "/workspace", vec![b'x'; 2048]).await.unwrap_err();
    assert_eq!(torn.code(), ErrorCode::DockerApi, "{torn}");
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_container_is_filled_by_the_engine() {
  let writable = ContainerSpec { readonly_rootfs: false, tmpfs: [].into(), ..spec(busybox()) };
  let fixture = Fixture::create(&writable).await;
  put(&fixture, "/", tar_of(&[("before", b"start")])).await.unwrap();
  let pieces = stream::iter(vec![Ok(Bytes::from(tar_of(&[("streamed", b"too")])))]);
  must_end(fixture.client.put_archive(&fixture.id, "/", ArchiveBody::Stream(pieces.boxed()))).await.unwrap();
  let refused = put(&fixture, "/no/such", tar_of(&[("a", &pattern(32 << 20))])).await.unwrap_err();
  assert_eq!(refused.code(), ErrorCode::NotFound, "{refused}");
  fixture.client.start_container(&fixture.id).await.unwrap();
  let mut cat = support::live::request(&["cat", "/before", "/streamed"]);
  cat.user = "0:0".to_owned();
  assert_eq!(fixture.run(cat).await.stdout, b"starttoo");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_gone_is_not_found_in_both_directions() {
  let fixture = fixture().await;
  fixture.client.remove_container(&fixture.id).await.unwrap();
  let large = tar_of(&[("a", &pattern(32 << 20))]);
  assert_eq!(put(&fixture, "/workspace", large).await.unwrap_err().code(), ErrorCode::NotFound);
  assert_eq!(get(&fixture, "/workspace").await.unwrap_err().code(), ErrorCode::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_ends_the_archive_and_its_tar() {
  let fixture = fixture().await;
  put(&fixture, "/workspace", tar_of(&[("big", &pattern(32 << 20))])).await.unwrap();
  let limited = get_whole_archive(&fixture.client, &fixture.id, "/workspace/big", 1 << 20);
  assert_eq!(must_end(limited).await.err().unwrap().code(), ErrorCode::Limit);
  wait_quiet(&fixture).await;
  // A reader that leaves is the same.
  let mut pieces = fixture.client.get_archive(&fixture.id, "/workspace/big", MAX).await.unwrap();
  assert!(!pieces.next().await.unwrap().unwrap().is_empty());
  drop(pieces);
  wait_quiet(&fixture).await;
}

/// A `tar` whose output is no longer taken ends by itself, soon.
async fn wait_quiet(fixture: &Fixture) {
  for _ in 0..100 {
    if fixture.processes().await.is_empty() {
      return;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
  }
  panic!("still there: {}", fixture.processes().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_all_of_it() {
  let fixture = fixture().await;
  let contents = pattern(3 << 20);
  put(&fixture, "/workspace", tar_of(&[("file", &contents)])).await.unwrap();
  let mut pieces = fixture.client.get_archive(&fixture.id, "/workspace/file", MAX).await.unwrap();
  let mut tar = Vec::new();
  // Longer than a command's output is read after its end.
  let mut pauses = [Duration::from_millis(2_500), Duration::from_millis(500)].into_iter();
  while let Some(piece) = pieces.next().await {
    tar.extend_from_slice(&piece.unwrap());
    if tar.len() > 2 << 20
      && let Some(pause) = pauses.next()
    {
      tokio::time::sleep(pause).await;
    }
  }
  assert!(contents_of(&tar, "file") == contents);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fails_is_the_error_and_leaves_no_tar() {
  let fixture = fixture().await;
  let torn = Error::new(ErrorCode::SnapshotInvalid, "torn");
  let first = Ok(Bytes::from(tar_of(&[("a", b"1")]).get(..700).unwrap().to_vec()));
  let body = ArchiveBody::Stream(stream::iter(vec![first, Err(torn)]).boxed());
  let failed = must_end(fixture.client.put_archive(&fixture.id, "/workspace", body)).await.unwrap_err();
  assert_eq!((failed.code(), failed.message()), (ErrorCode::SnapshotInvalid, "torn"));
  wait_quiet(&fixture).await;
}
