//! The host's end of the resident transport against a process 1 that is not, or no longer, our supervisor: every
//! operation ends with a typed error, in bounded time and memory, and the process goes on.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, TryStreamExt};
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::EngineKind;
use sandbox_docker::environment::acquire::{AcquireRequest, acquire};
use sandbox_docker::environment::core::{Core, Parts};
use sandbox_docker::environment::event::Events;
use sandbox_docker::environment::options::Options;
use sandbox_docker::error::{ErrorCode, Result};
use sandbox_docker::sandbox::output::output;
use sandbox_docker::sandbox::resident::ResidentSandbox;
use sandbox_docker::sandbox::{Command, Export, Sandbox};
use sandbox_docker::store::lease::MemoryLeaseStore;
use sandbox_docker::store::snapshot::MemorySnapshotStore;
use sandbox_docker::supervisor::link::{Identity, Link};
use sandbox_docker::supervisor::wire::{
  CommandEnd, Credit, Encoder, Entry, EntryKind, Failed, Failure, How, Kind, Listed, MAX_DATA, NotStarted,
  Notice, Read, Refusal, Reply, SelfTest, Started, Stream, TarDone, ToHost, Token, Welcome, Written,
};
use sandbox_docker::workspace::path::WorkspacePath;
use serde_json::json;
use support::answers::{Answer, LOST, command, command_end, data, exec, list, loses, outcome, read, with};
use support::hostile::{Peer, engine, engine_that_saw, process, sandbox, welcome};
use support::scripted_engine::Gate;
use support::{client, must_end};
use tokio::time::sleep;

/// Most bytes of a tar in these tests: two windows.
const MAX_TAR: u64 = 1024 * 1024;

async fn write(sandbox: &ResidentSandbox) -> String {
  let path = WorkspacePath::parse("f").unwrap();
  outcome(sandbox.write_file(&path, "abc".into(), 0o644, &Cancel::new()), |()| "written".to_owned()).await
}

async fn export(sandbox: &ResidentSandbox) -> String {
  outcome(drained(sandbox.export(MAX_TAR, &Cancel::new()).await), |bytes| format!("{bytes} bytes")).await
}

/// How many bytes a tar has.
async fn drained(export: Result<Export>) -> Result<usize> {
  let pieces: Vec<_> = export?.tar.try_collect().await?;
  Ok(pieces.iter().map(bytes::Bytes::len).sum())
}

// In a burst of starts a container's own may come after a minute; until then there is nobody to answer a heartbeat.
#[tokio::test(start_paused = true)]
async fn a_container_that_its_engine_starts_late_is_waited_for() {
  let ended = Gate::new();
  let honest = process(&ended, |mut peer: Peer| async move {
    peer.say(0, &ToHost::Welcome(welcome())).await;
    peer.idle().await;
  });
  let engine = engine(&ended, honest);
  let identity = Identity { token: Token([7; 32]), fence: 1, dead_man: Duration::ZERO };
  let late = async {
    sleep(Duration::from_secs(55)).await;
    Ok(())
  };
  let link = Link::open(&client(&engine), "c1", identity, late).await.unwrap();
  assert_eq!(link.welcome(), &welcome());
}

#[tokio::test]
async fn an_honest_exchange_works() {
  let honest: Answer = act!(|peer, op| {
    peer.say(op, &ToHost::Started(Started::Command { pid: 7 })).await;
    peer.say(op, &data(Stream::Output, 0, b"12345678")).await;
    peer.say(op, &ToHost::Exited(command_end())).await;
    peer.say(op, &ToHost::Done(Reply::Command(command_end()))).await;
  });
  let ((first, second), _) = with(honest, async |sandbox| (exec(sandbox).await, exec(sandbox).await)).await;
  assert_eq!([first, second], ["Some(3) [49, 50, 51, 52, 53, 54, 55, 56]"; 2].map(str::to_owned));
}

/// Its process was stopped, its clock was not. Process 1 did its part meanwhile, or would have.
#[tokio::test]
async fn a_host_that_slept_does_not_hold_it_against_process_1() {
  let (ended, asked, awake) = (Gate::new(), Gate::new(), Gate::new());
  let gates = (asked.clone(), awake.clone());
  let talk = process(&ended, move |mut peer| {
    let (asked, awake) = gates.clone();
    async move {
      peer.say(0, &ToHost::Welcome(welcome())).await;
      while let Some((op, _)) = peer.request().await {
        asked.open();
        // Heartbeats are not answered meanwhile.
        awake.passed().await;
        peer.say(op, &ToHost::Started(Started::File { size: 3, mode: 0o644 })).await;
        peer.say(op, &data(Stream::Output, 0, b"abc")).await;
        peer.say(op, &ToHost::Done(Reply::Read(Read { size: 3, mode: 0o644, sent: 3 }))).await;
      }
    }
  });
  let engine = engine(&ended, talk);
  let sandbox = sandbox(&engine).await.unwrap();
  let sleep = async {
    asked.passed().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3600)).await;
    tokio::time::resume();
    awake.open();
  };
  // Under the limit of no timer, which would sleep too.
  let (first, ()) = tokio::join!(read(&sandbox), sleep);
  assert_eq!(first, r#"b"abc""#);
  assert_eq!(must_end(read(&sandbox)).await, r#"b"abc""#);
}

#[tokio::test]
async fn commands_that_break_the_rules_are_lost() {
  let cases: [(&str, Answer); 9] = [
    ("a gap", act!(|peer, op| { peer.say(op, &data(Stream::Output, 1, b"x")).await })),
    (
      "a piece twice",
      act!(|peer, op| {
        for _ in 0..2 {
          peer.say(op, &data(Stream::Output, 0, b"x")).await;
        }
      }),
    ),
    (
      "output beyond the cap",
      act!(|peer, op| {
        peer.say(op, &data(Stream::Error, 0, b"123456789")).await;
        peer.say(op, &ToHost::Exited(command_end())).await;
        peer.say(op, &ToHost::Done(Reply::Command(command_end()))).await;
      }),
    ),
    ("data of its input", act!(|peer, op| { peer.say(op, &data(Stream::Input, 0, b"x")).await })),
    (
      "a file instead of a command",
      act!(|peer, op| { peer.say(op, &ToHost::Started(Started::File { size: 1, mode: 0 })).await }),
    ),
    (
      "the reply to a read",
      act!(|peer, op| { peer.say(op, &ToHost::Done(Reply::Read(Read { size: 0, mode: 0, sent: 0 }))).await }),
    ),
    (
      "done and never exited",
      act!(|peer, op| { peer.say(op, &ToHost::Done(Reply::Command(command_end()))).await }),
    ),
    (
      "another end than was told",
      act!(|peer, op| {
        peer.say(op, &ToHost::Exited(command_end())).await;
        let other = CommandEnd { how: How::Exited(0), ..command_end() };
        peer.say(op, &ToHost::Done(Reply::Command(other))).await;
      }),
    ),
    (
      "a frame that only hosts send",
      act!(|peer, _op| {
        let odd = peer.odd_frame(0x23, None, b"");
        peer.output(&odd).await;
      }),
    ),
  ];
  join_all(cases.map(|(what, act)| loses(what, act, exec).boxed_local())).await;
}

/// The end of a command, told twice, as it must be.
async fn ends(peer: &mut Peer, op: u64, how: How) {
  let end = CommandEnd { how, ..command_end() };
  peer.say(op, &ToHost::Exited(end)).await;
  peer.say(op, &ToHost::Done(Reply::Command(end))).await;
}

async fn fails(peer: &mut Peer, op: u64, failure: Failure) {
  peer.say(op, &ToHost::Done(Reply::Failed(Failed { failure, errno: 0 }))).await;
}

#[tokio::test]
async fn nothing_ends_in_a_way_that_nobody_asked_for() {
  let commands: [(&str, Answer); 6] = [
    ("cancelled", act!(|peer, op| { ends(peer, op, How::Cancelled).await })),
    ("out of memory, which it cannot tell", act!(|peer, op| { ends(peer, op, How::OutOfMemory).await })),
    (
      "a failure to run that is a cancellation",
      act!(|peer, op| { fails(peer, op, Failure::Cancelled).await }),
    ),
    ("a failure to run that is one of files", act!(|peer, op| { fails(peer, op, Failure::NotFound).await })),
    (
      "not started, after its exit",
      act!(|peer, op| {
        peer.say(op, &ToHost::Exited(command_end())).await;
        let end = CommandEnd { how: How::NotStarted(NotStarted::Program, 2), ..command_end() };
        peer.say(op, &ToHost::Done(Reply::Command(end))).await;
      }),
    ),
    (
      "refused, after its exit",
      act!(|peer, op| {
        peer.say(op, &ToHost::Exited(command_end())).await;
        fails(peer, op, Failure::TooMany).await;
      }),
    ),
  ];
  join_all(commands.map(|(what, act)| loses(what, act, exec).boxed_local())).await;
  let cancelled: Answer = act!(|peer, op| { fails(peer, op, Failure::Cancelled).await });
  loses("a read that is cancelled", cancelled, read).await;
  loses("a write that is cancelled", cancelled, write).await;
  loses("a listing that is cancelled", cancelled, list).await;
  loses("a tar that is cancelled", cancelled, export).await;
  let bad_archive: Answer = act!(|peer, op| { fails(peer, op, Failure::BadArchive).await });
  loses("a file that is a bad archive", bad_archive, read).await;
  let exit: Answer = act!(|peer, op| { peer.say(op, &ToHost::Exited(command_end())).await });
  loses("a file that exits", exit, read).await;
}

#[tokio::test]
async fn a_command_without_limits_passes_none() {
  let outcomes: [(&str, Answer); 2] = [
    ("timed out", act!(|peer, op| { ends(peer, op, How::TimedOut).await })),
    ("over its cap", act!(|peer, op| { ends(peer, op, How::OutputLimit).await })),
  ];
  for (what, act) in outcomes {
    // One that has them may end so.
    let (limited, _) = with(act, exec).await;
    assert_ne!(limited, LOST, "{what}");
    loses(what, act, streamed).await;
  }
}

/// A command without a limit of its time or output.
async fn streamed(sandbox: &ResidentSandbox) -> String {
  let (writer, _reader) = output();
  let unlimited = Command { timeout: None, ..command() };
  let cancel = Cancel::new();
  outcome(sandbox.stream(unlimited, &writer, &cancel), |end| format!("{:?}", end.outcome)).await
}

#[tokio::test]
async fn files_that_break_the_rules_are_lost() {
  let reads: [(&str, Answer); 5] = [
    (
      "more was sent than came",
      act!(|peer, op| {
        peer.say(op, &data(Stream::Output, 0, b"abc")).await;
        peer.say(op, &ToHost::Done(Reply::Read(Read { size: 3, mode: 0o644, sent: 4 }))).await;
      }),
    ),
    (
      "more came than was asked for",
      act!(|peer, op| {
        peer.say(op, &data(Stream::Output, 0, b"123456789")).await;
      }),
    ),
    ("contents as errors", act!(|peer, op| { peer.say(op, &data(Stream::Error, 0, b"x")).await })),
    (
      "a command instead of a file",
      act!(|peer, op| { peer.say(op, &ToHost::Started(Started::Command { pid: 1 })).await }),
    ),
    (
      "the reply to a write",
      act!(|peer, op| { peer.say(op, &ToHost::Done(Reply::Written(Written { size: 0 }))).await }),
    ),
  ];
  join_all(reads.map(|(what, act)| loses(what, act, read).boxed_local())).await;
  let writes: [(&str, Answer); 2] = [
    (
      "another size than was sent",
      act!(|peer, op| { peer.say(op, &ToHost::Done(Reply::Written(Written { size: 4 }))).await }),
    ),
    ("output of a write", act!(|peer, op| { peer.say(op, &data(Stream::Output, 0, b"x")).await })),
  ];
  join_all(writes.map(|(what, act)| loses(what, act, write).boxed_local())).await;
  let exports: [(&str, Answer); 2] = [
    (
      "fewer bytes than it says",
      act!(|peer, op| {
        peer.say(op, &data(Stream::Output, 0, &[0; 1024])).await;
        peer.say(op, &ToHost::Done(Reply::Tar(TarDone { bytes: 1025, entries: 0, skipped: 0 }))).await;
      }),
    ),
    (
      "more than was asked for",
      act!(|peer, op| {
        for n in 0..17 {
          peer.say(op, &data(Stream::Output, n * MAX_DATA as u64, &[0; MAX_DATA])).await;
          tokio::time::timeout(Duration::from_millis(20), peer.until(|_| false)).await.ok();
        }
      }),
    ),
  ];
  join_all(exports.map(|(what, act)| loses(what, act, export).boxed_local())).await;
}

#[tokio::test]
async fn nobody_sends_beyond_the_window() {
  let act: Answer = act!(|peer, op| {
    let pieces: Vec<_> =
      (0..9).map(|n| peer.frame(op, &data(Stream::Output, n * MAX_DATA as u64, &[0; MAX_DATA]))).collect();
    for piece in pieces {
      peer.output(&piece).await;
    }
  });
  let ((beside, error), _) = with(act, async |sandbox| {
    let export = sandbox.export(MAX_TAR, &Cancel::new()).await;
    // Nothing of the tar is taken before the stream is broken: nine pieces came where eight were granted.
    (exec(sandbox).await, drained(export).await.unwrap_err())
  })
  .await;
  assert_eq!((beside.as_str(), error.code()), (LOST, ErrorCode::ContainerLost));
  assert!(error.message().contains("more than it was allowed to"), "{error}");
}

#[tokio::test]
async fn listings_hold_paths_beneath_the_directory_and_nothing_else() {
  let long = "d/".to_owned() + &"x".repeat(256);
  let deep = vec!["d"; 65].join("/");
  let right: [&[&[u8]]; 3] = [&[], &[b"d/a", b"d/a/b"], &[b"d/a", b"d/a.b", b"d/a/b"]];
  for paths in right {
    let shown: Vec<_> = paths.iter().map(|path| String::from_utf8_lossy(path)).collect();
    assert_eq!(listed(paths, paths.len()).await, shown.join(" "));
  }
  assert_eq!(listed(&[b"d/\xff"], 1).await, "d/\u{fffd}");
  let wrong: [&[&[u8]]; 15] = [
    &[b"d/.."],
    &[b"d/../../etc"],
    &[b"../d/a"],
    &[b"d/a\0"],
    &[b"/d/a"],
    &[b"d//a"],
    &[b"d/./a"],
    &[b"d"],
    &[b"da"],
    &[b"e/a"],
    &[b"d/b", b"d/a"],
    &[b"d/a", b"d/a"],
    &[b"d/a/b/c"],
    &[long.as_bytes()],
    &[deep.as_bytes()],
  ];
  for paths in wrong {
    assert_eq!(listed(paths, paths.len()).await, LOST, "{paths:?}");
  }
  assert_eq!(listed(&[b"d/a", b"d/b", b"d/c", b"d/d"], 4).await, LOST, "more than was asked for");
  assert_eq!(listed(&[b"d/a"], 2).await, LOST, "another number than came");
}

/// What the listing of `d` comes to whose process 1 sends these paths and says that they are so many.
async fn listed(paths: &[&[u8]], count: usize) -> String {
  let mut entries = Vec::new();
  for path in paths {
    Entry { kind: EntryKind::File, mode: 0o644, size: 1, path }.write(&mut entries);
  }
  let gate = Gate::new();
  let talk = process(&gate, move |mut peer| {
    let entries = entries.clone();
    async move {
      peer.say(0, &ToHost::Welcome(welcome())).await;
      let Some((op, _)) = peer.request().await else { return };
      peer.say(op, &data(Stream::Output, 0, &entries)).await;
      let listed = Listed { entries: u32::try_from(count).unwrap(), truncated: false };
      peer.say(op, &ToHost::Done(Reply::Listed(listed))).await;
    }
  });
  let engine = engine(&gate, talk);
  let sandbox = sandbox(&engine).await.unwrap();
  must_end(list(&sandbox)).await
}

#[tokio::test]
async fn what_means_nothing_changes_nothing() {
  let odd: Answer = act!(|peer, op| {
    let unknown = peer.odd_frame(0xEE, None, &[7; 500]);
    let twice = [
      peer.frame(0, &ToHost::Welcome(welcome())),
      peer.frame(0, &ToHost::Refused(Refusal::Token)),
      peer.frame(0, &ToHost::Notice(Notice::Garbage, u64::MAX)),
      peer.frame(op + 999, &ToHost::Done(Reply::Command(command_end()))),
      peer.frame(op, &ToHost::Credit(Credit { stream: Stream::Input, limit: u64::MAX })),
      b"no frame at all \xf5ZS\xfb".to_vec(),
    ];
    let rest = [
      peer.frame(op, &ToHost::Exited(command_end())),
      peer.frame(op, &ToHost::Done(Reply::Command(command_end()))),
      peer.frame(op, &ToHost::Done(Reply::Command(command_end()))),
    ];
    let all = [unknown, twice.concat(), rest.concat()].concat();
    // Byte by byte: a frame may be cut anywhere.
    for byte in all {
      peer.output(&[byte]).await;
    }
  });
  let (both, _) = with(odd, async |sandbox| [exec(sandbox).await, exec(sandbox).await]).await;
  assert_eq!(both, ["Some(3) []"; 2]);
}

#[tokio::test]
async fn a_stream_that_ends_anywhere_is_a_lost_container() {
  // An exchange of a few hundred bytes, cut behind each of them.
  let whole = reply_frames(&Encoder::new(1, 1), 1).len();
  let cuts = join_all((0..whole).map(|cut| cut_at(cut).boxed_local())).await;
  for (cut, found) in cuts.into_iter().enumerate() {
    assert_eq!(found, LOST, "cut behind byte {cut} of {whole}");
  }
}

/// The kernel ends process 1 for memory: the engine has an event of it, and a code that says nothing.
#[tokio::test]
async fn an_end_for_memory_is_told_as_such() {
  for (events, reason) in [
    (r#"{"status":"oom","id":"c1"}"#, "the kernel killed it for memory; raise limits.memoryMb."),
    (r#"{"status":"oom","id":"c2"}"#, "it was killed or removed from outside."),
  ] {
    let gate = Gate::new();
    let talk = process(&gate, |mut peer| async move {
      peer.say(0, &ToHost::Welcome(welcome())).await;
      peer.request().await;
    });
    let engine = engine_that_saw(events, &gate, talk);
    let sandbox = sandbox(&engine).await.unwrap();
    let path = WorkspacePath::parse("f").unwrap();
    let error = must_end(sandbox.read_file(&path, 0, 8, &Cancel::new())).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ContainerLost);
    assert!(
      error.message().starts_with(&format!("The sandbox's container c1 has ended: {reason}")),
      "{error}"
    );
  }
}

fn reply_frames(encoder: &Encoder, op: u64) -> Vec<u8> {
  let messages = [
    ToHost::Started(Started::Command { pid: 7 }),
    data(Stream::Output, 0, b"out"),
    ToHost::End(Stream::Output),
    ToHost::End(Stream::Error),
    ToHost::Exited(command_end()),
    ToHost::Done(Reply::Command(command_end())),
  ];
  let mut bytes = Vec::new();
  for message in &messages {
    message.encode(encoder, op, &mut bytes).unwrap();
  }
  bytes
}

async fn cut_at(cut: usize) -> String {
  let gate = Gate::new();
  let talk = process(&gate, move |mut peer| async move {
    peer.say(0, &ToHost::Welcome(welcome())).await;
    let Some((op, _)) = peer.request().await else { return };
    let bytes = reply_frames(&peer.encoder, op);
    peer.output(&bytes[..cut]).await;
  });
  let engine = engine(&gate, talk);
  let sandbox = sandbox(&engine).await.unwrap();
  must_end(exec(&sandbox)).await
}

/// What acquiring a run comes to whose process 1 is `act`, with either wish, and what the engine was asked.
async fn acquired(transport: &str, act: Answer) -> (Result<Option<String>>, Vec<String>) {
  let gate = Gate::new();
  let engine = engine(&gate, process(&gate, move |mut peer| async move { act(&mut peer, 0).await }));
  let options = json!({
    "ownerId": "o", "image": "i:1", "pull": "never", "assurance": "best-effort", "transport": transport, "workspace": { "id": "w" },
  });
  let core = Core::new(Parts {
    options: Options::from_json(&options, &[], EngineKind::Node).unwrap(),
    engine: Arc::new(support::client(&engine)),
    leases: Arc::new(MemoryLeaseStore::default()),
    snapshots: Arc::new(MemorySnapshotStore::default()),
    events: Events::default(),
    resolver: None,
  });
  let core = Arc::new(core.unwrap());
  core.seal("{}");
  let request = AcquireRequest { run_id: "run".to_owned(), scope: None };
  let session = must_end(Box::pin(acquire(&core, &request, &Cancel::new()))).await;
  let calls = engine.calls();
  (session.map(|session| session.instead().map(str::to_owned)), calls)
}

#[tokio::test]
async fn a_false_welcome_is_unsupported_and_auto_goes_without() {
  let cases: [(&str, Answer); 10] = [
    (
      "not the supervisor of this package",
      act!(|peer, _op| {
        peer.say(0, &ToHost::Welcome(Welcome { digest: [9; 32], ..welcome() })).await;
        peer.idle().await;
      }),
    ),
    (
      "got through: inject, kill",
      act!(|peer, _op| {
        let self_test = SelfTest { succeeded: 0b1001, ..welcome().self_test };
        peer.say(0, &ToHost::Welcome(Welcome { self_test, ..welcome() })).await;
        peer.idle().await;
      }),
    ),
    (
      "not all attacks could be tried",
      act!(|peer, _op| {
        let self_test = SelfTest { tried: 1, succeeded: 0 };
        peer.say(0, &ToHost::Welcome(Welcome { self_test, ..welcome() })).await;
        peer.idle().await;
      }),
    ),
    ("did not answer within 10 s", act!(|peer, _op| { peer.idle().await })),
    ("did not answer within 10 s", act!(|peer, _op| { while peer.output(&[0xA5; MAX_DATA]).await {} })),
    (
      "broke the rules of the stream",
      act!(|peer, _op| {
        // Ten thousand operations in a payload that holds none.
        let mut bytes = Vec::new();
        let welcome =
          [&welcome().digest[..], &[0; 8], &[127, 0, 0, 0, 0, 0, 0, 0], &10_000u32.to_le_bytes()].concat();
        peer.encoder.frame(&mut bytes, Kind::Welcome, 0, |out| out.extend(welcome)).unwrap();
        peer.output(&bytes).await;
        peer.idle().await;
      }),
    ),
    (
      "obeys another holder",
      act!(|peer, _op| {
        peer.say(0, &ToHost::Refused(Refusal::Fence)).await;
        peer.idle().await;
      }),
    ),
    (
      "does not understand this host",
      act!(|peer, _op| {
        peer.say(0, &ToHost::Refused(Refusal::Malformed)).await;
        peer.idle().await;
      }),
    ),
    ("it was killed or removed from outside", act!(|_peer, _op| {})),
    (
      "broke the rules of the stream",
      act!(|peer, _op| {
        let odd = peer.odd_frame(0x01, None, b"");
        peer.output(&odd).await;
        peer.idle().await;
      }),
    ),
  ];
  join_all(cases.map(|(words, act)| {
    Box::pin(async move {
      let (refused, calls) = acquired("resident", act).await;
      let error = refused.unwrap_err();
      assert_eq!(error.code(), ErrorCode::Unsupported, "{words}: {error}");
      assert!(error.message().contains(words), "{error}");
      assert!(
        error.message().contains(r#"set transport: "exec""#)
          || error.message().contains(r#"Set transport: "exec""#),
        "{error}"
      );
      assert_eq!(calls.last().unwrap(), "DELETE /containers/c1");
      let (session, calls) = acquired("auto", act).await;
      assert_eq!(session.unwrap().unwrap(), error.message());
      let creates = calls.iter().filter(|call| *call == "POST /containers/create").count();
      assert_eq!(creates, 2, "{words}");
    })
  }))
  .await;
}
