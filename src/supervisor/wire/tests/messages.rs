use proptest::prelude::*;

use super::*;

fn inside(message: ToInside<'_>) {
  let mut bytes = Vec::new();
  message.encode(&encoder(), 42, &mut bytes).unwrap();
  let mut decoder = bound();
  assert_eq!(decoder.feed(&bytes), bytes.len());
  let frame = decoder.next_frame().unwrap();
  assert_eq!((frame.key, frame.fence, frame.op), (KEY, FENCE, 42));
  assert_eq!(ToInside::decode(&frame), Ok(message));
}

fn outside(message: &ToHost<'_>) {
  let mut bytes = Vec::new();
  message.encode(&encoder(), 42, &mut bytes).unwrap();
  let mut decoder = Decoder::for_host(KEY, FENCE);
  assert_eq!(decoder.feed(&bytes), bytes.len());
  let frame = decoder.next_frame().unwrap();
  assert_eq!(ToHost::decode(&frame).as_ref(), Ok(message));
}

#[test]
fn what_a_host_says_arrives_as_it_was_said() {
  let path = RelativePath::new(b"src/a.txt").unwrap();
  let argv = StringsBuf::of(["sh", "-c", ""]).unwrap();
  let env = StringsBuf::of(["PATH=/bin"]).unwrap();
  let exec = Exec {
    window: 1,
    timeout_ms: 2,
    max_stdout: 3,
    max_stderr: 4,
    stdin: true,
    cwd: RelativePath::WORKSPACE,
    argv: argv.view(),
    env: env.view(),
  };
  let hello = Hello { token: Token([1; 32]), next_token: Token([2; 32]), dead_man_ms: 60_000 };
  for message in [
    ToInside::Hello(hello),
    ToInside::Heartbeat(u64::MAX),
    ToInside::Shutdown,
    ToInside::Ack,
    ToInside::ReadFile(ReadFile { window: 1, offset: 2, limit: 3, path }),
    ToInside::WriteFile(WriteFile { mode: 0o644, size: 5, overwrite: true, path }),
    ToInside::List(List { window: 1, depth: 2, limit: 3, path }),
    ToInside::Exec(exec),
    ToInside::TarOut(TarOut { window: 1, max_bytes: 2, max_entries: 3 }),
    ToInside::TarIn(TarIn { max_bytes: 2, max_entries: 3 }),
    ToInside::SelfTest,
    data(9, b"abc"),
    ToInside::End(Stream::Input),
    ToInside::Credit(Credit { stream: Stream::Error, limit: 10 }),
    ToInside::Cancel,
    ToInside::Signal(15),
    ToInside::Listen(Listen { port: 3128, window: 4 }),
    ToInside::Close(Close::Ended),
    ToInside::Close(Close::Reset),
  ] {
    inside(message);
  }
}

#[test]
fn what_the_supervisor_says_arrives_as_it_was_said() {
  let ends = [
    How::Exited(255),
    How::Signaled(9),
    How::TimedOut,
    How::OutputLimit,
    How::Cancelled,
    How::Swept,
    How::OutOfMemory,
    How::NotStarted(NotStarted::Program, 2),
  ];
  for how in ends {
    let end = CommandEnd { how, killed: 3, micros: 4 };
    outside(&ToHost::Exited(end));
    outside(&ToHost::Done(Reply::Command(end)));
  }
  for failure in Failure::ALL {
    outside(&ToHost::Done(Reply::Failed(Failed { failure: *failure, errno: 11 })));
  }
  for notice in Notice::ALL {
    outside(&ToHost::Notice(*notice, 12));
  }
  let self_test = SelfTest { tried: 0x7f, succeeded: 2 };
  let operation = ActiveOperation { op: 5, kind: Kind::Exec, done: true, passed: [1, 2, 3] };
  let operations = vec![operation; MAX_ACTIVE + MAX_RETAINED];
  for message in [
    ToHost::Welcome(Welcome { digest: [3; 32], capabilities: 5, self_test, operations }),
    ToHost::Refused(Refusal::Fence),
    ToHost::Heartbeat(1),
    ToHost::Started(Started::File { size: 1, mode: 0o644 }),
    ToHost::Started(Started::Command { pid: 12 }),
    ToHost::Data(Data { stream: Stream::Output, offset: 1, bytes: b"x" }),
    ToHost::End(Stream::Error),
    ToHost::Credit(Credit { stream: Stream::Input, limit: 1 }),
    ToHost::Done(Reply::Read(Read { size: 1, mode: 2, sent: 3 })),
    ToHost::Done(Reply::Written(Written { size: 4 })),
    ToHost::Done(Reply::Listed(Listed { entries: 5, truncated: true })),
    ToHost::Done(Reply::Tar(TarDone { bytes: 6, entries: 7, skipped: 8 })),
    ToHost::Done(Reply::SelfTest(self_test)),
    ToHost::Done(Reply::Listening),
    ToHost::Connect(Connect { window: 5 }),
    ToHost::Close(Close::Ended),
    ToHost::Close(Close::Reset),
  ] {
    outside(&message);
  }
}

#[test]
fn a_direction_does_not_take_the_frames_of_the_other() {
  for kind in Kind::ALL {
    let frame = Frame { kind: *kind, key: KEY, fence: FENCE, op: 1, payload: &[0; 9] };
    let both = ToInside::decode(&frame) != Err(WireError::Direction)
      && ToHost::decode(&frame) != Err(WireError::Direction);
    let shared = matches!(kind, Kind::Heartbeat | Kind::Data | Kind::End | Kind::Credit | Kind::Close);
    assert_eq!(both, shared, "{kind:?}");
  }
}

#[test]
fn paths_are_names_beneath_the_workspace() {
  let long = [b'a'; 256];
  let deep = [&b"a/".repeat(64)[..], b"a"].concat();
  for bad in [&b"/a"[..], b"a/", b"a//b", b".", b"..", b"a/../b", b"a/./b", b"a\0b", &long, &deep] {
    assert_eq!(RelativePath::new(bad), Err(WireError::Invalid), "{}", bad.escape_ascii());
  }
  let longest = [&b"a/".repeat(63)[..], &[b'a'; 255]].concat();
  for good in [&b""[..], b"a", b"...", b"a/b c/\xff", &longest] {
    assert_eq!(RelativePath::new(good).unwrap().as_bytes(), good);
  }
  let path = RelativePath::new(b"a/b/c").unwrap();
  assert_eq!(path.split(), Some((RelativePath::new(b"a/b").unwrap(), &b"c"[..])));
  assert_eq!(RelativePath::new(b"c").unwrap().split(), Some((RelativePath::WORKSPACE, &b"c"[..])));
  assert_eq!(RelativePath::WORKSPACE.split(), None);
}

#[test]
fn a_string_with_a_nul_is_not_taken() {
  assert_eq!(StringsBuf::of([&b"a\0b"[..]]).err(), Some(WireError::Invalid));
  let list = StringsBuf::of(["a", "", "b"]).unwrap();
  assert_eq!(list.view().iter().collect::<Vec<_>>(), [c"a", c"", c"b"]);
  assert_eq!(list.view().count(), 3);
}

#[test]
fn entries_are_found_wherever_the_stream_was_cut() {
  let mut bytes = Vec::new();
  let entry = Entry { kind: EntryKind::File, mode: 0o644, size: 5, path: b"a/b" };
  entry.write(&mut bytes);
  for cut in 0..bytes.len() {
    assert_eq!(Entry::read(&bytes[..cut]), Ok(None), "{cut}");
  }
  bytes.push(1);
  assert_eq!(Entry::read(&bytes), Ok(Some((entry, bytes.len() - 1))));
  assert_eq!(Entry::read(&[9; 32]), Err(WireError::Invalid));
}

#[test]
fn the_self_test_is_safe_only_if_all_was_tried_and_nothing_got_through() {
  assert!(SelfTest { tried: 0x7f, succeeded: 0 }.is_safe());
  assert!(!SelfTest { tried: 0x3f, succeeded: 0 }.is_safe());
  let broken = SelfTest { tried: 0x7f, succeeded: 0b1001 };
  assert!(!broken.is_safe());
  assert_eq!(broken.broken().collect::<Vec<_>>(), ["inject", "kill"]);
}

#[test]
fn what_the_end_of_a_command_does_not_use_is_zero() {
  // How, detail, error number; then what is killed and how long it took.
  let end = |how: u8, detail: u8, errno: i32| {
    let payload = [&[how, detail][..], &errno.to_le_bytes(), &[0; 12]].concat();
    let whole = |kind, payload: &[u8]| {
      let frame = Frame { kind, key: KEY, fence: FENCE, op: 1, payload };
      ToHost::decode(&frame).is_ok()
    };
    let exited = whole(Kind::Exited, &payload);
    assert_eq!(whole(Kind::Done, &[&[5][..], &payload].concat()), exited, "{how} {detail} {errno}");
    exited
  };
  for how in 0..=9 {
    let [detail, errno] = [matches!(how, 1 | 2 | 7), how == 7];
    assert_eq!(end(how, 0, 0), matches!(how, 1..=6 | 8), "{how}");
    assert_eq!(end(how, 1, 0), detail, "{how} with a detail");
    assert_eq!(end(how, 1, 1), errno, "{how} with a detail and an error number");
    assert!(!end(how, 0, 1), "{how} with an error number");
  }
}

proptest! {
  #[test]
  fn no_payload_panics(kind in 0usize..Kind::ALL.len(), payload in prop::collection::vec(any::<u8>(), 0..200)) {
    let frame = Frame { kind: Kind::ALL[kind], key: KEY, fence: FENCE, op: 1, payload: &payload };
    let _ = ToInside::decode(&frame);
    let _ = ToHost::decode(&frame);
    let _ = Entry::read(&payload);
    let _ = image_digest(&payload);
  }

  #[test]
  fn what_decodes_from_any_payload_encodes_to_the_same(
    kind in 0usize..Kind::ALL.len(),
    payload in prop::collection::vec(0u8..4, 0..80),
  ) {
    let frame = Frame { kind: Kind::ALL[kind], key: KEY, fence: FENCE, op: 1, payload: &payload };
    if let Ok(message) = ToInside::decode(&frame) {
      let mut bytes = Vec::new();
      message.encode(&encoder(), 1, &mut bytes).unwrap();
      prop_assert_eq!(&bytes[HEADER..], &payload);
    }
    if let Ok(message) = ToHost::decode(&frame) {
      let mut bytes = Vec::new();
      message.encode(&encoder(), 1, &mut bytes).unwrap();
      prop_assert_eq!(&bytes[HEADER..], &payload);
    }
  }
}
