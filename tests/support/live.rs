//! Containers on a real engine. `SANDBOX_TEST_SOCKET` names its socket, `SANDBOX_TEST_IMAGE` an image with BusyBox,
//! `SANDBOX_TEST_GNU_IMAGE` one with GNU programs; `npm test` starts the one and makes the others.

use std::time::Duration;

use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::client::Client;
use sandbox_docker::docker::model::ContainerSpec;
use sandbox_docker::docker::{Engine, ExecOutput, ExecRequest, Stdin};
use sandbox_docker::error::Result;

/// What process 1 of a test container does: nothing, with the programs of either image.
const IDLE: &str = "while :; do sleep 3600; done";
/// Lists the command lines of all processes but process 1, its session, and this look.
const PROCESSES: &str = r#"for s in /proc/[0-9]*/stat; do
  l=
  while read -r c; do l="$l $c"; done <"$s"
  l=${l##*) }
  set -- $l
  case "$1 $4" in ' '|Z*|?' 1'|?" $$") continue ;; esac
  tr '\0' ' ' <"${s%stat}cmdline" && echo
done 2>/dev/null"#;

/// A container that is removed when the test ends, however it ends.
pub struct Fixture {
  pub client: Client,
  pub id: String,
}

pub fn live_client() -> Client {
  let socket = std::env::var("SANDBOX_TEST_SOCKET").expect("SANDBOX_TEST_SOCKET names the engine's socket");
  Client::new(Some(socket.into()), None).unwrap()
}

/// An image with BusyBox.
pub fn busybox() -> String {
  std::env::var("SANDBOX_TEST_IMAGE").unwrap_or_else(|_| "alpine:3.21".to_owned())
}

/// An image with dash and GNU programs.
pub fn gnu() -> String {
  std::env::var("SANDBOX_TEST_GNU_IMAGE").unwrap_or_else(|_| "sandbox-test/debian:latest".to_owned())
}

/// What test containers are made from.
pub fn spec(image: String) -> ContainerSpec {
  ContainerSpec {
    image,
    user: "65534:65534".into(),
    working_dir: "/workspace".into(),
    entrypoint: Some(vec!["/bin/sh".into(), "-c".into(), IDLE.into()]),
    network_mode: "none".into(),
    readonly_rootfs: true,
    memory_bytes: 256 << 20,
    nano_cpus: 2_000_000_000,
    pids_limit: 64,
    tmpfs: [("/workspace".to_owned(), "rw,size=256m,uid=65534,gid=65534,mode=0700".to_owned())].into(),
    ..ContainerSpec::default()
  }
}

/// A running container with BusyBox.
pub async fn fixture() -> Fixture {
  Fixture::start(&spec(busybox())).await
}

/// A command with roomy limits whose processes are ended with it.
pub fn request(cmd: &[&str]) -> ExecRequest {
  ExecRequest {
    cmd: cmd.iter().map(|part| (*part).to_owned()).collect(),
    user: "65534:65534".to_owned(),
    env: Vec::new(),
    working_dir: "/".to_owned(),
    timeout: Duration::from_secs(20),
    max_output_bytes: 1 << 20,
    stdin: Stdin::Empty,
    cancel: Cancel::new(),
    skip_terminate: false,
    marker: None,
    extra_stderr_bytes: 0,
    clean_mark: None,
    exclusive: false,
    tap: None,
    permit: None,
  }
}

impl Fixture {
  pub async fn create(spec: &ContainerSpec) -> Self {
    let client = live_client();
    let id = client.create_container(spec).await.unwrap();
    Self { client, id }
  }

  pub async fn start(spec: &ContainerSpec) -> Self {
    let fixture = Self::create(spec).await;
    fixture.client.start_container(&fixture.id).await.unwrap();
    fixture
  }

  pub async fn try_run(&self, request: ExecRequest) -> Result<ExecOutput> {
    super::must_end(self.client.exec(&self.id, request)).await
  }

  pub async fn run(&self, request: ExecRequest) -> ExecOutput {
    self.try_run(request).await.unwrap()
  }

  pub async fn sh(&self, script: &str) -> ExecOutput {
    self.run(request(&["sh", "-c", script])).await
  }

  /// Command lines of everything that runs beside process 1 and its session.
  pub async fn processes(&self) -> String {
    // What looks must not tidy up.
    let look = ExecRequest { skip_terminate: true, ..request(&["sh", "-c", PROCESSES]) };
    String::from_utf8(self.run(look).await.stdout).unwrap()
  }
}

impl Drop for Fixture {
  fn drop(&mut self) {
    let (client, id) = (self.client.clone(), self.id.clone());
    tokio::task::block_in_place(|| {
      let removed = tokio::runtime::Handle::current().block_on(client.remove_container(&id));
      assert!(removed.as_ref().is_ok_and(|()| true) || removed.is_err_and(|error| error.is_not_found()));
    });
  }
}
