//! The exec transport in a real container. See `live_docker.rs` for the variables.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandbox_docker::archive::Owner;
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::client::Client;
use sandbox_docker::docker::model::ContainerSpec;
use sandbox_docker::docker::{Engine, Stdin};
use sandbox_docker::error::ErrorCode;
use sandbox_docker::sandbox::exec::ExecSandbox;
use sandbox_docker::sandbox::{Command, CommandResult, EntryType, Outcome, Sandbox};
use sandbox_docker::workspace::path::WorkspacePath;

struct Fixture {
  client: Client,
  id: String,
  sandbox: ExecSandbox,
}

impl Drop for Fixture {
  fn drop(&mut self) {
    let (client, id) = (self.client.clone(), self.id.clone());
    tokio::task::block_in_place(|| {
      tokio::runtime::Handle::current().block_on(client.remove_container(&id)).ok();
    });
  }
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
    tmpfs: [("/workspace".to_owned(), "rw,size=4m,uid=65534,gid=65534,mode=0700".to_owned())].into(),
    ..ContainerSpec::default()
  };
  let id = client.create_container(&spec).await.unwrap();
  client.start_container(&id).await.unwrap();
  let sandbox = ExecSandbox::new(
    Arc::new(client.clone()),
    id.clone(),
    Owner { uid: 65534, gid: 65534 },
    BTreeMap::new(),
    None,
  );
  Fixture { client, id, sandbox }
}

fn path(text: &str) -> WorkspacePath {
  WorkspacePath::parse(text).unwrap()
}

impl Fixture {
  async fn write(&self, to: &str, contents: &[u8]) -> Result<(), ErrorCode> {
    let contents = contents.to_vec().into();
    self.sandbox.write_file(&path(to), contents, 0o640, &Cancel::new()).await.map_err(|error| error.code())
  }

  async fn read(&self, from: &str) -> Result<Vec<u8>, ErrorCode> {
    let read = self.sandbox.read_file(&path(from), 0, 1 << 20, &Cancel::new()).await;
    read.map(|read| read.data.to_vec()).map_err(|error| error.code())
  }

  async fn run(&self, words: &[&str]) -> CommandResult {
    self.run_in("", words).await
  }

  async fn run_in(&self, cwd: &str, words: &[&str]) -> CommandResult {
    let (program, args) = words.split_first().unwrap();
    let command = Command {
      program: (*program).to_owned(),
      args: args.iter().map(|arg| (*arg).to_owned()).collect(),
      cwd: path(cwd),
      env: BTreeMap::new(),
      stdin: Stdin::Empty,
      timeout: Some(Duration::from_secs(10)),
      max_output_bytes: 1 << 20,
    };
    self.sandbox.exec(command, &Cancel::new()).await.unwrap()
  }

  async fn sh(&self, script: &str) -> CommandResult {
    self.run(&["sh", "-c", script]).await
  }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_whole_read_in_parts_and_listed() {
  let fixture = fixture().await;
  let name = "ordner/größe ✓/a'b \"$(id)\n.txt";
  fixture.write(name, "héllo".as_bytes()).await.unwrap();
  assert_eq!(fixture.read(name).await.unwrap(), "héllo".as_bytes());
  fixture.write(name, b"").await.unwrap();
  assert_eq!(fixture.read(name).await.unwrap(), b"");
  fixture.write("-rf", b"0123456789").await.unwrap();
  let part = fixture.sandbox.read_file(&path("-rf"), 3, 4, &Cancel::new()).await.unwrap();
  assert_eq!((part.data.as_ref(), part.size, part.mode), (&b"3456"[..], 10, 0o640));
  let past = fixture.sandbox.read_file(&path("-rf"), 11, 4, &Cancel::new()).await.unwrap();
  assert_eq!((past.data.len(), past.size), (0, 10));
  let all = fixture.sandbox.list(&path(""), 8, 100, &Cancel::new()).await.unwrap();
  let seen: Vec<_> = all.entries.iter().map(|entry| (entry.path.as_str(), entry.kind, entry.size)).collect();
  assert_eq!(
    seen,
    [
      ("-rf", EntryType::File, 10),
      ("ordner", EntryType::Directory, 0),
      ("ordner/größe ✓", EntryType::Directory, 0),
      (name, EntryType::File, 0),
    ]
  );
  let top = fixture.sandbox.list(&path(""), 1, 1, &Cancel::new()).await.unwrap();
  assert_eq!((top.entries.len(), top.truncated), (1, true));
  assert_eq!(
    fixture.sandbox.list(&path("ordner/größe ✓"), 1, 9, &Cancel::new()).await.unwrap().entries.len(),
    1
  );
}

#[tokio::test(flavor = "multi_thread")]
async fn links_and_what_is_no_file_are_refused() {
  let fixture = fixture().await;
  let made = fixture
    .sh("mkdir d; echo x >d/f; ln -s d link; ln -s d/f flink; ln -s /etc/hosts out; ln -s nowhere dangling; mkfifo pipe; ln -s /tmp tmp")
    .await;
  assert_eq!(made.exit_code, Some(0), "{}", String::from_utf8_lossy(&made.stderr));
  for (name, code) in [
    ("link/f", ErrorCode::PathInvalid),
    ("flink", ErrorCode::PathInvalid),
    ("out", ErrorCode::PathInvalid),
    ("dangling", ErrorCode::PathInvalid),
    ("pipe", ErrorCode::PathInvalid),
    ("d", ErrorCode::PathInvalid),
    ("", ErrorCode::PathInvalid),
    ("d/f/x", ErrorCode::PathInvalid),
    ("nope", ErrorCode::NotFound),
    ("nope/x", ErrorCode::NotFound),
  ] {
    assert_eq!(fixture.read(name).await.unwrap_err(), code, "read {name}");
    if code == ErrorCode::PathInvalid {
      assert_eq!(fixture.write(name, b"y").await.unwrap_err(), code, "write {name}");
    }
  }
  assert_eq!(fixture.write("tmp/x", b"y").await.unwrap_err(), ErrorCode::PathInvalid);
  for name in ["link", "out", "d/f"] {
    let listed = fixture.sandbox.list(&path(name), 1, 10, &Cancel::new()).await;
    assert_eq!(listed.unwrap_err().code(), ErrorCode::PathInvalid, "list {name}");
  }
  assert_eq!(fixture.run_in("link", &["pwd"]).await.outcome, Outcome::NotStarted);
  assert_eq!(fixture.sh("cat d/f; ls | wc -l").await.stdout, b"x\n7\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_workspace_is_told_and_nothing_half_stays() {
  let fixture = fixture().await;
  fixture.write("big", &vec![7; 3 << 20]).await.unwrap();
  assert_eq!(fixture.write("more", &vec![7; 2 << 20]).await.unwrap_err(), ErrorCode::Limit);
  assert_eq!(fixture.write("big", &vec![8; 2 << 20]).await.unwrap_err(), ErrorCode::Limit);
  let big = fixture.sandbox.read_file(&path("big"), 0, 1, &Cancel::new()).await.unwrap();
  assert_eq!((big.data.as_ref(), big.size), (&[7u8][..], 3 << 20));
  assert_eq!(fixture.sh("ls -A").await.stdout, b"big\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_end_as_they_did() {
  let fixture = fixture().await;
  let done = fixture.sh("echo out; echo err >&2; exit 5").await;
  assert_eq!((done.outcome, done.exit_code), (Outcome::Exited, Some(5)));
  assert_eq!((done.stdout.as_slice(), done.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
  assert_eq!(fixture.run(&["echo", "a  b", "$(id)", "*"]).await.stdout, b"a  b $(id) *\n");
  assert_eq!(fixture.run(&["/bin/echo", "-n", "x"]).await.stdout, b"x");
  for (cwd, words) in
    [("", &["no-such"][..]), ("", &["exit", "3"]), ("", &["/bin/nope"]), ("nope", &["echo"])]
  {
    let result = fixture.run_in(cwd, words).await;
    assert_eq!((result.outcome, result.exit_code), (Outcome::NotStarted, None), "{words:?}");
  }
  let left = fixture
    .sh("sleep 301 & setsid sleep 302 >/dev/null 2>&1 & (env -i setsid sleep 303 >/dev/null 2>&1 &) ; exit 0")
    .await;
  assert_eq!((left.outcome, left.exit_code), (Outcome::Exited, Some(0)));
  let processes = String::from_utf8(fixture.run(&["ps"]).await.stdout).unwrap();
  assert!(!processes.contains("sleep 30"), "{processes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_gone_is_lost() {
  let fixture = fixture().await;
  fixture.client.remove_container(&fixture.id).await.unwrap();
  assert_eq!(fixture.read("x").await.unwrap_err(), ErrorCode::ContainerLost);
  assert_eq!(fixture.write("x", b"").await.unwrap_err(), ErrorCode::ContainerLost);
}
