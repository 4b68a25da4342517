//! The supervisor as process 1 of a real container, from a host that speaks nothing but the wire.
//!
//! `SANDBOX_TEST_SOCKET` names the engine's socket, `SANDBOX_TEST_IMAGE` an image with BusyBox, `SANDBOX_SUPERVISOR` the
//! program if it is not where `scripts/build-supervisor.mjs` puts it. With `SANDBOX_TEST_MACHINE` an emulated machine of
//! another architecture makes the containers (`scripts/test-arm64.mjs`).
#![cfg(all(feature = "supervisor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::print_stdout, reason = "measurements")]

#[path = "support/resident.rs"]
mod resident;

use std::time::{Duration, Instant};

use sandbox_docker::supervisor::wire::*;

use resident::{HANG, Host, Profile, TOKEN, WINDOW, entries, many_bytes, resident, supervisor};

#[test]
fn the_hello_proves_which_program_runs_and_what_it_keeps_off() {
  let (_container, host) = resident(&Profile::default());
  let welcome = host.welcome.unwrap();
  let expected = image_digest(&std::fs::read(supervisor()).unwrap()).unwrap();
  assert_eq!(welcome.digest, expected);
  assert_eq!(welcome.self_test, SelfTest { tried: 0x7f, succeeded: 0 });
  assert!(welcome.self_test.is_safe());
  for capability in [
    Capability::Openat2,
    Capability::Filtered,
    Capability::Locked,
    Capability::Bridge,
    Capability::MemoryKills,
  ] {
    assert!(welcome.can(capability), "{capability:?}");
  }
  assert_eq!(welcome.operations, []);
}

#[test]
fn a_command_has_its_output_its_error_and_its_code() {
  let (_container, mut host) = resident(&Profile::default());
  let outcome = host.run(&["echo", "hello", "", "a b"]);
  assert_eq!((outcome.text().as_str(), outcome.how()), ("hello  a b\n", How::Exited(0)));
  assert_eq!(outcome.ended, [false, true, true]);
  assert!(matches!(outcome.started, Some(Started::Command { pid: 2.. })));
  assert_eq!(outcome.exited.map(|end| end.how), Some(How::Exited(0)));
  let outcome = host.sh("echo out; echo err >&2; exit 7");
  assert_eq!((outcome.output, outcome.error), (b"out\n".to_vec(), b"err\n".to_vec()));
  assert_eq!(outcome.done.map(|_| ()), Some(()));
  for (script, how) in [
    ("exit 255", How::Exited(255)),
    ("kill -9 $$", How::Signaled(9)),
    ("kill -15 $$", How::Signaled(15)),
    ("kill -11 $$", How::Signaled(11)),
  ] {
    assert_eq!(host.sh(script).how(), how, "{script}");
  }
}

#[test]
fn what_cannot_be_started_says_where_and_why() {
  let (_container, mut host) = resident(&Profile::default());
  host.write_file("plain", b"#!/bin/sh\n");
  let not = |stage, errno| How::NotStarted(stage, errno);
  assert_eq!(host.run(&["no-such-program"]).how(), not(NotStarted::Program, 2));
  assert_eq!(host.run(&["/bin/no-such-program"]).how(), not(NotStarted::Program, 2));
  assert_eq!(host.run(&["/workspace/plain"]).how(), not(NotStarted::Program, 13));
  assert_eq!(host.run(&["/bin"]).how(), not(NotStarted::Program, 13));
  let path = RelativePath::new(b"nowhere").unwrap();
  let op = host.spawn(&["true"], |exec| exec.cwd = path);
  assert_eq!(host.finish(op).how(), not(NotStarted::Directory, 2));
  host.sh("ln -s /tmp link");
  let path = RelativePath::new(b"link").unwrap();
  let op = host.spawn(&["true"], |exec| exec.cwd = path);
  assert_eq!(host.finish(op).how(), not(NotStarted::Directory, 40));
}

#[test]
fn a_command_starts_from_nothing() {
  let (_container, mut host) = resident(&Profile::default());
  let mut environment: Vec<_> = host.run(&["env"]).text().lines().map(str::to_owned).collect();
  environment.sort();
  assert_eq!(environment, ["A=b", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"]);
  assert_eq!(host.run(&["pwd"]).text(), "/workspace\n");
  // Nothing of ours is open in it: its own three, and the directory that `ls` reads.
  assert_eq!(host.run(&["ls", "/proc/self/fd"]).text(), "0\n1\n2\n3\n");
  assert_eq!(host.run(&["readlink", "/proc/self/fd/0"]).text(), "/dev/null\n");
  let session = host.sh("set -- $(cat /proc/self/stat); echo $(($6 == $$))");
  assert_eq!(session.text(), "1\n");
  let signals = host.sh("grep -E 'Sig(Blk|Ign|Cgt)|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t\\n'");
  assert_eq!(
    signals.text(),
    "SigBlk:0000000000000000SigIgn:0000000000000000SigCgt:0000000000000000NoNewPrivs:1Seccomp:2"
  );
  let limits = host.sh("ulimit -n; ulimit -c; ulimit -q; ulimit -r; ulimit -i").text();
  assert_eq!(limits, "1024\n0\n0\n0\n256\n");
}

#[test]
fn input_goes_in_and_comes_out_again() {
  let (_container, mut host) = resident(&Profile::default());
  let contents: Vec<u8> = (0..many_bytes()).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
  let op = host.spawn(&["cat"], |exec| exec.stdin = true);
  host.feed(op, &contents);
  let outcome = host.finish(op);
  assert_eq!(outcome.how(), How::Exited(0));
  assert!(outcome.output == contents);
}

#[test]
fn the_end_of_input_is_a_frame_of_its_own() {
  let (_container, mut host) = resident(&Profile::default());
  let op = host.spawn(&["cat"], |exec| exec.stdin = true);
  host.send(op, &ToInside::Data(Data { stream: Stream::Input, offset: 0, bytes: b"so far" }));
  host.until(|host| host.operations[&op].output == b"so far");
  assert!(host.operations[&op].exited.is_none());
  host.send(op, &ToInside::End(Stream::Input));
  assert_eq!(host.finish(op).how(), How::Exited(0));
  // A command that does not read its input to the end is no reason to wait for it.
  let op = host.spawn(&["head", "-c", "3"], |exec| exec.stdin = true);
  host.feed(op, &[b'x'; 1 << 20]);
  assert_eq!(host.finish(op).text(), "xxx");
}

#[test]
fn output_ends_at_its_cap() {
  let (_container, mut host) = resident(&Profile::default());
  let op = host.spawn(&["yes"], |exec| exec.max_stdout = 100_000);
  let outcome = host.finish(op);
  assert_eq!((outcome.how(), outcome.output.len()), (How::OutputLimit, 100_000));
  let op = host.spawn(&["sh", "-c", "printf 12345"], |exec| exec.max_stdout = 5);
  let outcome = host.finish(op);
  assert_eq!((outcome.how(), outcome.text().as_str()), (How::Exited(0), "12345"));
  let op = host.spawn(&["sh", "-c", "printf 123456"], |exec| exec.max_stdout = 5);
  let outcome = host.finish(op);
  assert_eq!((outcome.how(), outcome.text().as_str()), (How::OutputLimit, "12345"));
  let op = host.spawn(&["sh", "-c", "printf 1 >&2"], |exec| exec.max_stderr = 0);
  assert_eq!(host.finish(op).how(), How::OutputLimit);
}

#[test]
fn time_passes_and_a_host_may_change_its_mind() {
  let (_container, mut host) = resident(&Profile::default());
  let start = Instant::now();
  let op = host.spawn(&["sleep", "40"], |exec| exec.timeout_ms = 100);
  assert_eq!(host.finish(op).how(), How::TimedOut);
  assert!((Duration::from_millis(100)..Duration::from_secs(5)).contains(&start.elapsed()));
  let op = host.spawn(&["sleep", "40"], |_| {});
  host.until(|host| host.operations[&op].started.is_some());
  host.send(op, &ToInside::Cancel);
  assert_eq!(host.finish(op).how(), How::Cancelled);
  let op = host.spawn(
    &["sh", "-c", "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.01; done"],
    |_| {},
  );
  host.until(|host| host.operations[&op].output == b"ready\n");
  host.send(op, &ToInside::Signal(15));
  let outcome = host.finish(op);
  assert_eq!((outcome.how(), outcome.text().as_str()), (How::Exited(3), "ready\ncaught\n"));
}

/// Commands that run besides the one that looks.
fn others(host: &mut Host) -> String {
  host
    .sh("for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n = 1 ] || [ $n = $$ ] || cat $p/comm; done 2>/dev/null")
    .text()
}

#[test]
fn what_a_command_started_ends_with_it() {
  let (_container, mut host) = resident(&Profile::default());
  for script in [
    "sleep 30 & exit 0",
    "setsid sleep 30 & exit 0",
    "(setsid sh -c '(sleep 30 &) ; sleep 31' &) ; sleep 0.05",
    "setsid sh -c 'trap \"\" TERM HUP INT; exec >/dev/null 2>&1 </dev/null; env -i sleep 30' & sleep 0.05",
    "setsid sh -c 'while :; do (setsid sh -c \"sleep 0.02\" &) ; sleep 0.001; done' >/dev/null 2>&1 & sleep 0.2",
  ] {
    let outcome = host.sh(script);
    assert_eq!(outcome.how(), How::Exited(0), "{script}");
    assert!(outcome.exited.unwrap().killed >= 1, "{script}");
    assert_eq!(others(&mut host), "", "{script}");
  }
}

#[test]
fn a_fork_bomb_ends_and_leaves_the_others_alone() {
  let (container, mut host) = resident(&Profile::default());
  let bystander = host.spawn(&["sh", "-c", "read x; echo alive $x"], |exec| exec.stdin = true);
  host.until(|host| host.operations[&bystander].started.is_some());
  let op = host.spawn(&["sh", "-c", "b() { b | b & }; b; sleep 30"], |exec| exec.timeout_ms = 1500);
  assert!(matches!(host.finish(op).how(), How::TimedOut | How::Exited(_)));
  host.feed(bystander, b"indeed\n");
  let outcome = host.finish(bystander);
  assert_eq!((outcome.how(), outcome.text().as_str()), (How::Exited(0), "alive indeed\n"));
  assert_eq!(others(&mut host), "");
  assert!(container.is_running());
}

#[test]
fn files_are_written_read_and_listed() {
  let (_container, mut host) = resident(&Profile::default());
  let written = host.write_file("a/b/c.txt", b"0123456789");
  assert_eq!(written.done, Some(Reply::Written(Written { size: 10 })));
  let read = host.read_file("a/b/c.txt", 0, 100);
  assert_eq!(read.started, Some(Started::File { size: 10, mode: 0o640 }));
  assert_eq!(read.output, b"0123456789");
  assert_eq!(read.done, Some(Reply::Read(Read { size: 10, mode: 0o640, sent: 10 })));
  assert_eq!(host.read_file("a/b/c.txt", 3, 4).output, b"3456");
  assert_eq!(host.read_file("a/b/c.txt", 10, 4).output, b"");
  assert_eq!(host.read_file("a/b/c.txt", u64::MAX, u64::MAX).output, b"");
  host.write_file("a.b", b"");
  host.write_file("a/b.txt", b"x");
  host.sh("ln -s /etc a/link; mkfifo a/pipe; chmod 0600 a.b");
  let listing = host.list("", 3, 100);
  let expected = [
    ("a", EntryKind::Directory, 0, 0o755),
    ("a.b", EntryKind::File, 0, 0o600),
    ("a/b", EntryKind::Directory, 0, 0o755),
    ("a/b.txt", EntryKind::File, 1, 0o640),
    ("a/b/c.txt", EntryKind::File, 10, 0o640),
    ("a/link", EntryKind::Link, 0, 0o777),
    ("a/pipe", EntryKind::Other, 0, 0o644),
  ];
  let found = entries(&listing.output);
  assert_eq!(found, expected.map(|(path, kind, size, mode)| (path.to_owned(), kind, size, mode)));
  assert_eq!(listing.done, Some(Reply::Listed(Listed { entries: 7, truncated: false })));
  let listing = host.list("a", 1, 3);
  assert_eq!(
    entries(&listing.output).iter().map(|entry| entry.0.as_str()).collect::<Vec<_>>(),
    ["a/b", "a/b.txt", "a/link"]
  );
  assert_eq!(listing.done, Some(Reply::Listed(Listed { entries: 3, truncated: true })));
}

#[test]
fn nothing_but_regular_files_beneath_the_workspace() {
  let (_container, mut host) = resident(&Profile::default());
  host.sh("ln -s /etc/passwd passwd; ln -s /etc etc; ln -s . self; mkfifo pipe; mkdir dir; echo x >file; echo y >closed; chmod 0 closed");
  for (path, expected) in [
    ("passwd", Failure::Link),
    ("etc/passwd", Failure::Link),
    ("self/file", Failure::Link),
    ("pipe", Failure::Special),
    ("dir", Failure::Directory),
    ("file/x", Failure::NotDirectory),
    ("nothing", Failure::NotFound),
    ("closed", Failure::Denied),
  ] {
    assert_eq!(host.read_file(path, 0, 10).failure(), expected, "reading {path}");
  }
  for (path, expected) in [
    ("passwd", Failure::Link),
    ("etc/new", Failure::Link),
    ("pipe", Failure::Special),
    ("dir", Failure::Directory),
    ("file/x", Failure::NotDirectory),
  ] {
    assert_eq!(host.write_file(path, b"new").failure(), expected, "writing {path}");
  }
  for (path, expected) in
    [("etc", Failure::Link), ("file", Failure::NotDirectory), ("nothing", Failure::NotFound)]
  {
    assert_eq!(host.list(path, 1, 10).failure(), expected, "listing {path}");
  }
  assert_eq!(host.sh("ls -A | tr '\\n' ' '").text(), "closed dir etc file passwd pipe self ");
}

#[test]
fn a_write_is_whole_or_leaves_nothing() {
  let (_container, mut host) = resident(&Profile { tmpfs_mib: 4, ..Profile::default() });
  host.write_file("file", b"old");
  let path = RelativePath::new(b"file").unwrap();
  let request = |size, overwrite| ToInside::WriteFile(WriteFile { mode: 0o600, size, overwrite, path });
  let op = host.open(&request(5, true));
  host.feed(op, b"four");
  assert_eq!(host.finish(op).failure(), Failure::Cut);
  let op = host.open(&request(3, true));
  host.feed(op, b"four");
  assert_eq!(host.finish(op).failure(), Failure::Cut);
  let op = host.open(&request(4, true));
  host.send(op, &ToInside::Data(Data { stream: Stream::Input, offset: 0, bytes: b"fo" }));
  host.send(op, &ToInside::Cancel);
  assert_eq!(host.finish(op).failure(), Failure::Cancelled);
  let op = host.open(&request(3, false));
  assert_eq!(host.finish(op).failure(), Failure::Exists);
  let op = host.open(&request(4, true));
  host.send(op, &ToInside::Data(Data { stream: Stream::Input, offset: 1, bytes: b"gap" }));
  assert_eq!(host.finish(op).failure(), Failure::Flow);
  let full = host.write_file("large", &vec![1; 8 << 20]);
  assert_eq!(full.failure(), Failure::NoSpace);
  assert_eq!(host.read_file("file", 0, 10).output, b"old");
  assert_eq!(host.sh("ls -A").text(), "file\n");
}

#[test]
fn a_large_directory_is_listed_in_order() {
  let (_container, mut host) = resident(&Profile::default());
  host.sh("mkdir many; cd many; i=0; while [ $i -lt 2000 ]; do : >f$i; i=$((i+1)); done");
  let start = Instant::now();
  let listing = host.list("many", 1, 5000);
  assert_eq!(listing.done, Some(Reply::Listed(Listed { entries: 2000, truncated: false })));
  assert!(start.elapsed() < Duration::from_secs(5));
  let names: Vec<_> = entries(&listing.output).into_iter().map(|entry| entry.0).collect();
  assert!(names.is_sorted());
}

#[test]
fn large_files_pass_both_ways() {
  let (_container, mut host) = resident(&Profile::default());
  let contents: Vec<u8> = (0..many_bytes()).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
  let start = Instant::now();
  assert_eq!(
    host.write_file("large", &contents).done,
    Some(Reply::Written(Written { size: u64::from(many_bytes()) }))
  );
  let written = start.elapsed();
  let start = Instant::now();
  let read = host.read_file("large", 0, u64::MAX);
  println!("{} MiB in {written:?}, out {:?}", many_bytes() >> 20, start.elapsed());
  assert!(read.output == contents);
}

#[test]
fn many_operations_at_once_and_one_that_nobody_reads() {
  let (_container, mut host) = resident(&Profile::default());
  host.greedy = false;
  let unread = host.spawn(&["yes"], |_| {});
  host.until(|host| host.operations[&unread].output.len() == WINDOW as usize);
  host.read_for(Duration::from_millis(100));
  assert_eq!(host.operations[&unread].output.len(), WINDOW as usize);
  let operations: Vec<_> =
    (0..10).map(|n| host.spawn(&["sh", "-c", &format!("sleep 0.1; echo {n}")], |_| {})).collect();
  for (n, op) in operations.into_iter().enumerate() {
    assert_eq!(host.finish(op).text(), format!("{n}\n"));
  }
  assert_eq!(host.write_file("x", b"x").done, Some(Reply::Written(Written { size: 1 })));
  host.send(unread, &ToInside::Cancel);
  host.until(|host| host.operations[&unread].exited.is_some());
  assert_eq!(host.operations[&unread].exited.map(|end| end.how), Some(How::Cancelled));
  // It is gone, but what its pipe held is still on offer.
  assert_eq!(host.operations[&unread].done, None);
  host.greedy = true;
  host.send(unread, &ToInside::Credit(Credit { stream: Stream::Output, limit: 1 << 30 }));
  let outcome = host.finish(unread);
  assert!(outcome.output.len() >= WINDOW as usize + 4096, "{}", outcome.output.len());
}

#[test]
fn too_many_operations_are_refused_and_numbers_are_free_after_the_acknowledgement() {
  let (_container, mut host) = resident(&Profile { memory: 512 << 20, ..Profile::default() });
  let path = RelativePath::new(b"waiting").unwrap();
  let request = ToInside::WriteFile(WriteFile { mode: 0o600, size: 1, overwrite: true, path });
  let waiting: Vec<_> = (0..MAX_ACTIVE).map(|_| host.open(&request)).collect();
  let refused = host.open(&request);
  host.until(|host| host.operations[&refused].done.is_some());
  assert_eq!(host.operations[&refused].failure(), Failure::TooMany);
  for op in &waiting {
    host.send(*op, &ToInside::Cancel);
  }
  for op in waiting {
    assert_eq!(host.finish(op).failure(), Failure::Cancelled);
  }
  host.send(
    3,
    &ToInside::Exec(Exec {
      window: WINDOW,
      timeout_ms: 0,
      max_stdout: 1,
      max_stderr: 1,
      stdin: false,
      cwd: RelativePath::WORKSPACE,
      argv: StringsBuf::of(["true"]).unwrap().view(),
      env: Strings::EMPTY,
    }),
  );
  host.until(|host| host.operations.get(&3).is_some_and(|outcome| outcome.done.is_some()));
  host.send(3, &ToInside::SelfTest);
  host.until(|host| host.notices.contains(&(Notice::Ignored, 1)));
  host.send(3, &ToInside::Ack);
  host.operations.remove(&3);
  host.operations.insert(3, resident::Outcome::default());
  host.send(3, &ToInside::SelfTest);
  assert_eq!(host.finish(3).done, Some(Reply::SelfTest(SelfTest { tried: 0x7f, succeeded: 0 })));
}

#[test]
fn the_workspace_goes_out_as_a_tar_and_in_again() {
  let (_container, mut host) = resident(&Profile::default());
  host.sh("mkdir -p a/b; echo hello >a/b/f; ln a/b/f hard; ln -s a/b soft; mkfifo pipe; echo z >zero; chmod 000 zero; mkdir shut; echo in >shut/in; chmod 000 shut; chmod 0751 a");
  let request = TarOut { window: WINDOW, max_bytes: 1 << 20, max_entries: 100 };
  let op = host.open(&ToInside::TarOut(request));
  let tar = host.finish(op);
  assert_eq!(tar.done, Some(Reply::Tar(TarDone { bytes: tar.output.len() as u64, entries: 8, skipped: 1 })));
  assert_eq!(host.sh("stat -c %a zero shut").text(), "0\n0\n");
  let op = host.open(&ToInside::TarOut(TarOut { max_bytes: 4000, ..request }));
  assert_eq!(host.finish(op).failure(), Failure::TooLarge);
  let (_other, mut into) = resident(&Profile::default());
  let op = into.open(&ToInside::TarIn(TarIn { max_bytes: 1 << 20, max_entries: 100 }));
  into.feed(op, &tar.output);
  assert!(matches!(into.finish(op).done, Some(Reply::Tar(TarDone { entries: 8, .. }))));
  let state = "cat a/b/f hard soft/f shut/in; stat -c '%n %a %h' a a/b/f zero shut; readlink soft";
  assert_eq!(
    into.sh(state).text(),
    "hello\nhello\nhello\nin\na 751 1\na/b/f 644 2\nzero 0 1\nshut 700 1\na/b\n"
      .replace("a 751 1", "a 751 3")
      .replace("shut 700 1", "shut 700 2")
  );
  let op = into.open(&ToInside::TarIn(TarIn { max_bytes: 1 << 20, max_entries: 100 }));
  into.feed(op, &[1; 1024]);
  assert_eq!(into.finish(op).failure(), Failure::BadArchive);
}

#[test]
fn a_sparse_giant_is_refused_and_reads_as_what_it_is() {
  let (_container, mut host) = resident(&Profile::default());
  host.sh(
    "truncate -s 7G giant 2>/dev/null || dd if=/dev/zero of=giant bs=1 count=0 seek=7516192768 2>/dev/null",
  );
  let op = host.open(&ToInside::TarOut(TarOut { window: WINDOW, max_bytes: 64 << 20, max_entries: 100 }));
  assert_eq!(host.finish(op).failure(), Failure::TooLarge);
  assert_eq!(host.read_file("giant", 7 << 30, 10).output, b"");
  assert_eq!(host.read_file("giant", (7 << 30) - 2, 10).output, b"\0\0");
}

#[test]
fn holes_go_out_as_zeros_and_come_back_as_holes() {
  let (_container, mut host) = resident(&Profile::default());
  let make = "truncate -s 20M empty; truncate -s 20M file; dd if=/dev/urandom of=file bs=4k count=3 seek=1000 conv=notrunc 2>/dev/null";
  let look = "stat -c '%n %s %b' empty file; md5sum empty file";
  let before = host.sh(&format!("{make}; {look}")).text();
  assert!(before.starts_with("empty 20971520 0\nfile 20971520 24\n"), "{before}");
  let op = host.open(&ToInside::TarOut(TarOut { window: WINDOW, max_bytes: 64 << 20, max_entries: 100 }));
  let tar = host.finish(op).output;
  // There is not the room for them.
  let (_other, mut into) = resident(&Profile { tmpfs_mib: 4, ..Profile::default() });
  let op = into.open(&ToInside::TarIn(TarIn { max_bytes: 64 << 20, max_entries: 100 }));
  into.feed(op, &tar);
  assert!(matches!(into.finish(op).done, Some(Reply::Tar(TarDone { entries: 2, .. }))));
  assert_eq!(into.sh(look).text(), before);
  // What they might hold counts all the same.
  let op = into.open(&ToInside::TarIn(TarIn { max_bytes: 30 << 20, max_entries: 100 }));
  into.feed(op, &tar);
  assert_eq!(into.finish(op).failure(), Failure::BadArchive);
  assert_eq!(into.sh(look).text(), before);
}

#[test]
fn a_new_holder_takes_over_what_a_dead_one_left() {
  let (container, mut first) = resident(&Profile::default());
  let finished = first.spawn(&["echo", "done"], |_| {});
  first.until(|host| host.operations[&finished].done.is_some());
  let running = first.spawn(&["sh", "-c", "read x; echo got $x"], |exec| exec.stdin = true);
  first.until(|host| host.operations[&running].started.is_some());
  // It dies in the midst of a frame.
  let mut half = Vec::new();
  ToInside::Data(Data { stream: Stream::Input, offset: 0, bytes: &[b'x'; 5000] })
    .encode(&first.encoder, running, &mut half)
    .unwrap();
  first.stdio.write(&half[..2000]);
  drop(first);

  let mut stranger = Host::new(container.attach(), 0xB1, 5);
  stranger.stdio.write(&vec![0; PREAMBLE]);
  stranger.greet(Token([8; 32]), 0);
  assert_eq!(stranger.refused, Some(Refusal::Token));
  drop(stranger);
  let mut late = Host::new(container.attach(), 0xB2, 1);
  late.greet(TOKEN, 0);
  assert_eq!(late.refused, Some(Refusal::Fence));
  drop(late);

  let mut second = Host::new(container.attach(), 0xC1, 2);
  second.greet(TOKEN, 0);
  let mut operations = second.welcome.clone().unwrap().operations;
  operations.sort_by_key(|operation| operation.op);
  let expected = [
    ActiveOperation { op: finished, kind: Kind::Exec, done: true, passed: [0, 5, 0] },
    ActiveOperation { op: running, kind: Kind::Exec, done: false, passed: [0, 0, 0] },
  ];
  assert_eq!(operations, expected);
  second.until(|host| host.operations.get(&finished).is_some_and(|outcome| outcome.done.is_some()));
  assert_eq!(second.operations[&finished].how(), How::Exited(0));
  second.send(running, &ToInside::Data(Data { stream: Stream::Input, offset: 0, bytes: b"it\n" }));
  second.operations.insert(running, resident::Outcome::default());
  let outcome = second.finish(running);
  assert_eq!((outcome.how(), outcome.text().as_str()), (How::Exited(0), "got it\n"));
  assert!(
    second.notices.iter().any(|(notice, count)| *notice == Notice::Garbage && *count >= 2000)
      || second.notices.is_empty()
  );
}

#[test]
fn a_shutdown_ends_the_container() {
  let (container, mut host) = resident(&Profile::default());
  host.spawn(&["sleep", "30"], |_| {});
  host.send(0, &ToInside::Shutdown);
  assert_eq!(container.wait(), 0);
}

#[test]
fn garbage_on_the_stream_is_counted_and_nothing_more() {
  let (_container, mut host) = resident(&Profile::default());
  host.stdio.write(&[0xF5; 3000]);
  host.stdio.write(b"not a frame");
  assert_eq!(host.run(&["echo", "on"]).text(), "on\n");
  let skipped: u64 =
    host.notices.iter().filter(|notice| notice.0 == Notice::Garbage).map(|notice| notice.1).sum();
  assert_eq!(skipped, 3011);
}

#[test]
fn nobody_in_the_container_reaches_process_1() {
  let (container, mut host) = resident(&Profile::default());
  for script in [
    "echo x > /proc/1/fd/1",
    "echo x > /proc/1/fd/0",
    "cat /proc/1/environ",
    "cat /proc/1/maps",
    "ls /proc/1/fd/",
    "cat /proc/1/mem",
    "cat /proc/1/exe > /dev/null",
    "cat /.sandbox/supervisor > /workspace/copy && false",
    "echo 500 > /proc/1/oom_score_adj",
    "renice -n 19 -p 1",
  ] {
    let outcome = host.sh(script);
    assert_ne!(outcome.how(), How::Exited(0), "{script}: {}", outcome.text());
  }
  for signal in 1..=64 {
    if ![32, 33].contains(&signal) {
      host.sh(&format!("kill -{signal} 1"));
    }
  }
  // Its own domain or its own tag: what it kills is itself.
  host.sh("kill -9 -1");
  assert_eq!(host.run(&["echo", "alive"]).text(), "alive\n");
  assert!(container.is_running());
}

#[test]
fn round_trips_and_commands_are_quick() {
  let (_container, mut host) = resident(&Profile::default());
  let mut trips: Vec<_> = (0..2000)
    .map(|number| {
      let start = Instant::now();
      host.send(0, &ToInside::Heartbeat(number));
      host.until(|host| host.heartbeats.len() > number as usize);
      start.elapsed()
    })
    .collect();
  let mut inside = Vec::new();
  let mut commands: Vec<_> = (0..1000)
    .map(|_| {
      let start = Instant::now();
      let outcome = host.run(&["/bin/true"]);
      assert_eq!(outcome.how(), How::Exited(0));
      inside.push(Duration::from_micros(outcome.exited.unwrap().micros));
      start.elapsed()
    })
    .collect();
  host.write_file("small", &[1; 1024]);
  let mut reads: Vec<_> = (0..1000)
    .map(|_| {
      let start = Instant::now();
      assert_eq!(host.read_file("small", 0, 4096).output.len(), 1024);
      start.elapsed()
    })
    .collect();
  let mut writes: Vec<_> = (0..1000)
    .map(|_| {
      let start = Instant::now();
      host.write_file("small", &[1; 1024]);
      start.elapsed()
    })
    .collect();
  for (what, times) in [
    ("round trip", &mut trips),
    ("/bin/true", &mut commands),
    ("/bin/true, inside", &mut inside),
    ("read 1 KiB", &mut reads),
    ("write 1 KiB", &mut writes),
  ] {
    times.sort();
    println!("{what}: p50 {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
    assert!(times[times.len() / 2] < HANG);
  }
}

/// A number of `/proc/1/status`, which stays readable.
fn status(host: &mut Host, field: &str) -> i64 {
  let text = host.run(&["grep", field, "/proc/1/status"]).text();
  text.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn thousands_of_commands_leave_neither_memory_nor_descriptors_behind() {
  let (_container, mut host) = resident(&Profile::default());
  let mut run = |count| {
    for number in 0..count {
      assert_eq!(host.run(&["/bin/echo", "x"]).text(), "x\n");
      host.write_file("file", b"contents");
      host.list("", 2, 10);
      if number % 10 == 0 {
        let op = host.spawn(&["yes"], |exec| exec.max_stdout = 1000);
        assert_eq!(host.finish(op).how(), How::OutputLimit);
      }
    }
    (status(&mut host, "VmRSS"), status(&mut host, "FDSize"))
  };
  let (memory, descriptors) = run(100);
  let after = run(1500);
  assert_eq!(after.1, descriptors);
  assert!(after.0 <= memory + 64, "{memory} KiB became {} KiB", after.0);
}
