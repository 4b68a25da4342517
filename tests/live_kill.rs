//! That nothing of a command goes on, in containers of a real engine; see `support/live.rs` for what it needs.

mod support;

use std::time::{Duration, Instant};

use sandbox_docker::docker::{Engine, ExecEnd, ExecRequest};

use support::live::{Fixture, busybox, gnu, request, spec};
use support::must_end;

fn script(text: &str) -> ExecRequest {
  request(&["sh", "-c", text])
}

fn exclusive(text: &str) -> ExecRequest {
  ExecRequest { exclusive: true, ..script(text) }
}

fn limited(text: &str, millis: u64) -> ExecRequest {
  ExecRequest { timeout: Duration::from_millis(millis), ..script(text) }
}

/// A container with BusyBox, and one with GNU programs.
async fn both() -> [Fixture; 2] {
  [Fixture::start(&spec(busybox())).await, Fixture::start(&spec(gnu())).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn children_die_with_a_command_that_ended_whatever_they_did() {
  for fixture in both().await {
    for text in [
      "sleep 300 >/dev/null 2>&1 &",
      "setsid sleep 300 >/dev/null 2>&1 &",
      // Without a mark, in the session of a leader that is gone.
      "env -i sleep 300 >/dev/null 2>&1 &",
      "(env -i sh -c 'sleep 300; :' & ) >/dev/null 2>&1",
      "env -i sleep 300 &",
      "sh -c 'kill -STOP $$' >/dev/null 2>&1 &",
      "trap '' TERM HUP INT; sleep 300 >/dev/null 2>&1 &",
    ] {
      let output = fixture.run(script(text)).await;
      assert_eq!(output.exit_code, Some(0), "{text}");
      assert_eq!(fixture.processes().await, "", "{text}");
    }
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn descendants_die_with_a_command_at_its_time_limit_without_mark_or_session() {
  for fixture in both().await {
    for text in [
      "env -i setsid sh -c 'sleep 300; :' & wait",
      "env -i setsid env sleep 300 & setsid env -i sleep 301 & wait",
      "sh -c 'kill -STOP $$' & wait",
      "printf 'a) Z 1 1\\nb' >/proc/self/comm; sleep 300; :",
    ] {
      let output = fixture.run(limited(text, 500)).await;
      assert_eq!((output.exit_code, output.end), (Some(137), ExecEnd::TimedOut), "{text}");
      assert_eq!(fixture.processes().await, "", "{text}");
    }
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hides_altogether_dies_where_only_commands_run_and_lives_where_it_may_be_a_service() {
  for fixture in both().await {
    let hiding = "env -i setsid sleep 300 >/dev/null 2>&1 & exit 4";
    assert_eq!(fixture.run(script(hiding)).await.exit_code, Some(4));
    assert_eq!(fixture.processes().await, "sleep 300 \n");
    assert_eq!(fixture.run(exclusive("exit 5")).await.exit_code, Some(5));
    assert_eq!(fixture.processes().await, "");
    assert_eq!(fixture.run(exclusive(hiding)).await.exit_code, Some(4));
    assert_eq!(fixture.processes().await, "");
    let slow = ExecRequest { exclusive: true, ..limited(&format!("({hiding}); sleep 301"), 500) };
    assert_eq!(fixture.run(slow).await.end, ExecEnd::TimedOut);
    assert_eq!(fixture.processes().await, "");
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_still_runs_is_never_taken_for_a_leftover() {
  for fixture in both().await {
    let (client, id) = (fixture.client.clone(), fixture.id.clone());
    let text = "env -i setsid sh -c 'sleep 2; echo child' & sleep 2; wait; echo parent";
    let other = tokio::spawn(async move { client.exec(&id, exclusive(text)).await });
    while !fixture.processes().await.contains("sleep 2") {
      tokio::task::yield_now().await;
    }
    let hiding = "env -i setsid sleep 300 >/dev/null 2>&1 &";
    assert_eq!(fixture.run(exclusive(hiding)).await.exit_code, Some(0));
    let output = must_end(other).await.unwrap().unwrap();
    assert_eq!((output.exit_code, output.stdout.as_slice()), (Some(0), &b"child\nparent\n"[..]));
    assert_eq!(fixture.processes().await, "");
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_up_process_limit_does_not_protect_a_command() {
  let fill = "(while :; do sleep 300 & done) 2>/dev/null; sleep 301 & while :; do :; done";
  for fixture in both().await {
    for _ in 0..2 {
      let begun = Instant::now();
      let output = fixture.run(limited(fill, 1_500)).await;
      assert_eq!((output.exit_code, output.end), (Some(137), ExecEnd::TimedOut));
      assert!(begun.elapsed() < Duration::from_secs(8));
      assert_eq!(fixture.processes().await, "");
    }
    let inspection = fixture.client.inspect_container(&fixture.id).await.unwrap();
    assert_eq!(inspection.host_config.pids_limit, Some(64));
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_forks_without_end_is_killed() {
  let bomb = "(f() { f & f & wait; }; f) >/dev/null 2>&1 & while :; do :; done";
  for fixture in both().await {
    let output = fixture.run(limited(bomb, 800)).await;
    assert_eq!((output.exit_code, output.end), (Some(137), ExecEnd::TimedOut));
    assert_eq!(fixture.processes().await, "");
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_text_in_another_container_is_left_alone() {
  let [one, other] = both().await;
  let (client, id) = (other.client.clone(), other.id.clone());
  let theirs = tokio::spawn(async move { client.exec(&id, script("sleep 3; : needle; echo alive")).await });
  while !other.processes().await.contains("sleep 3") {
    tokio::task::yield_now().await;
  }
  let hidden = "env -i setsid sh -c 'sleep 300; : needle' >/dev/null 2>&1 &";
  one.run(ExecRequest { marker: Some("needle".to_owned()), ..script(hidden) }).await;
  assert_eq!(one.processes().await, "");
  assert_eq!(must_end(theirs).await.unwrap().unwrap().stdout, b"alive\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_may_do_what_a_killed_one_looks_like() {
  for fixture in both().await {
    for (text, code) in [("kill -9 $$", 137), ("exit 137", 137), ("exit 124", 124), ("kill -TERM $$", 143)] {
      let output = fixture.run(script(text)).await;
      assert_eq!((output.exit_code, output.end), (Some(code), ExecEnd::Finished), "{text}");
    }
  }
}
