//! The Docker client against a real engine; see `support/live.rs` for what it needs.

mod support;

use std::time::{Duration, Instant};

use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::model::ContainerSpec;
use sandbox_docker::docker::{Engine, ExecEnd, ExecRequest, Stdin};
use sandbox_docker::error::ErrorCode;

use support::live::{Fixture, busybox, fixture, live_client, request, spec};

#[tokio::test(flavor = "multi_thread")]
async fn output_streams_and_exit_codes_are_exact() {
  let fixture = fixture().await;
  let output = fixture.sh("printf a; printf 'b\\n\\n' >&2; exit 7").await;
  assert_eq!((output.exit_code, output.end), (Some(7), ExecEnd::Finished));
  assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"a"[..], &b"b\n\n"[..]));
  for code in [124, 137, 143] {
    assert_eq!(fixture.sh(&format!("exit {code}")).await.exit_code, Some(code));
  }
  assert_eq!(fixture.sh("kill -9 $$").await.exit_code, Some(137));
}

#[tokio::test(flavor = "multi_thread")]
async fn input_of_every_size_comes_back_whole() {
  let fixture = fixture().await;
  for size in [0usize, 1, 70_000, 32 << 20] {
    let bytes: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
    let mut echo = request(&["cat"]);
    echo.stdin = Stdin::Bytes(bytes.clone().into());
    echo.max_output_bytes = 64 << 20;
    let output = fixture.run(echo).await;
    assert_eq!(output.exit_code, Some(0), "{size}");
    assert!(output.stdout == bytes, "{size}: {} bytes came back", output.stdout.len());
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_child_that_holds_the_output_does_not_hold_the_call_and_dies() {
  let fixture = fixture().await;
  let begun = Instant::now();
  let output = fixture.sh("(while :; do echo x; sleep 1; done) & sleep 300 & exit 3").await;
  assert_eq!(output.exit_code, Some(3));
  assert_eq!(output.end, ExecEnd::OutputHeld);
  assert!(begun.elapsed() < Duration::from_secs(10));
  assert_eq!(fixture.processes().await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_background_child_dies_too_and_others_live() {
  let fixture = fixture().await;
  let client = fixture.client.clone();
  let id = fixture.id.clone();
  let other =
    tokio::spawn(async move { client.exec(&id, request(&["sh", "-c", "sleep 2; echo alive"])).await });
  let output = fixture.sh("sleep 301 >/dev/null 2>&1 & setsid sleep 302 >/dev/null 2>&1 & exit 0").await;
  assert_eq!((output.exit_code, output.end), (Some(0), ExecEnd::Finished));
  let left = fixture.processes().await;
  assert!(!left.contains("30"), "{left}");
  assert_eq!(other.await.unwrap().unwrap().stdout, b"alive\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_limit_kills_the_whole_group() {
  let fixture = fixture().await;
  let mut slow = request(&[
    "sh",
    "-c",
    "trap '' TERM; sleep 300 & (sleep 1; echo late >/workspace/late) & echo early; wait",
  ]);
  slow.timeout = Duration::from_millis(400);
  let output = fixture.run(slow).await;
  assert_eq!((output.exit_code, output.end), (Some(137), ExecEnd::TimedOut));
  assert_eq!(output.stdout, b"early\n");
  assert_eq!(fixture.processes().await, "");
  assert_eq!(fixture.sh("sleep 1.5; ls /workspace").await.stdout, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cap_stops_the_command_and_keeps_what_fits() {
  let fixture = fixture().await;
  let output = fixture.sh("yes").await;
  assert_eq!((output.end, output.stdout.len()), (ExecEnd::Truncated, 1 << 20));
  let output = fixture.sh("head -c 1048576 /dev/zero; exit 9").await;
  assert_eq!((output.end, output.stdout.len(), output.exit_code), (ExecEnd::Finished, 1 << 20, Some(9)));
  assert_eq!(fixture.processes().await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_ends_the_call_and_the_command() {
  let fixture = fixture().await;
  let cancel = Cancel::new();
  let mut slow = request(&["sh", "-c", "echo ready; sleep 300"]);
  slow.cancel = cancel.clone();
  let (client, id) = (fixture.client.clone(), fixture.id.clone());
  let running = tokio::spawn(async move { client.exec(&id, slow).await });
  tokio::time::sleep(Duration::from_millis(300)).await;
  cancel.cancel();
  assert!(running.await.unwrap().unwrap_err().is_cancelled());
  assert_eq!(fixture.processes().await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_nobody_reads_is_no_error() {
  let fixture = fixture().await;
  let unread = Stdin::Bytes(vec![b'x'; 8 << 20].into());
  let output = fixture.run(ExecRequest { stdin: unread, ..request(&["sh", "-c", "echo done"]) }).await;
  assert_eq!((output.exit_code, output.stdout.as_slice()), (Some(0), &b"done\n"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_of_a_command_that_ends_at_once_is_whole() {
  let fixture = fixture().await;
  let roomy = ExecRequest {
    max_output_bytes: 100 << 20,
    ..request(&["sh", "-c", "head -c 67108864 /dev/zero; head -c 1000000 /dev/zero >&2"])
  };
  let output = fixture.run(roomy).await;
  assert_eq!((output.exit_code, output.end), (Some(0), ExecEnd::Finished));
  assert_eq!((output.stdout.len(), output.stderr.len()), (64 << 20, 1_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_start_ends_with_the_engines_code() {
  let fixture = fixture().await;
  let missing = fixture.run(request(&["/nonexistent"])).await;
  assert!(matches!(missing.exit_code, Some(126 | 127)), "{missing:?}");
  let nowhere = fixture.try_run(ExecRequest { working_dir: "/nope/".to_owned(), ..request(&["true"]) }).await;
  assert!(
    nowhere.is_err() || nowhere.as_ref().is_ok_and(|o| matches!(o.exit_code, Some(126 | 127))),
    "{nowhere:?}"
  );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_lives_and_ends_by_the_calls() {
  let label = format!("zhivex.test={}", std::process::id());
  let (name, value) = label.split_once('=').unwrap();
  let named = |labels: &[(&str, &str)]| {
    let mut spec = spec(busybox());
    spec.labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    spec
  };
  let fixture = Fixture::create(&named(&[(name, value)])).await;
  let other = Fixture::create(&named(&[(name, "other")])).await;
  let client = &fixture.client;
  let listed = client.list_containers(&label).await.unwrap();
  assert_eq!(listed.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), [fixture.id.as_str()]);
  assert_eq!(listed.first().unwrap().state, "created");
  drop(other);

  let error = fixture.try_run(request(&["true"])).await.unwrap_err();
  assert!(error.message().contains("its state is created"), "{error}");
  client.start_container(&fixture.id).await.unwrap();
  client.start_container(&fixture.id).await.unwrap();
  let inspection = client.inspect_container(&fixture.id).await.unwrap();
  assert!(inspection.state.running && inspection.host_config.readonly_rootfs);
  assert_eq!(inspection.host_config.pids_limit, Some(64));
  assert!(client.inspect_container_json(&fixture.id).await.unwrap().contains(&fixture.id));

  client.kill_container(&fixture.id, "SIGKILL").await.unwrap();
  client.kill_container(&fixture.id, "SIGKILL").await.unwrap();
  let error = fixture.try_run(request(&["true"])).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::DockerApi);
  assert!(error.message().contains("its state is exited"), "{error}");
  client.remove_container(&fixture.id).await.unwrap();
  for error in [
    client.remove_container(&fixture.id).await.unwrap_err(),
    client.kill_container(&fixture.id, "SIGKILL").await.unwrap_err(),
    client.start_container(&fixture.id).await.unwrap_err(),
    fixture.try_run(request(&["true"])).await.unwrap_err(),
  ] {
    assert_eq!(error.code(), ErrorCode::NotFound, "{error}");
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn removals_at_the_same_time_end_with_the_container_gone() {
  let fixture = fixture().await;
  let removals = (0..4).map(|_| fixture.client.remove_container(&fixture.id));
  for removed in futures_util::future::join_all(removals).await {
    assert!(
      removed.as_ref().is_ok() || removed.as_ref().is_err_and(|error| error.is_not_found()),
      "{removed:?}"
    );
  }
  assert!(fixture.client.inspect_container(&fixture.id).await.unwrap_err().is_not_found());
}

fn with_name(name: &str) -> ContainerSpec {
  ContainerSpec { name: Some(name.to_owned()), ..spec(busybox()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_taken_once_and_a_missing_image_is_named() {
  let name = format!("zhivex-test-{}", std::process::id());
  let fixture = Fixture::create(&with_name(&name)).await;
  let taken = fixture.client.create_container(&with_name(&name)).await.unwrap_err();
  assert_eq!(taken.code(), ErrorCode::Conflict);
  let missing =
    fixture.client.create_container(&spec("zhivex/no-such-image:1".to_owned())).await.unwrap_err();
  assert_eq!(missing.code(), ErrorCode::ImageMissing);
  assert!(fixture.client.inspect_image("zhivex/no-such-image:1").await.unwrap_err().is_not_found());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_removed_in_the_middle_of_a_command_ends_the_call() {
  let fixture = fixture().await;
  let (client, id) = (fixture.client.clone(), fixture.id.clone());
  let running = tokio::spawn(async move { client.exec(&id, request(&["sleep", "300"])).await });
  while fixture.processes().await.is_empty() {
    tokio::task::yield_now().await;
  }
  fixture.client.remove_container(&fixture.id).await.unwrap();
  match support::must_end(running).await.unwrap() {
    // The engine may still know how the command ended.
    Ok(output) => assert!(matches!(output.exit_code, None | Some(137)), "{output:?}"),
    Err(error) => assert!(matches!(error.code(), ErrorCode::DockerApi | ErrorCode::NotFound), "{error}"),
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn realpath_resolves_links_and_refuses_what_is_no_path() {
  let fixture = fixture().await;
  fixture.sh("mkdir -p /workspace/a/b; ln -s a/b /workspace/link; ln -s /etc '/workspace/out ä'").await;
  let real = async |path: &str| fixture.client.realpath(&fixture.id, path).await;
  assert_eq!(real("/workspace/link/../b").await.unwrap(), "/workspace/a/b");
  assert_eq!(real("/workspace/out ä").await.unwrap(), "/etc");
  assert_eq!(real("/workspace/no/such").await.unwrap_err().code(), ErrorCode::NotFound);
  for path in ["", "a", "/a\0b", &format!("/{}", "a".repeat(5000))] {
    assert_eq!(real(path).await.unwrap_err().code(), ErrorCode::PathInvalid);
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_makes_an_image_and_never_holds_a_tmpfs() {
  let mut writable = spec(busybox());
  writable.readonly_rootfs = false;
  writable.user = "0:0".to_owned();
  let fixture = Fixture::start(&writable).await;
  let root = ExecRequest { user: "0:0".to_owned(), ..request(&["sh", "-c", "echo kept >/kept"]) };
  assert_eq!(fixture.run(root).await.exit_code, Some(0));
  fixture.sh("echo lost >/workspace/lost").await;
  let repo = format!("zhivex-test/{}", std::process::id());
  let labels = [("zhivex.test".to_owned(), "commit".to_owned())].into();
  let id = fixture.client.commit_container(&fixture.id, &repo, "t", Some(&labels)).await.unwrap();
  let image = fixture.client.inspect_image(&format!("{repo}:t")).await.unwrap();
  assert_eq!((image.id.as_str(), image.config.labels), (id.as_str(), Some(labels)));
  let mut of_it = spec(id.clone());
  of_it.tmpfs.clear();
  let copy = Fixture::start(&of_it).await;
  assert_eq!(copy.sh("cat /kept; ls -A /workspace").await.stdout, b"kept\n");
  drop(copy);
  fixture.client.remove_image(&id).await.unwrap();
  assert!(fixture.client.remove_image(&id).await.unwrap_err().is_not_found());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_made_with_a_gateway_and_removed() {
  let client = live_client();
  let network = client.create_network(&format!("zhivex-test-{}", std::process::id())).await.unwrap();
  assert!(network.gateway.is_some_and(|gateway| gateway.parse::<std::net::Ipv4Addr>().is_ok()));
  let mut attached = spec(busybox());
  attached.network_mode.clone_from(&network.id);
  let fixture = Fixture::start(&attached).await;
  let held = client.remove_network(&network.id).await.unwrap_err();
  assert_eq!(held.code(), ErrorCode::DockerApi, "{held}");
  drop(fixture);
  client.remove_network(&network.id).await.unwrap();
  assert!(client.remove_network(&network.id).await.unwrap_err().is_not_found());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_says_what_it_is() {
  let info = live_client().info().await.unwrap();
  assert_eq!(info.os_type, "linux");
  assert!(info.memory_limit && info.pids_limit && !info.server_version.is_empty());
}
