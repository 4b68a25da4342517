//! Which engine is meant where nobody said so: that of `DOCKER_HOST`, else of the current context of Docker's command line,
//! else the first of the usual sockets that somebody listens on.
//!
//! What was named (by `DOCKER_HOST` or a context) is taken or refused, never replaced by something else: a run on another
//! engine than the one that was meant would be worse than none.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::client::DEFAULT_SOCKET;
use crate::error::{Result, fail, shown};

/// The variables of the process that matter here, by the names that Docker's command line gives them
/// (docs.docker.com, "Environment variables" of `docker`), and those that the usual places depend on.
pub const VARIABLES: &[&str] = &["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "HOME", "XDG_RUNTIME_DIR"];

/// The largest of Docker's own files that is read; real ones have some hundred bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// A socket that takes longer to accept is passed over: nobody waits for places that nobody named.
const CONNECT: Duration = Duration::from_secs(2);
/// The context that is no context: whatever is found at the usual places.
const NO_CONTEXT: &str = "default";

/// What the process around says: values of [`VARIABLES`]. An empty one counts as none.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Surroundings(BTreeMap<String, String>);

impl Surroundings {
  fn get(&self, name: &str) -> Option<&str> {
    self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
  }

  fn beneath(&self, variable: &str, path: &str) -> Option<PathBuf> {
    self.get(variable).map(|root| Path::new(root).join(path))
  }
}

/// The socket of the engine that is meant. Errors: `UNSUPPORTED` where it is one that no unix socket leads to,
/// `CONFIG_INVALID` where what names it makes no sense, `DOCKER_UNAVAILABLE` with all that was tried where nothing listens.
pub async fn find(surroundings: &Surroundings) -> Result<PathBuf> {
  if let Some(host) = surroundings.get("DOCKER_HOST") {
    return socket_of(host, "DOCKER_HOST");
  }
  if let Some(context) = current_context(surroundings).await? {
    return context.socket(surroundings).await;
  }
  let mut tried = Vec::new();
  for path in usual_places(surroundings) {
    match listens(&path).await {
      Ok(()) => return Ok(path),
      Err(why) => tried.push(format!("{} ({why})", path.display())),
    }
  }
  Err(fail!(
    DockerUnavailable,
    "No Docker engine was found. DOCKER_HOST is not set, there is no docker context, and tried were: {}. Start Docker, set DOCKER_HOST, or pass socketPath with the path of the engine's socket.",
    tried.join(", ")
  ))
}

/// Where engines listen unless told otherwise, the machine's own first.
fn usual_places(surroundings: &Surroundings) -> Vec<PathBuf> {
  let runtime = |path| surroundings.beneath("XDG_RUNTIME_DIR", path);
  let home = |path| surroundings.beneath("HOME", path);
  let places = [
    Some(PathBuf::from(DEFAULT_SOCKET)),
    // Rootless Docker.
    runtime("docker.sock"),
    // Docker Desktop on macOS (and rootless Docker without a runtime directory), and on Linux.
    home(".docker/run/docker.sock"),
    home(".docker/desktop/docker.sock"),
    // Colima, before and since it follows the XDG directories.
    home(".colima/default/docker.sock"),
    home(".config/colima/default/docker.sock"),
    home(".orbstack/run/docker.sock"),
    // Podman's compatible socket, rootless and not.
    runtime("podman/podman.sock"),
    Some(PathBuf::from("/run/podman/podman.sock")),
  ];
  places.into_iter().flatten().collect()
}

/// Whether somebody accepts connections there; if not, why.
async fn listens(path: &Path) -> Result<(), String> {
  match timeout(CONNECT, UnixStream::connect(path)).await {
    Ok(Ok(_stream)) => Ok(()),
    Ok(Err(error)) => Err(match error.kind() {
      ErrorKind::NotFound => "does not exist".to_owned(),
      ErrorKind::ConnectionRefused => "nothing listens on it".to_owned(),
      ErrorKind::PermissionDenied => "may not be opened by this user".to_owned(),
      _ => error.to_string(),
    }),
    Err(_elapsed) => Err(format!("did not accept a connection within {} s", CONNECT.as_secs())),
  }
}

/// The path of a unix socket out of an address of an engine; `from` is where the address stands.
fn socket_of(address: &str, from: &str) -> Result<PathBuf> {
  let named = shown(address);
  // A path alone is one.
  let bare = if address.starts_with('/') { "unix" } else { "" };
  let (scheme, path) = address.split_once("://").unwrap_or((bare, address));
  match scheme {
    "unix" if !path.is_empty() => Ok(PathBuf::from(path)),
    "ssh" => Err(fail!(
      Unsupported,
      "{from} is {named:?}: engines over SSH are not reached directly. Forward the socket (ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST) and pass socketPath: \"/tmp/docker.sock\"."
    )),
    "tcp" | "http" | "https" => Err(fail!(
      Unsupported,
      "{from} is {named:?}: engines over TCP are not supported. Forward the engine's socket (ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST) and pass socketPath: \"/tmp/docker.sock\", or use the engine of this machine."
    )),
    "npipe" | "fd" => Err(fail!(
      Unsupported,
      "{from} is {named:?}: only unix sockets are supported. Pass socketPath with the path of one."
    )),
    _ => Err(fail!(
      ConfigInvalid,
      "{from} was {named:?}; it may be unix:// with the path of an engine's socket."
    )),
  }
}

/// A context of Docker's command line, and what named it.
struct Context {
  name: String,
  from: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
  current_context: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Meta {
  #[serde(default)]
  endpoints: BTreeMap<String, Endpoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Endpoint {
  host: Option<String>,
}

async fn current_context(surroundings: &Surroundings) -> Result<Option<Context>> {
  if let Some(name) = surroundings.get("DOCKER_CONTEXT") {
    return Ok(Context::named(name.to_owned(), "DOCKER_CONTEXT".to_owned()));
  }
  let Some(path) = config_folder(surroundings).map(|folder| folder.join("config.json")) else {
    return Ok(None);
  };
  let config: Option<Config> = read_json(&path).await?;
  let name = config.and_then(|config| config.current_context);
  Ok(name.and_then(|name| Context::named(name, path.display().to_string())))
}

fn config_folder(surroundings: &Surroundings) -> Option<PathBuf> {
  surroundings.get("DOCKER_CONFIG").map(PathBuf::from).or_else(|| surroundings.beneath("HOME", ".docker"))
}

impl Context {
  fn named(name: String, from: String) -> Option<Self> {
    (!name.is_empty() && name != NO_CONTEXT).then_some(Self { name, from })
  }

  async fn socket(&self, surroundings: &Surroundings) -> Result<PathBuf> {
    let Self { name, from } = self;
    let named = shown(name);
    // The command line names the folder of a context by a hash of its name.
    let folder = hex::encode(Sha256::digest(name.as_bytes()));
    let path =
      config_folder(surroundings).unwrap_or_default().join("contexts/meta").join(folder).join("meta.json");
    let meta: Meta = read_json(&path).await?.ok_or_else(|| {
      fail!(
        DockerUnavailable,
        "The docker context {named:?} (of {from}) does not exist: there is no {}. Choose another (docker context use), or pass socketPath.",
        path.display()
      )
    })?;
    let host = meta.endpoints.get("docker").and_then(|endpoint| endpoint.host.as_deref()).unwrap_or_default();
    socket_of(host, &format!("The address of the docker context {named:?} (of {from})"))
  }
}

/// What a file of Docker's holds; `None` where there is none.
async fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>> {
  let bytes = match read(path).await {
    Ok(bytes) => bytes,
    Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
    Err(error) => return Err(unreadable(path, &error)),
  };
  serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(path, &error))
}

async fn read(path: &Path) -> std::io::Result<Vec<u8>> {
  let mut bytes = Vec::new();
  tokio::fs::File::open(path).await?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).await?;
  Ok(bytes)
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> crate::error::Error {
  fail!(
    ConfigInvalid,
    "Docker's file {} cannot be read: {error}. Mend it, set DOCKER_HOST, or pass socketPath.",
    path.display()
  )
}

#[cfg(test)]
mod tests;
