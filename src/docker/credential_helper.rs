//! Programs that keep credentials (`docker-credential-…`, by the protocol of github.com/docker/docker-credential-helpers):
//! asked with a registry's address on their input, they answer in JSON.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::locate::Surroundings;

/// Tokens have some KiB.
const MAX_ANSWER_BYTES: u64 = 256 * 1024;
/// What a helper says where it has nothing for a registry.
const NOTHING: &str = "credentials not found";

/// What a helper knows of a registry.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Login {
  /// A name, or `<token>`.
  pub username: String,
  /// A password or a token.
  pub secret: String,
}

/// Asks a helper, which gets so much `patience`; `None` where it knows nothing, and why it could not be asked. What it says is
/// in no error: it may be secret.
pub async fn ask(
  name: &str,
  server: &str,
  surroundings: &Surroundings,
  patience: Duration,
) -> Result<Option<Login>, String> {
  let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
  if !name.chars().all(is_name) {
    return Err(format!("{:?} of Docker's config.json is no name of a helper", crate::error::shown(name)));
  }
  let program = format!("docker-credential-{name}");
  let path = locate(&program, surroundings).ok_or_else(|| format!("{program} is not on PATH"))?;
  let mut command = Command::new(path);
  command
    .arg("get")
    .envs(surroundings.all())
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::null());
  let running = Arc::new(Mutex::new(None));
  let (asked, holder) = (server.to_owned(), Arc::clone(&running));
  // Not by the runtime's own processes: those that wait for SIGCHLD share it with whoever else is in this process.
  let asking = spawn_blocking(move || answer(command, &asked, &holder));
  let Ok(answered) = timeout(patience, asking).await else {
    let mut child = running.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(child) = child.as_mut() {
      let _gone = child.kill();
    }
    return Err(format!("{program} said nothing for {} s", patience.as_secs_f32()));
  };
  let (code, text) = answered
    .map_err(|error| error.to_string())
    .and_then(|answer| answer.map_err(|error| error.to_string()))
    .map_err(|why| format!("{program} could not be asked: {why}"))?;
  match code {
    Some(0) => serde_json::from_slice(&text)
      .map(Some)
      .map_err(|_secret| format!("{program} gave no credentials as JSON")),
    _ if String::from_utf8_lossy(&text).contains(NOTHING) => Ok(None),
    Some(code) => Err(format!("{program} ended with exit code {code}")),
    None => Err(format!("{program} was killed by a signal")),
  }
}

/// As a shell would find it, by the `PATH` of the process's own variables.
fn locate(program: &str, surroundings: &Surroundings) -> Option<PathBuf> {
  let folders = surroundings.get("PATH").unwrap_or_default();
  std::env::split_paths(folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Starts the program, asks, and waits for its end.
fn answer(
  mut command: Command,
  server: &str,
  running: &Mutex<Option<Child>>,
) -> std::io::Result<(Option<i32>, Vec<u8>)> {
  let mut child = command.spawn()?;
  let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
  *running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
  if let Some(mut stdin) = stdin {
    // One that needs no question may have closed it.
    let _unread = stdin.write_all(server.as_bytes());
  }
  let mut text = Vec::new();
  if let Some(stdout) = stdout {
    stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut text)?;
  }
  let child = running.lock().unwrap_or_else(PoisonError::into_inner).take();
  let status = child.map(|mut child| child.wait()).transpose()?;
  Ok((status.and_then(|status| status.code()), text))
}
