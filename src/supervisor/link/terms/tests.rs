use super::*;
use crate::supervisor::wire::{
  CommandEnd, Exec, Failed, Listed, Listen, NotStarted, Read, ReadFile, RelativePath, SelfTest, StringsBuf,
  TarDone, TarIn, TarOut, WriteFile, Written,
};

const PATH: RelativePath<'static> = RelativePath::WORKSPACE;

fn welcome(capabilities: u64) -> Welcome {
  let self_test = SelfTest { tried: 0, succeeded: 0 };
  Welcome { digest: [0; 32], capabilities, self_test, operations: Vec::new() }
}

fn of(request: ToInside<'_>) -> Terms {
  Terms::new(&request, &welcome(0))
}

fn exec(timeout_ms: u64, caps: [u64; 2], capabilities: u64) -> Terms {
  let words = StringsBuf::of(["p"]).unwrap();
  let [max_stdout, max_stderr] = caps;
  let (argv, env) = (words.view(), words.view());
  let exec = Exec { window: 1, timeout_ms, max_stdout, max_stderr, stdin: false, cwd: PATH, argv, env };
  Terms::new(&ToInside::Exec(exec), &welcome(capabilities))
}

fn failed(failure: Failure) -> Reply {
  Reply::Failed(Failed { failure, errno: 0 })
}

/// One operation of each kind.
fn all() -> [Terms; 8] {
  [
    exec(1, [1, 1], u64::MAX),
    of(ToInside::ReadFile(ReadFile { window: 1, offset: 0, limit: 1, path: PATH })),
    of(ToInside::WriteFile(WriteFile { mode: 0, size: 0, overwrite: true, path: PATH })),
    of(ToInside::List(crate::supervisor::wire::List { window: 1, depth: 1, limit: 1, path: PATH })),
    of(ToInside::TarOut(TarOut { window: 1, max_bytes: 1, max_entries: 1 })),
    of(ToInside::TarIn(TarIn { max_bytes: 1, max_entries: 1 })),
    of(ToInside::SelfTest),
    of(ToInside::Listen(Listen { port: 1, window: 1 })),
  ]
}

#[test]
fn a_command_ends_in_ways_that_were_asked_for() {
  let none = exec(0, [u64::MAX, u64::MAX], !(Capability::MemoryKills as u64));
  let cases = [
    (How::TimedOut, exec(1, [u64::MAX; 2], 0)),
    (How::OutputLimit, exec(0, [0, u64::MAX], 0)),
    (How::OutputLimit, exec(0, [u64::MAX, 0], 0)),
    (How::OutOfMemory, exec(0, [u64::MAX; 2], Capability::MemoryKills as u64)),
    (How::Cancelled, Terms { cancelled: true, ..none }),
  ];
  for (how, asked) in cases {
    let reply = Reply::Command(CommandEnd { how, killed: 0, micros: 0 });
    assert_eq!((asked.end(how), asked.reply(&reply)), (Ok(()), Ok(())), "{how:?}");
    assert_eq!((none.end(how), none.reply(&reply)), (Err(Foreign::Answer), Err(Foreign::Answer)), "{how:?}");
  }
  for how in [How::Exited(9), How::Signaled(9), How::Swept, How::NotStarted(NotStarted::Fork, 1)] {
    assert_eq!(none.end(how), Ok(()), "{how:?}");
  }
}

#[test]
fn nothing_but_a_command_exits() {
  let [command, others @ ..] = all();
  assert_eq!(command.end(How::Exited(0)), Ok(()));
  for terms in others {
    assert_eq!(terms.end(How::Exited(0)), Err(Foreign::Answer), "{terms:?}");
  }
}

#[test]
fn a_last_word_is_that_of_the_operation() {
  let tar = Reply::Tar(TarDone { bytes: 0, entries: 0, skipped: 0 });
  let replies = [
    Reply::Command(CommandEnd { how: How::Exited(0), killed: 0, micros: 0 }),
    Reply::Read(Read { size: 0, mode: 0, sent: 0 }),
    Reply::Written(Written { size: 0 }),
    Reply::Listed(Listed { entries: 0, truncated: false }),
    tar,
    tar,
    Reply::SelfTest(SelfTest { tried: 0, succeeded: 0 }),
    Reply::Listening,
  ];
  for (at, terms) in all().into_iter().enumerate() {
    for (from, reply) in replies.iter().enumerate() {
      let is_its_own = at == from || (matches!(at, 4 | 5) && *reply == tar);
      assert_eq!(terms.reply(reply).is_ok(), is_its_own, "{terms:?} {reply:?}");
    }
  }
}

#[test]
fn a_failure_is_one_that_the_operation_can_have() {
  let possible = |failure: Failure| {
    let fail = |terms: Terms| terms.reply(&failed(failure)).is_ok();
    all().map(fail)
  };
  let only = |at: usize| std::array::from_fn(|other| other == at);
  let files = [false, true, true, true, true, true, true, true];
  for failure in Failure::ALL {
    let expected = match failure {
      Failure::TooMany | Failure::BadRequest | Failure::Unsupported | Failure::InUse => [true; 8],
      Failure::Cancelled => [false; 8],
      Failure::Cut => only(2),
      Failure::BadArchive => only(5),
      _ => files,
    };
    assert_eq!(possible(*failure), expected, "{failure:?}");
  }
  let asked =
    all().map(|terms| Terms { cancelled: true, ..terms }.reply(&failed(Failure::Cancelled)).is_ok());
  assert_eq!(asked, files, "a command that was stopped says so as its end");
}
