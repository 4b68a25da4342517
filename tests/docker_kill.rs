//! How the Docker client ends a command's processes: when it looks, when it starts the killing script, and what it says
//! when that cannot be done.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::engine::Permit;
use sandbox_docker::docker::{Engine, ExecEnd, ExecOutput, ExecRequest};
use sandbox_docker::error::{Error, ErrorCode, Result};

use support::replies::*;
use support::scripted_engine::{Act, Gate, Script, ScriptedEngine};
use support::{client, command, must_end};

const KILL_START: &str = "/exec/k1/start";
const KILL_INSPECT: &str = "/exec/k1/json";
const TOP: &str = "/containers/c1/top";
const STATS: &str = "/containers/c1/stats";
const UPDATE: &str = "/containers/c1/update";

/// A command whose processes are to be ended.
fn owned() -> ExecRequest {
  ExecRequest { skip_terminate: false, ..command(&["work"]) }
}

/// An engine that runs the command as `e1` and the killing script as `k1`.
fn engine(start: Vec<Act>, inspect: Vec<Act>) -> Script {
  let execs = AtomicUsize::new(0);
  Script::new()
    .on_seen("POST", EXEC_CREATE, move |_seen| {
      let id = if execs.fetch_add(1, Ordering::Relaxed) == 0 { "e1" } else { "k1" };
      reply(201, &format!(r#"{{"Id":"{id}"}}"#))
    })
    .on("POST", EXEC_START, start)
    .on("GET", EXEC_INSPECT, inspect)
    .on("POST", KILL_START, streamed(101, &[]))
    .on("GET", KILL_INSPECT, exec_exited(0))
    .on("GET", INSPECT, container("running"))
}

async fn run(engine: &ScriptedEngine, request: ExecRequest) -> Result<ExecOutput> {
  must_end(client(engine).exec(CONTAINER, request)).await
}

fn kills(engine: &ScriptedEngine) -> usize {
  engine.calls().iter().filter(|call| call.ends_with(KILL_START)).count()
}

fn hanging() -> Vec<Act> {
  vec![Act::Write([stream_head(101), frame(1, b"early")].concat()), Act::Hang]
}

#[tokio::test]
async fn a_command_that_gets_no_permit_once_it_was_created_is_not_started_and_nothing_is_killed() {
  for paused in ["running", "paused"] {
    let engine = engine(streamed(101, &[]), exec_exited(0)).on("GET", INSPECT, container(paused)).serve();
    let refused: Permit =
      Arc::new(|| async { Err(Error::new(ErrorCode::Conflict, "another holder".to_owned())) }.boxed());
    let error = run(&engine, ExecRequest { permit: Some(refused), ..owned() }).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (ErrorCode::Conflict, "another holder"), "{paused}");
    assert_eq!(engine.calls(), [format!("POST {EXEC_CREATE}")], "{paused}");
  }
  let rows = [["10", "1", "10", "sh -c wait"]];
  let engine = engine(streamed(101, &[]), exec_exited(0)).on("GET", TOP, top(&rows)).serve();
  let granted: Permit = Arc::new(|| async { Ok(()) }.boxed());
  let output = run(&engine, ExecRequest { permit: Some(granted), ..owned() }).await.unwrap();
  assert_eq!(output.exit_code, Some(0));
}

#[tokio::test]
async fn a_process_list_without_the_command_saves_the_script() {
  let rows = [["10", "1", "10", "sh -c wait"], ["60", "1", "60", "other ZHIVEX_EXEC_ID=0123"]];
  let engine = engine(streamed(101, &[]), exec_exited(0)).on("GET", TOP, top(&rows)).serve();
  assert_eq!(run(&engine, owned()).await.unwrap().exit_code, Some(0));
  assert_eq!(kills(&engine), 0);
  // All of the session ids, marks and texts are asked for at once.
  assert!(engine.request("GET", TOP).path.ends_with("?ps_args=axe%20-o%20pid%2Cppid%2Csid%2Cargs%20-ww"));
}

#[tokio::test]
async fn a_leftover_or_an_unknown_process_list_starts_the_script_with_the_commands_mark() {
  let session = top(&[["10", "1", "10", "sh"], ["4250", "10", "4242", "sleep 300"]]);
  for (list, orphans) in [(session, true), (error(409, "is not running"), false), (error(500, "ps"), false)] {
    let engine = engine(streamed(101, &[]), exec_exited(0)).on("GET", TOP, list).serve();
    assert_eq!(run(&engine, owned()).await.unwrap().exit_code, Some(0));
    assert_eq!(kills(&engine), 1);
    let creates: Vec<_> =
      engine.requests().iter().filter(|seen| seen.path == EXEC_CREATE).map(|s| s.json()).collect();
    let mark = creates[0]["Env"][0].as_str().unwrap();
    assert!(mark.starts_with("ZHIVEX_EXEC_ID=") && mark.len() == 15 + 32, "{mark}");
    let script = creates[1]["Cmd"].as_array().unwrap();
    assert_eq!((&script[0], &script[1], &script[4]), (&"/bin/sh".into(), &"-c".into(), &mark.into()));
    assert_eq!(script[7].as_str().unwrap().is_empty(), !orphans);
    // The script itself must not look like the command.
    assert_eq!(creates[1]["Env"], serde_json::json!([]));
  }
}

#[tokio::test]
async fn the_time_limit_the_cap_and_cancellation_start_the_script_and_close_the_stream_before() {
  let cancel = Cancel::new();
  let limited = ExecRequest { timeout: Duration::from_millis(200), ..owned() };
  let capped = ExecRequest { max_output_bytes: 4, ..owned() };
  let cancelled = ExecRequest { cancel: cancel.clone(), ..owned() };
  for (request, end) in
    [(limited, Some(ExecEnd::TimedOut)), (capped, Some(ExecEnd::Truncated)), (cancelled, None)]
  {
    let (read, closed) = (Gate::new(), Gate::new());
    let start = vec![
      Act::Write([stream_head(101), frame(1, b"early")].concat()),
      Act::Open(read.clone()),
      Act::ReadToEnd,
      Act::Open(closed.clone()),
    ];
    // The script starts only when the engine saw the end of the command's stream.
    let kill = [vec![Act::Wait(closed)], streamed(101, &[])].concat();
    let engine = engine(start, exec_exited(137)).on("POST", KILL_START, kill).serve();
    let running = run(&engine, request);
    let result = match end {
      Some(_) => running.await,
      None => {
        tokio::join!(running, async {
          read.passed().await;
          cancel.cancel()
        })
        .0
      }
    };
    match end {
      Some(end) => {
        let output = result.unwrap();
        assert_eq!((output.end, output.exit_code), (end, Some(137)));
      }
      None => assert_eq!(result.unwrap_err().code(), ErrorCode::Cancelled),
    }
    assert_eq!(kills(&engine), 1);
  }
}

/// Docker Engine 20.10 has 126 for a command that was writing when its stream was closed, although a signal ended it.
#[tokio::test]
async fn the_code_of_a_command_that_was_cut_off_is_that_of_the_kill_and_not_of_the_hanging_up() {
  let limited = || ExecRequest { timeout: Duration::from_millis(200), ..owned() };
  let capped = || ExecRequest { max_output_bytes: 4, ..owned() };
  for (request, told, code) in [
    (limited(), 126, 137),
    (capped(), 126, 137),
    // It had ended by itself before the kill.
    (capped(), 5, 5),
  ] {
    let engine = engine(hanging(), exec_exited(told)).serve();
    assert_eq!(run(&engine, request).await.unwrap().exit_code, Some(code));
  }
  // Nobody hung up: it is the command's own.
  let none = top(&[["10", "1", "10", "sh -c wait"]]);
  let engine = engine(streamed(101, &[]), exec_exited(126)).on("GET", TOP, none).serve();
  assert_eq!(run(&engine, owned()).await.unwrap().exit_code, Some(126));
}

/// An engine answers before it starts a command; the script would find nothing, and the command start after it.
#[tokio::test]
async fn what_has_not_started_yet_is_waited_for() {
  let unstarted = || reply(200, r#"{"ID":"e1","Running":false,"ExitCode":null,"Pid":0}"#);
  let starting = || reply(200, r#"{"ID":"e1","Running":true,"ExitCode":null,"Pid":0}"#);
  // Answered, and still without an answer.
  for answered in [true, false] {
    let cancel = Cancel::new();
    let begun = Gate::new();
    let head = if answered { vec![Act::Write(stream_head(101))] } else { Vec::new() };
    let start = [head, vec![Act::Open(begun.clone()), Act::Hang]].concat();
    let states = vec![unstarted(), starting(), exec_running()];
    let engine = engine(start, Vec::new()).on_each("GET", EXEC_INSPECT, states).serve();
    let running = run(&engine, ExecRequest { cancel: cancel.clone(), ..owned() });
    let (result, ()) = tokio::join!(running, async {
      begun.passed().await;
      cancel.cancel()
    });
    assert_eq!(result.unwrap_err().code(), ErrorCode::Cancelled);
    let calls = engine.calls();
    let killed = calls.iter().position(|call| call.ends_with(KILL_START)).unwrap();
    let asked = calls[..killed].iter().filter(|call| call.ends_with(EXEC_INSPECT)).count();
    assert_eq!(asked, 3, "{calls:?}");
  }
}

#[tokio::test]
async fn a_cancelled_call_starts_nothing_and_one_that_was_not_created_kills_nothing() {
  let cancel = Cancel::new();
  cancel.cancel();
  let engine_ = engine(hanging(), exec_running()).serve();
  let error = run(&engine_, ExecRequest { cancel, ..owned() }).await.unwrap_err();
  assert_eq!((error.code(), engine_.requests().len()), (ErrorCode::Cancelled, 0));

  let cancel = Cancel::new();
  let (begun, hung) = (Gate::new(), Script::new());
  let hung = hung.on("POST", EXEC_CREATE, vec![Act::Open(begun.clone()), Act::Hang]).serve();
  let running = run(&hung, ExecRequest { cancel: cancel.clone(), ..owned() });
  let (result, ()) = tokio::join!(running, async {
    begun.passed().await;
    cancel.cancel()
  });
  assert_eq!((result.unwrap_err().code(), hung.requests().len()), (ErrorCode::Cancelled, 1));
}

#[tokio::test]
async fn a_start_that_may_have_happened_is_killed() {
  let engine = engine(vec![Act::Close], exec_running()).serve();
  let error = run(&engine, owned()).await.unwrap_err();
  assert!(error.message().contains("it may or may not have acted on it"), "{error}");
  assert_eq!(kills(&engine), 1);
}

#[tokio::test]
async fn what_the_engine_forgot_is_killed_before_the_call_fails() {
  let forgot = error(404, "No such exec instance");
  let engine = engine(streamed(101, &[]), forgot).serve();
  let error = run(&engine, owned()).await.unwrap_err();
  assert!(error.message().contains("The end of a command was lost"), "{error}");
  assert_eq!(kills(&engine), 1);
}

#[tokio::test]
async fn a_container_that_ended_has_nothing_to_kill() {
  for inspect in [container("exited"), error(404, "No such container")] {
    let engine = Script::new()
      .on_each("POST", EXEC_CREATE, vec![reply(201, r#"{"Id":"e1"}"#), error(409, "is not running")])
      .on("POST", EXEC_START, streamed(101, &[frame(1, b"x")]))
      .on("GET", EXEC_INSPECT, exec_exited(137))
      .on("GET", TOP, error(409, "is not running"))
      .on("GET", INSPECT, inspect)
      .serve();
    let output = run(&engine, owned()).await.unwrap();
    assert_eq!((output.exit_code, output.end), (Some(137), ExecEnd::Finished));
  }
}

#[tokio::test]
async fn a_container_that_was_paused_meanwhile_keeps_the_time_limit() {
  let engine = Script::new()
    .on_each("POST", EXEC_CREATE, vec![reply(201, r#"{"Id":"e1"}"#), error(409, "is paused")])
    .on("POST", EXEC_START, hanging())
    .on("GET", EXEC_INSPECT, exec_running())
    .on("GET", INSPECT, container("paused"))
    .serve();
  let begun = std::time::Instant::now();
  let error = run(&engine, ExecRequest { timeout: Duration::from_millis(300), ..owned() }).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::DockerApi);
  assert!(error.message().contains("it is paused"), "{error}");
  assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn without_grep_or_a_free_process_the_shell_does_it_alone() {
  for code in [2, 3, 126] {
    let scripts = Arc::new(AtomicUsize::new(0));
    let counted = scripts.clone();
    let engine = engine(hanging(), exec_exited(137))
      .on_seen("GET", KILL_INSPECT, move |_seen| {
        exec_exited(if counted.fetch_add(1, Ordering::Relaxed) == 0 { code } else { 0 })
      })
      .serve();
    let output = run(&engine, ExecRequest { timeout: Duration::from_millis(200), ..owned() }).await.unwrap();
    assert_eq!((output.exit_code, output.end), (Some(137), ExecEnd::TimedOut));
    let modes: Vec<_> = engine
      .requests()
      .iter()
      .filter(|seen| seen.path == EXEC_CREATE)
      .skip(1)
      .map(|s| s.json()["Cmd"][8].clone())
      .collect();
    assert_eq!(modes, ["", "1"]);
  }
}

#[tokio::test]
async fn a_used_up_process_limit_is_raised_for_the_script_and_restored() {
  let updates = Arc::new(AtomicUsize::new(0));
  let (raised, counted) = (updates.clone(), updates.clone());
  let engine = engine(hanging(), exec_exited(137))
    .on_seen("POST", KILL_START, move |_seen| match raised.load(Ordering::Relaxed) {
      0 => error(500, "pthread_create failed: Resource temporarily unavailable"),
      _ => streamed(101, &[]),
    })
    .on("GET", STATS, reply(200, r#"{"pids_stats":{"current":64,"limit":64}}"#))
    .on_seen("POST", UPDATE, move |_seen| {
      counted.fetch_add(1, Ordering::Relaxed);
      reply(200, r#"{"Warnings":[]}"#)
    })
    .serve();
  let output = run(&engine, ExecRequest { timeout: Duration::from_millis(200), ..owned() }).await.unwrap();
  assert_eq!((output.exit_code, output.end), (Some(137), ExecEnd::TimedOut));
  let limits: Vec<_> =
    engine.requests().iter().filter(|seen| seen.path == UPDATE).map(|seen| seen.json()).collect();
  assert_eq!(limits, [serde_json::json!({ "PidsLimit": 96 }), serde_json::json!({ "PidsLimit": 64 })]);
}

#[tokio::test]
async fn processes_that_cannot_be_killed_are_an_error_that_says_so() {
  for (kill, part) in
    [(exec_exited(1), "ended with exit code 1)"), (exec_exited(127), "ended with exit code 127)")]
  {
    let engine = engine(hanging(), exec_running())
      .on("GET", KILL_INSPECT, kill)
      .on("GET", STATS, reply(200, r#"{"pids_stats":{"current":3,"limit":64}}"#))
      .serve();
    let error =
      run(&engine, ExecRequest { timeout: Duration::from_millis(100), ..owned() }).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::DockerApi);
    assert!(error.message().contains(part) && error.message().contains("may still run"), "{error}");
  }
}

#[tokio::test]
async fn an_engine_that_no_longer_answers_does_not_hold_the_call() {
  let engine = Script::new()
    .on_each("POST", EXEC_CREATE, vec![reply(201, r#"{"Id":"e1"}"#), vec![Act::Hang]])
    .on("POST", EXEC_START, hanging())
    .on("GET", EXEC_INSPECT, vec![Act::Hang])
    .on("GET", INSPECT, vec![Act::Hang])
    .serve();
  let begun = std::time::Instant::now();
  let error = run(&engine, ExecRequest { timeout: Duration::from_millis(200), ..owned() }).await.unwrap_err();
  assert!(error.message().contains("could not be killed"), "{error}");
  assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_command_that_says_that_it_left_nothing_is_believed_once_it_ended() {
  let clean = |mark: &str| ExecRequest {
    extra_stderr_bytes: 0,
    clean_mark: Some(mark.to_owned()),
    timeout: Duration::from_millis(300),
    ..owned()
  };
  let said = || streamed(101, &[frame(2, b"some"), frame(2, b"END;")]);
  let engine_ = engine(said(), exec_exited(0)).serve();
  run(&engine_, clean("END;")).await.unwrap();
  assert_eq!(kills(&engine_), 0);
  let forged = engine(said(), exec_running()).serve();
  assert_eq!(run(&forged, clean("END;")).await.unwrap().end, ExecEnd::TimedOut);
  assert_eq!(kills(&forged), 1);
  let silent = engine(said(), exec_exited(0)).on("GET", TOP, top(&[["1", "0", "4242", "left"]])).serve();
  run(&silent, clean("OTHER;")).await.unwrap();
  assert_eq!(kills(&silent), 1);
}
