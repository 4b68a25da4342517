//! Commands of the Docker client against an engine that speaks bytes: what the stream, the exit code and the ends of a
//! call come to when an engine cuts, delays, loses or refuses.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use sandbox_docker::docker::{Engine, ExecEnd, ExecOutput, Stdin};
use sandbox_docker::error::{Error, ErrorCode, Result};

use support::replies::*;
use support::scripted_engine::{Act, Gate, Script};
use support::{client, command, must_end};

/// Runs a command against a script.
async fn run(script: Script) -> Result<ExecOutput> {
  let engine = script.serve();
  must_end(client(&engine).exec(CONTAINER, command(&["true"]))).await
}

#[track_caller]
fn assert_output(output: &ExecOutput, stdout: &[u8], stderr: &[u8], exit_code: Option<i64>) {
  assert_eq!((output.exit_code, output.end), (exit_code, ExecEnd::Finished));
  assert!(output.stdout == stdout, "{} bytes of standard output", output.stdout.len());
  assert!(output.stderr == stderr, "{} bytes of standard error", output.stderr.len());
}

#[track_caller]
fn assert_error(result: Result<ExecOutput>, code: ErrorCode, part: &str) -> Error {
  let error = result.unwrap_err();
  assert_eq!(error.code(), code, "{error}");
  assert!(error.message().contains(part), "{error}");
  error
}

#[tokio::test]
async fn frames_give_the_same_bytes_however_they_are_cut() {
  let big: Vec<u8> = (0..70_000u32).map(|i| (i % 251) as u8).collect();
  let frames = [frame(1, b""), frame(2, b"e"), frame(1, &big)].concat();
  for status in [101, 200] {
    let whole = [stream_head(status), frames.clone()].concat();
    for length in [1, 7, 8, 9, whole.len()] {
      // The command ends with its output: a slow machine must not make it look held open.
      let ended = Gate::new();
      let start = vec![Act::Cut(whole.clone(), length), Act::Open(ended.clone()), Act::Close];
      let inspect = [vec![Act::Wait(ended)], exec_exited(0)].concat();
      let output = run(one_exec(start, inspect)).await.unwrap();
      assert_output(&output, &big, b"e", Some(0));
    }
  }
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_put_together() {
  let whole = [stream_head(101), frame(1, b"out"), frame(2, b""), frame(2, b"err"), frame(1, b"\n")].concat();
  for at in 1..whole.len() {
    let (first, second) = whole.split_at(at);
    let start = vec![Act::Cut(first.to_vec(), at), Act::Write(second.to_vec()), Act::Close];
    let output = run(one_exec(start, exec_exited(7))).await.unwrap();
    assert_output(&output, b"out\n", b"err", Some(7));
  }
}

#[tokio::test]
async fn no_byte_is_added_to_output_or_taken_from_it() {
  for text in [&b"a"[..], b"a\n", b"\n\n", b"a\r\nb", b"\0\xff", b""] {
    let output = run(one_exec(streamed(200, &[frame(1, text)]), exec_exited(0))).await.unwrap();
    assert_output(&output, text, b"", Some(0));
  }
}

#[tokio::test]
async fn what_is_no_frame_is_an_error_and_no_wait() {
  let cases: [(&[u8], &str); 6] = [
    (&[7, 0, 0, 0, 0, 0, 0, 1, b'x'], "no stream header"),
    (&[1, 0, 9, 0, 0, 0, 0, 1, b'x'], "no stream header"),
    (&[3, 0, 0, 0, 0, 0, 0, 1, b'x'], "broke the stream off"),
    (b"plain text, for a TTY was set", "no stream header"),
    (&[1, 0, 0, 0, 0], "after 5 of the 8 bytes"),
    (&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], "4294967295 bytes before the end"),
  ];
  for (bytes, part) in cases {
    let error = run(one_exec(streamed(101, &[bytes.to_vec()]), exec_exited(0))).await;
    assert_error(error, ErrorCode::DockerApi, part);
  }
}

#[tokio::test]
async fn a_stream_in_a_coding_is_decoded_and_ends_with_it() {
  let frames = frame(1, b"hello");
  let head = |field: &str| format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n").into_bytes();
  let chunks = [b"4\r\n".as_slice(), &frames[..4], b"\r\n9\r\n", &frames[4..], b"\r\n0\r\n\r\n"].concat();
  let coded = [
    [head("Transfer-Encoding: chunked"), chunks.clone()].concat(),
    [head("Content-Length: 13"), frames.clone(), b"not of it".to_vec()].concat(),
  ];
  for reply in coded {
    for length in [1, reply.len()] {
      // The connection stays open: the coding says where the end is.
      let start = vec![Act::Cut(reply.clone(), length), Act::Hang];
      let output = run(one_exec(start, exec_exited(0))).await.unwrap();
      assert_output(&output, b"hello", b"", Some(0));
    }
  }
  let cut = vec![
    [head("Transfer-Encoding: chunked"), chunks[..chunks.len() - 5].to_vec()].concat(),
    [head("Content-Length: 14"), frames].concat(),
  ];
  for reply in cut {
    let start = vec![Act::Write(reply), Act::Close];
    assert_error(
      run(one_exec(start, exec_exited(0))).await,
      ErrorCode::DockerApi,
      "stream of a command was lost",
    );
  }
}

#[tokio::test]
async fn heads_before_the_real_one_are_passed_over_within_a_bound() {
  let early = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(3);
  let start = vec![Act::Write([early, stream_head(101), frame(1, b"x")].concat()), Act::Close];
  assert_output(&run(one_exec(start, exec_exited(0))).await.unwrap(), b"x", b"", Some(0));
  for endless in [b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000), vec![b'H'; 1 << 20], {
    [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat()
  }] {
    let start = vec![Act::Write(endless), Act::Hang];
    assert_error(
      run(one_exec(start, exec_exited(0))).await,
      ErrorCode::DockerApi,
      "broke off POST /exec/e1/start",
    );
  }
}

#[tokio::test]
async fn an_exit_before_the_end_of_the_output_loses_nothing() {
  let asked = Gate::new();
  let data = vec![b'x'; 1 << 20];
  let start = vec![
    Act::Write([stream_head(101), frame(1, b"first")].concat()),
    Act::Wait(asked.clone()),
    Act::Cut(frame(1, &data), 4096),
    Act::Close,
  ];
  let inspect = [exec_exited(5), vec![Act::Open(asked)]].concat();
  let output = run(one_exec(start, inspect)).await.unwrap();
  assert_output(&output, &[b"first".as_slice(), &data].concat(), b"", Some(5));
}

#[tokio::test]
async fn the_exit_code_is_waited_for_after_the_end_of_the_output() {
  let engine = Script::new()
    .on("POST", EXEC_CREATE, reply(201, r#"{"Id":"e1"}"#))
    .on("POST", EXEC_START, streamed(101, &[]))
    .on_each("GET", EXEC_INSPECT, vec![exec_running(), exec_running(), exec_exited(124)])
    .serve();
  let output = must_end(client(&engine).exec(CONTAINER, command(&["true"]))).await.unwrap();
  assert_output(&output, b"", b"", Some(124));
}

#[tokio::test]
async fn a_command_that_has_not_started_yet_has_not_ended() {
  let unstarted = || reply(200, r#"{"ID":"e1","Running":false,"ExitCode":null,"Pid":0}"#);
  let asked_again = Gate::new();
  let engine = Script::new()
    .on("POST", EXEC_CREATE, reply(201, r#"{"Id":"e1"}"#))
    .on(
      "POST",
      EXEC_START,
      vec![
        Act::Write(stream_head(101)),
        Act::Wait(asked_again.clone()),
        Act::Write(frame(1, b"late")),
        Act::Close,
      ],
    )
    .on_each(
      "GET",
      EXEC_INSPECT,
      vec![unstarted(), [exec_running(), vec![Act::Open(asked_again)]].concat(), unstarted(), exec_exited(7)],
    )
    .serve();
  let output = must_end(client(&engine).exec(CONTAINER, command(&["true"]))).await.unwrap();
  assert_output(&output, b"late", b"", Some(7));
}

#[tokio::test]
async fn a_stream_that_never_closes_ends_with_the_command_and_says_so() {
  let start = vec![Act::Write([stream_head(101), frame(1, b"out")].concat()), Act::Hang];
  let begun = Instant::now();
  let output = run(one_exec(start, exec_exited(3))).await.unwrap();
  assert_eq!((output.exit_code, output.end), (Some(3), ExecEnd::OutputHeld));
  assert_eq!(output.stdout, b"out");
  assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn an_exit_code_that_the_engine_does_not_know_is_none() {
  for state in [
    r#"{"Running":false,"ExitCode":null}"#,
    r#"{"Running":false}"#,
    r#"{"ID":"e1"}"#,
    r#"{"Running":false,"ExitCode":null,"Pid":0}"#,
  ] {
    let output = run(one_exec(streamed(101, &[frame(1, b"x")]), reply(200, state))).await.unwrap();
    assert_output(&output, b"x", b"", None);
  }
}

#[tokio::test]
async fn a_command_that_runs_on_after_its_output_meets_its_time_limit_without_an_exit_code() {
  let engine = one_exec(streamed(101, &[frame(1, b"x")]), exec_running()).serve();
  let mut limited = command(&["true"]);
  limited.timeout = Duration::from_millis(300);
  let output = must_end(client(&engine).exec(CONTAINER, limited)).await.unwrap();
  assert_eq!((output.exit_code, output.end), (None, ExecEnd::TimedOut));
  assert_eq!(output.stdout, b"x");
}

#[tokio::test]
async fn an_engine_that_was_restarted_lost_the_command() {
  let gone = || one_exec(streamed(101, &[frame(1, b"x")]), error(404, "No such exec instance: e1"));
  assert_error(run(gone()).await, ErrorCode::DockerApi, "The end of a command was lost");
  let mid_frame = [&stream_head(101)[..], &frame(1, b"a longer frame")[..12]].concat();
  let cut = one_exec(vec![Act::Write(mid_frame), Act::Close], error(404, "No such exec instance"));
  assert_error(run(cut).await, ErrorCode::DockerApi, "may have run, in part or whole");
}

#[tokio::test]
async fn a_silent_input_stays_open_and_a_given_one_is_ended() {
  let asked = Gate::new();
  let start = vec![Act::Write(stream_head(101)), Act::Wait(asked.clone()), Act::Probe, Act::Close];
  let engine = one_exec(start, [exec_exited(0), vec![Act::Open(asked)]].concat()).serve();
  must_end(client(&engine).exec(CONTAINER, command(&["true"]))).await.unwrap();
  let seen = engine.request("POST", EXEC_START);
  assert!(!engine.ended(seen.connection));
  assert_eq!(engine.request("POST", EXEC_CREATE).json()["AttachStdin"], false);

  for size in [0usize, 1, 1 << 20] {
    let input: Vec<u8> = (0..size).map(|i| (i % 253) as u8).collect();
    let start = vec![Act::Write(stream_head(101)), Act::ReadToEnd, Act::Write(frame(1, b"read")), Act::Close];
    let engine = one_exec(start, exec_exited(0)).serve();
    let mut fed = command(&["cat"]);
    fed.stdin = Stdin::Bytes(input.clone().into());
    assert_output(&must_end(client(&engine).exec(CONTAINER, fed)).await.unwrap(), b"read", b"", Some(0));
    let seen = engine.request("POST", EXEC_START);
    assert!(engine.ended(seen.connection));
    assert!(engine.raw(seen.connection) == input, "{size}");
    assert_eq!(engine.request("POST", EXEC_CREATE).json()["AttachStdin"], true);
  }
}

#[tokio::test]
async fn output_is_read_while_input_is_written() {
  let output = vec![b'o'; 8 << 20];
  let start = vec![Act::Write([stream_head(101), frame(1, &output)].concat()), Act::ReadToEnd, Act::Close];
  let engine = one_exec(start, exec_exited(0)).serve();
  let mut fed = command(&["cat"]);
  let pieces = stream::iter((0..8).map(|_| Ok(Bytes::from(vec![b'i'; 1 << 20]))));
  fed.stdin = Stdin::Stream(pieces.boxed());
  assert_output(&must_end(client(&engine).exec(CONTAINER, fed)).await.unwrap(), &output, b"", Some(0));
  assert_eq!(engine.raw(engine.request("POST", EXEC_START).connection).len(), 8 << 20);
}

#[tokio::test]
async fn the_time_limit_holds_while_input_is_not_taken() {
  let engine = one_exec(vec![Act::Write(stream_head(101)), Act::Hang], exec_running()).serve();
  let mut fed = command(&["sleep", "60"]);
  fed.stdin = Stdin::Bytes(vec![0; 64 << 20].into());
  fed.timeout = Duration::from_secs(1);
  let begun = Instant::now();
  let output = must_end(client(&engine).exec(CONTAINER, fed)).await.unwrap();
  assert_eq!((output.exit_code, output.end), (None, ExecEnd::TimedOut));
  assert!(begun.elapsed() >= Duration::from_secs(1) && begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn the_time_limit_covers_creating_and_starting() {
  let script = |create: Vec<Act>, start: Vec<Act>| {
    Script::new()
      .on("POST", EXEC_CREATE, create)
      .on("POST", EXEC_START, start)
      .on("GET", INSPECT, container("running"))
      .serve()
  };
  let created = || reply(201, r#"{"Id":"e1"}"#);
  for (engine, calls) in [
    (script(vec![Act::Hang], vec![]), 1),
    (script(created(), vec![Act::Hang]), 2),
    (script(created(), vec![Act::Write(b"HTTP/1.1 101 Sw".to_vec()), Act::Hang]), 2),
  ] {
    let mut limited = command(&["true"]);
    limited.timeout = Duration::from_millis(200);
    let begun = Instant::now();
    let result = must_end(client(&engine).exec(CONTAINER, limited)).await;
    assert_error(result, ErrorCode::Timeout, "container c1");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(engine.calls().len(), calls);
  }
}

#[tokio::test]
async fn the_longest_time_limit_is_no_overflow() {
  let engine = one_exec(streamed(101, &[]), exec_exited(0)).serve();
  let mut patient = command(&["true"]);
  patient.timeout = Duration::MAX;
  assert_output(&must_end(client(&engine).exec(CONTAINER, patient)).await.unwrap(), b"", b"", Some(0));
}

#[tokio::test]
async fn each_stream_has_its_own_cap_and_exactly_the_cap_is_not_too_much() {
  for (stream, other) in [(1, 2), (2, 1)] {
    for (length, end) in [(10, ExecEnd::Finished), (11, ExecEnd::Truncated)] {
      let frames = [frame(stream, &vec![b'x'; length]), frame(other, &[b'y'; 10])];
      // The stream of a command that was stopped is not waited for.
      let engine = one_exec(streamed(101, &frames), exec_exited(0)).serve();
      let mut capped = command(&["yes"]);
      capped.max_output_bytes = 10;
      let output = must_end(client(&engine).exec(CONTAINER, capped)).await.unwrap();
      assert_eq!(output.end, end);
      let (full, _rest) =
        if stream == 1 { (output.stdout, output.stderr) } else { (output.stderr, output.stdout) };
      assert_eq!(full, [b'x'; 10]);
    }
  }
}

#[tokio::test]
async fn a_hijacked_connection_carries_nothing_else() {
  let start = vec![Act::Write([stream_head(101), frame(1, b"x")].concat()), Act::Close];
  let engine = one_exec(start, exec_exited(0)).serve();
  let client = client(&engine);
  for _ in 0..3 {
    must_end(client.exec(CONTAINER, command(&["true"]))).await.unwrap();
  }
  let seen = engine.requests();
  let (starts, others): (Vec<_>, Vec<_>) = seen.iter().partition(|seen| seen.path == EXEC_START);
  assert_eq!((starts.len(), others.len()), (3, 6));
  for start in &starts {
    assert_eq!(seen.iter().filter(|seen| seen.connection == start.connection).count(), 1);
    assert!(start.head.contains("Upgrade: tcp"), "{}", start.head);
    assert_eq!(start.json(), serde_json::json!({ "Detach": false, "Tty": false }));
  }
  // The ordinary requests, one after the other, share one.
  assert!(others.iter().all(|seen| seen.connection == others[0].connection));
}

#[tokio::test]
async fn what_is_sent_to_create_a_command_is_exact() {
  let engine = one_exec(streamed(101, &[]), exec_exited(0)).serve();
  let mut request = command(&["printf", "%s", "ä\n"]);
  request.env = vec!["A=b=c".to_owned()];
  must_end(client(&engine).exec(CONTAINER, request)).await.unwrap();
  let expected = serde_json::json!({
    "AttachStdin": false, "AttachStdout": true, "AttachStderr": true, "Tty": false, "WorkingDir": "/workspace",
    "Env": ["A=b=c"], "Cmd": ["printf", "%s", "ä\n"], "User": "65534:65534",
  });
  assert_eq!(engine.request("POST", EXEC_CREATE).json(), expected);

  let mut own_user = command(&["true"]);
  own_user.user = String::new();
  let engine = one_exec(streamed(101, &[]), exec_exited(0)).serve();
  must_end(client(&engine).exec(CONTAINER, own_user)).await.unwrap();
  assert!(engine.request("POST", EXEC_CREATE).json().get("User").is_none());
}

#[tokio::test]
async fn a_container_that_cannot_run_commands_is_told_by_its_state() {
  let states: [(Vec<Act>, ErrorCode, &str); 4] = [
    (error(404, "No such container: c1"), ErrorCode::NotFound, "No such container"),
    (container("paused"), ErrorCode::DockerApi, "is paused"),
    (container("exited"), ErrorCode::DockerApi, "its state is exited"),
    (container("running"), ErrorCode::DockerApi, "the engine's own words"),
  ];
  for status in [409, 500] {
    for (inspect, code, part) in states.clone() {
      for at_start in [false, true] {
        let refusal = error(status, "the engine's own words");
        let (create, start) =
          if at_start { (reply(201, r#"{"Id":"e1"}"#), refusal) } else { (refusal, vec![]) };
        let script = Script::new().on("POST", EXEC_CREATE, create).on("POST", EXEC_START, start).on(
          "GET",
          INSPECT,
          inspect.clone(),
        );
        assert_error(run(script).await, code, part);
      }
    }
  }
  let missing = Script::new().on("POST", EXEC_CREATE, error(404, "No such container: c1")).on(
    "GET",
    INSPECT,
    error(404, "No such container: c1"),
  );
  assert_error(run(missing).await, ErrorCode::NotFound, "No such container: c1");
}

#[tokio::test]
async fn a_refused_start_keeps_the_engines_words_in_any_coding() {
  let text = r#"{"message":"exec was refused"}"#;
  let length = format!("HTTP/1.1 500 X\r\nContent-Length: {}\r\n\r\n{text}", text.len());
  let until_close = format!("HTTP/1.1 500 X\r\n\r\n{text}");
  let chunked =
    format!("HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
  let no_json = "HTTP/1.1 500 X\r\nContent-Length: 16\r\n\r\nexec was refused".to_owned();
  for (whole, closes) in [(length, false), (until_close, true), (chunked, false), (no_json, false)] {
    for cut in [1, whole.len()] {
      let end = if closes { Act::Close } else { Act::Hang };
      let start = vec![Act::Cut(whole.clone().into_bytes(), cut), end];
      assert_error(
        run(one_exec(start, vec![])).await,
        ErrorCode::DockerApi,
        "returned 500: exec was refused",
      );
    }
  }
  let empty = vec![Act::Write(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n".to_vec()), Act::Hang];
  assert_error(run(one_exec(empty, vec![])).await, ErrorCode::DockerApi, "gave no reason");
  let huge = [b"HTTP/1.1 500 X\r\n\r\n".to_vec(), vec![b'x'; 4 << 20]].concat();
  let error = assert_error(
    run(one_exec(vec![Act::Write(huge), Act::Hang], vec![])).await,
    ErrorCode::DockerApi,
    "returned 500: xxx",
  );
  assert!(error.message().chars().count() < 1_200);
}

#[tokio::test]
async fn a_connection_that_ends_before_the_head_is_an_error_that_says_what_is_unknown() {
  for head in [&b""[..], b"HTTP/1.1 10", b"not HTTP at all\r\n\r\n", b"HTTP/1.1 101 X\r\nA: b\r\n"] {
    let start = vec![Act::Write(head.to_vec()), Act::Close];
    let error = run(one_exec(start, exec_exited(0))).await;
    assert_error(error, ErrorCode::DockerApi, "it may or may not have acted on it");
  }
}

#[tokio::test]
async fn a_failing_source_of_input_is_the_error_of_the_call() {
  let engine = one_exec(vec![Act::Write(stream_head(101)), Act::Hang], exec_running()).serve();
  let mut fed = command(&["cat"]);
  let broken = Error::new(ErrorCode::SnapshotInvalid, "the snapshot is torn");
  fed.stdin = Stdin::Stream(stream::iter([Ok(Bytes::from_static(b"x")), Err(broken)]).boxed());
  let result = must_end(client(&engine).exec(CONTAINER, fed)).await;
  assert_error(result, ErrorCode::SnapshotInvalid, "the snapshot is torn");
}

#[tokio::test]
async fn a_command_that_does_not_read_its_input_is_no_error() {
  // The engine closes when some of the input lies unread in its socket.
  let asked = Gate::new();
  let start =
    vec![Act::Write(stream_head(101)), Act::Wait(asked.clone()), Act::Write(frame(1, b"x")), Act::Close];
  let engine = one_exec(start, [exec_exited(0), vec![Act::Open(asked)]].concat()).serve();
  let mut fed = command(&["true"]);
  fed.stdin = Stdin::Bytes(vec![0; 8 << 20].into());
  assert_output(&must_end(client(&engine).exec(CONTAINER, fed)).await.unwrap(), b"x", b"", Some(0));
}
