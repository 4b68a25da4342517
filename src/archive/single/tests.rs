use super::super::fixture::*;
use super::*;

fn wanted() -> EntryPath {
  EntryPath::parse(b"d/x").unwrap()
}

fn take(archive: &[u8]) -> Result<OneFile, ArchiveError> {
  let mut results = [archive.len().max(1), 1, 700].map(|chunk| {
    let mut reader = SingleFile::new(wanted(), 1000);
    for chunk in archive.chunks(chunk) {
      reader.push(Bytes::copy_from_slice(chunk))?;
    }
    reader.finish()
  });
  assert_eq!(results[0], results[1]);
  assert_eq!(results[0], results[2]);
  std::mem::replace(&mut results[0], Err(ArchiveError::Cut { at: 0 }))
}

fn unasked(name: &str) -> Result<OneFile, ArchiveError> {
  Err(ArchiveError::Unasked { name: format!("{name:?}") })
}

#[test]
fn takes_the_file_that_was_asked_for() {
  let expected = OneFile { contents: Bytes::from_static(b"data"), mode: 0o644 };
  for name in [b"d/x".as_slice(), b"./d/x", b"d//./x"] {
    assert_eq!(take(&archive(&[file(name, b"data")])), Ok(expected.clone()));
  }
  assert_eq!(expected.size(), 4);
  let empty = OneFile { contents: Bytes::new(), mode: 0o644 };
  assert_eq!(take(&archive(&[file(b"d/x", b"")])), Ok(empty));
}

#[test]
fn nothing_else_may_come_with_it() {
  let x = file(b"d/x", b"data");
  assert_eq!(take(&archive(&[x.clone(), file(b"evil", b"")])), unasked("evil"));
  assert_eq!(take(&archive(&[file(b"evil", b""), x.clone()])), unasked("evil"));
  assert_eq!(take(&archive(&[file(b"d/xx", b"")])), unasked("d/xx"));
  assert_eq!(take(&archive(&[file(b"x", b"")])), unasked("x"));
  assert_eq!(take(&archive(&[dir(b"d"), x.clone()])), unasked("d"));
  assert_eq!(take(&archive(&[x.clone(), x.clone()])), unasked("d/x"));
  assert_eq!(take(&archive(&[dir(b"./")])), unasked("."));
  let up = ArchiveError::refused(b"../up", Refusal::Parent);
  assert_eq!(take(&archive(&[file(b"../up", b"")])), Err(up));
}

#[test]
fn it_must_be_a_regular_file() {
  let not_a_file = Err(ArchiveError::refused(b"d/x", Refusal::NotFile));
  assert_eq!(take(&archive(&[link(b'2', b"d/x", b"y")])), not_a_file);
  assert_eq!(take(&archive(&[dir(b"d/x")])), not_a_file);
  let hard = Err(ArchiveError::refused(b"d/x", Refusal::HardLink));
  assert_eq!(take(&archive(&[link(b'1', b"d/x", b"y")])), hard);
  let fifo = Err(ArchiveError::refused(b"d/x", Refusal::Type(b'6')));
  assert_eq!(take(&archive(&[Raw::new(b'6', b"d/x", 0).seal()])), fifo);
}

#[test]
fn nothing_at_all_is_an_error() {
  assert_eq!(take(b""), Err(ArchiveError::Cut { at: 0 }));
  assert_eq!(take(&archive(&[])), Err(ArchiveError::Missing { name: "\"d/x\"".to_owned() }));
}

#[test]
fn half_an_archive_is_an_error() {
  let whole = archive(&[file(b"d/x", b"data")]);
  for end in [1, 511, 512, 514, 1023, 1024, 1025, 1535] {
    assert_eq!(take(&whole[..end]), Err(ArchiveError::Cut { at: end as u64 }));
  }
}

#[test]
fn the_cap_holds_at_the_limit_and_one_past_it() {
  assert_eq!(take(&archive(&[file(b"d/x", &[7; 1000])])).unwrap().contents, vec![7; 1000]);
  let limit = Err(ArchiveError::limit(b"d/x", "bytes in one file", 1000));
  assert_eq!(take(&archive(&[file(b"d/x", &[7; 1001])])), limit);
}

#[test]
fn the_deepest_path_fits() {
  let deep = vec![b"d".as_slice(); MAX_PATH_DEPTH].join(&b'/');
  let mut reader = SingleFile::new(EntryPath::parse(&deep).unwrap(), 10);
  reader.push(archive(&[pax(&[("path", &deep)]), file(b"x", b"1")])).unwrap();
  assert_eq!(reader.finish().unwrap().contents, b"1".as_slice());
}

#[tokio::test]
async fn endless_archives_end() {
  let endless = |bytes: Vec<u8>| -> TarStream {
    let bytes = Bytes::from(bytes);
    Box::pin(futures_util::stream::repeat_with(move || Ok(bytes.clone())))
  };
  let code = ErrorCode::DockerApi;
  let zeros = single_file(endless(vec![0; 65_536]), wanted(), 10, code).await.unwrap_err();
  assert_eq!(zeros.code(), ErrorCode::DockerApi);
  let empty = single_file(endless(file(b"e", b"")), wanted(), 10, code).await.unwrap_err();
  assert_eq!(empty.message(), "the archive holds \"e\", which was not asked for.");
  let comments = single_file(endless(entry(b'g', b"g", b"")), wanted(), 10, code).await.unwrap_err();
  assert_eq!(comments.code(), ErrorCode::Limit);
}
