//! The Docker client against a real engine. `SANDBOX_TEST_SOCKET` names its socket, `SANDBOX_TEST_IMAGE` an image with
//! BusyBox; `npm test` starts the one and makes the other.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::{Duration, Instant};

use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::client::Client;
use sandbox_docker::docker::model::ContainerSpec;
use sandbox_docker::docker::{Engine, ExecEnd, ExecOutput, ExecRequest, Stdin};

/// A container that is removed when the test ends, however it ends.
struct Fixture {
  client: Client,
  id: String,
}

async fn fixture() -> Fixture {
  let socket = std::env::var("SANDBOX_TEST_SOCKET").expect("SANDBOX_TEST_SOCKET names the engine's socket");
  let image = std::env::var("SANDBOX_TEST_IMAGE").unwrap_or_else(|_| "alpine:3.21".to_owned());
  let client = Client::new(Some(socket.into()), None).unwrap();
  let spec = ContainerSpec {
    image,
    user: "65534:65534".into(),
    working_dir: "/workspace".into(),
    entrypoint: Some(vec!["/bin/sh".into(), "-c".into(), "while :; do sleep 3600; done".into()]),
    network_mode: "none".into(),
    readonly_rootfs: true,
    memory_bytes: 256 << 20,
    nano_cpus: 2_000_000_000,
    pids_limit: 64,
    tmpfs: [("/workspace".to_owned(), "rw,size=256m,uid=65534,gid=65534,mode=0700".to_owned())].into(),
    ..ContainerSpec::default()
  };
  let id = client.create_container(&spec).await.unwrap();
  client.start_container(&id).await.unwrap();
  Fixture { client, id }
}

impl Drop for Fixture {
  fn drop(&mut self) {
    let (client, id) = (self.client.clone(), self.id.clone());
    tokio::task::block_in_place(|| {
      tokio::runtime::Handle::current().block_on(client.remove_container(&id)).unwrap();
    });
  }
}

impl Fixture {
  async fn sh(&self, script: &str) -> ExecOutput {
    self.run(request(&["sh", "-c", script])).await
  }

  async fn run(&self, request: ExecRequest) -> ExecOutput {
    self.client.exec(&self.id, request).await.unwrap()
  }

  /// Command lines of everything that runs but the container's own two processes and this look itself.
  async fn processes(&self) -> String {
    let output = self.sh("for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep -v -e 'while :; do sleep 3600' -e '^sleep 3600' -e '^for p' -e '^$' -e '^sh -c for p' -e '^grep' -e '^tr '").await;
    String::from_utf8(output.stdout).unwrap()
  }
}

fn request(cmd: &[&str]) -> ExecRequest {
  ExecRequest {
    cmd: cmd.iter().map(|part| (*part).to_owned()).collect(),
    user: "65534:65534".to_owned(),
    env: Vec::new(),
    working_dir: "/workspace".to_owned(),
    timeout: Duration::from_secs(20),
    max_output_bytes: 1 << 20,
    stdin: Stdin::Empty,
    cancel: Cancel::new(),
    skip_terminate: false,
    marker: None,
    clean_mark: None,
    exclusive: false,
  }
}

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
  assert_eq!(fixture.sh("sleep 1.5; ls").await.stdout, b"");
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
