//! Real clients through the proxy to a TLS origin on loopback. Needs curl, wget, git, npm, openssl, and Python 3 with pip
//! and requests:
//!
//!   cargo test --test proxy_clients -- --ignored
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/proxy.rs"]
mod support;

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use sandbox_docker::proxy::Quotas;
use support::*;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// A proxy to an origin that is `good.com`, and a folder to work in.
struct Setting {
  world: Arc<World>,
  folder: tempfile::TempDir,
  proxy: String,
  _origin: Child,
}

async fn setting() -> Setting {
  let folder = tempfile::tempdir().unwrap();
  let path = folder.path().to_str().unwrap();
  let subject =
    "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=good.com -addext subjectAltName=DNS:good.com";
  let files =
    ["-keyout".to_owned(), format!("{path}/key.pem"), "-out".to_owned(), format!("{path}/cert.pem")];
  let made = Command::new("openssl").args(subject.split(' ')).args(files).output().await.unwrap();
  assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
  let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/origin.py");
  let mut origin = Command::new("python3")
    .args([script, path])
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .kill_on_drop(true)
    .spawn()
    .unwrap();
  let mut line = String::new();
  BufReader::new(origin.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
  let world = World::new();
  world.public(443, format!("127.0.0.1:{}", line.trim()).parse().unwrap());
  let proxy = carry(&world).await;
  Setting { world, folder, proxy, _origin: origin }
}

/// Accepts connections for a session, as a carrier will.
async fn carry(world: &Arc<World>) -> String {
  let session = world.session(Quotas::default());
  let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
  let address = format!("http://{}", listener.local_addr().unwrap());
  tokio::spawn(async move {
    while let Ok((stream, _)) = listener.accept().await {
      tokio::spawn(session.serve(stream));
    }
  });
  address
}

impl Setting {
  /// Runs a command with the variables that a container's commands get, and what makes each client trust the origin.
  /// Returns whether it succeeded, and what it printed.
  async fn run(&self, words: &[&str]) -> (bool, String) {
    let cert = self.folder.path().join("cert.pem");
    let (program, args) = words.split_first().unwrap();
    let mut command = Command::new(program);
    command.args(args).current_dir(self.folder.path()).env("HOME", self.folder.path());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
      command.env(name, &self.proxy);
    }
    for name in ["CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "REQUESTS_CA_BUNDLE", "npm_config_cafile"] {
      command.env(name, &cert);
    }
    command.env("NO_PROXY", "").env("no_proxy", "").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    let output = must_end(command.output()).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
  }

  #[track_caller]
  fn has(&self, file: impl AsRef<Path>) {
    assert!(self.folder.path().join(&file).exists(), "{} is missing", file.as_ref().display());
  }
}

#[tokio::test]
#[ignore = "needs programs that not every machine has; the file says which"]
async fn clients_reach_what_is_allowed() {
  let setting = setting().await;
  let requests = "import requests; print(requests.get('https://good.com/hello.txt').text)";
  for words in [
    &["curl", "-sS", "https://good.com/hello.txt"][..],
    &["wget", "-q", "-O", "-", "--ca-certificate=cert.pem", "https://good.com/hello.txt"],
    &["python3", "-c", requests],
  ] {
    let (success, output) = setting.run(words).await;
    assert!(success && output.contains("hello over tls"), "{words:?}: {output}");
  }
  let pip = "python3 -m pip download -q --no-deps --index-url https://good.com/simple hello";
  for (line, file) in [
    ("git clone -q https://good.com/hello.git cloned", "cloned/hello.txt"),
    (pip, "hello-1.0-py3-none-any.whl"),
    ("npm pack --registry https://good.com/npm/ hello", "hello-1.0.0.tgz"),
  ] {
    let words: Vec<_> = line.split(' ').collect();
    let (success, output) = setting.run(&words).await;
    assert!(success, "{line}: {output}");
    setting.has(file);
  }
  // All of it went through the proxy, to the one place that is allowed.
  let dialled = setting.world.dialled();
  assert!(dialled.len() >= 6 && dialled.iter().all(|address| address == "93.184.216.34:443"), "{dialled:?}");
}

#[tokio::test]
#[ignore = "needs programs that not every machine has; the file says which"]
async fn clients_say_why_something_is_refused() {
  let setting = setting().await;
  let requests = "import requests; requests.get('https://evil.com/')";
  for (words, part) in [
    (&["curl", "-sS", "https://evil.com/"][..], "403"),
    (&["curl", "-sS", "http://evil.com/"], "The host evil.com is not in the allowlist."),
    (&["curl", "-sS", "--connect-to", "evil.com:443:good.com:443", "https://evil.com/"], "access denied"),
    (&["python3", "-c", requests], "403 Host Not In Allowlist"),
    (&["git", "clone", "-q", "https://evil.com/hello.git"], "403"),
    (&["wget", "https://evil.com/"], "Host Not In Allowlist"),
  ] {
    let (_, output) = setting.run(words).await;
    assert!(output.contains(part), "{words:?}: {output}");
  }
  assert_eq!(setting.world.dialled(), ["93.184.216.34:443"], "the one with another server name inside");
}
