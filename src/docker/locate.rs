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
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::address::Address;
use super::client::DEFAULT_SOCKET;
use super::endpoint::Endpoint;
use super::files::read_json;
use super::tls::Tls;
use crate::error::{Result, fail, shown};

/// The variables of the process that matter here, by the names that Docker's command line gives them
/// (docs.docker.com, "Environment variables" of `docker`), those that the usual places depend on, and
/// where credential helpers are.
pub const VARIABLES: &[&str] = &[
  "DOCKER_HOST",
  "DOCKER_TLS_VERIFY",
  "DOCKER_TLS",
  "DOCKER_CERT_PATH",
  "DOCKER_CONTEXT",
  "DOCKER_CONFIG",
  "HOME",
  "XDG_RUNTIME_DIR",
  "TMPDIR",
  "PATH",
];

/// A socket that takes longer to accept is passed over: nobody waits for places that nobody named.
const CONNECT: Duration = Duration::from_secs(2);
/// The context that is no context: whatever is found at the usual places.
const NO_CONTEXT: &str = "default";

/// What the process around says: values of [`VARIABLES`]. An empty one counts as none.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Surroundings(BTreeMap<String, String>);

impl Surroundings {
  /// A variable, where it is set.
  pub fn get(&self, name: &str) -> Option<&str> {
    self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
  }

  /// All of them.
  pub fn all(&self) -> impl Iterator<Item = (&String, &String)> {
    self.0.iter()
  }

  fn beneath(&self, variable: &str, path: &str) -> Option<PathBuf> {
    self.get(variable).map(|root| Path::new(root).join(path))
  }
}

/// The engine that is meant. Errors: `UNSUPPORTED` where it is one that is not reached, `CONFIG_INVALID` where what names it
/// makes no sense, `DOCKER_UNAVAILABLE` with all that was tried where nothing listens.
pub async fn find(surroundings: &Surroundings) -> Result<Endpoint> {
  if let Some(host) = surroundings.get("DOCKER_HOST") {
    return match Address::read(host, "DOCKER_HOST")? {
      Address::Unix(path) => Ok(Endpoint::Unix(path)),
      Address::Tcp(address) => Ok(Endpoint::Tcp(address, tls_of_variables(surroundings).await?)),
    };
  }
  if let Some(context) = current_context(surroundings).await? {
    return context.engine(surroundings).await;
  }
  first_that_listens(usual_places(&Roots::of(surroundings))).await.map(Endpoint::Unix)
}

async fn first_that_listens(places: Vec<PathBuf>) -> Result<PathBuf> {
  let mut tried = Vec::new();
  for path in places {
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

/// What the usual places depend on: the machine's own sockets, and this user's folders where they are known.
struct Roots<'a> {
  docker: &'a Path,
  podman: &'a Path,
  runtime: Option<&'a Path>,
  home: Option<&'a Path>,
  temporary: Option<&'a Path>,
}

impl<'a> Roots<'a> {
  fn of(surroundings: &'a Surroundings) -> Self {
    let folder = |variable| surroundings.get(variable).map(Path::new);
    Self {
      docker: Path::new(DEFAULT_SOCKET),
      podman: Path::new("/run/podman/podman.sock"),
      runtime: folder("XDG_RUNTIME_DIR"),
      home: folder("HOME"),
      // On macOS this is the user's own; elsewhere anybody could make a socket in it and be taken for an engine.
      temporary: cfg!(target_os = "macos").then(|| folder("TMPDIR")).flatten(),
    }
  }
}

/// Where engines listen unless told otherwise, the machine's own first.
fn usual_places(roots: &Roots) -> Vec<PathBuf> {
  let beneath = |root: Option<&Path>, path| root.map(|root| root.join(path));
  let runtime = |path| beneath(roots.runtime, path);
  let home = |path| beneath(roots.home, path);
  let places = [
    Some(roots.docker.to_owned()),
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
    Some(roots.podman.to_owned()),
    // Podman's virtual machine, before and since version 5 (on macOS).
    home(".local/share/containers/podman/machine/podman.sock"),
    beneath(roots.temporary, "podman/podman-machine-default-api.sock"),
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

/// What the variables say of TLS to the engine of `DOCKER_HOST`. Without any of them there is none, as to Docker's command
/// line: who listens on a port without TLS is for whoever named it to know. Anything between is refused.
async fn tls_of_variables(surroundings: &Surroundings) -> Result<Option<Tls>> {
  let certificates = surroundings.get("DOCKER_CERT_PATH");
  if surroundings.get("DOCKER_TLS_VERIFY").is_some() {
    let (folder, from) = match certificates {
      Some(folder) => (PathBuf::from(folder), "DOCKER_CERT_PATH"),
      None => (
        config_folder(surroundings).unwrap_or_default(),
        "Docker's own files, as DOCKER_CERT_PATH is not set",
      ),
    };
    return Tls::read(&folder, from).await.map(Some);
  }
  if surroundings.get("DOCKER_TLS").is_some() {
    return Err(fail!(
      Unsupported,
      "DOCKER_TLS is set without DOCKER_TLS_VERIFY: TLS to an engine that proves nothing keeps nobody from taking its place. Set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder with the engine's ca.pem."
    ));
  }
  match certificates {
    None => Ok(None),
    Some(folder) => Err(fail!(
      ConfigInvalid,
      "DOCKER_CERT_PATH was {:?} and DOCKER_TLS_VERIFY was not set. Set DOCKER_TLS_VERIFY=1 to use these certificates, or unset DOCKER_CERT_PATH if the engine's port is without TLS.",
      shown(folder)
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
  endpoints: BTreeMap<String, MetaEndpoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MetaEndpoint {
  host: Option<String>,
  #[serde(default, rename = "SkipTLSVerify")]
  skip_tls_verify: bool,
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

/// Where Docker's command line keeps its files.
pub fn config_folder(surroundings: &Surroundings) -> Option<PathBuf> {
  surroundings.get("DOCKER_CONFIG").map(PathBuf::from).or_else(|| surroundings.beneath("HOME", ".docker"))
}

impl Context {
  fn named(name: String, from: String) -> Option<Self> {
    (!name.is_empty() && name != NO_CONTEXT).then_some(Self { name, from })
  }

  async fn engine(&self, surroundings: &Surroundings) -> Result<Endpoint> {
    let Self { name, from } = self;
    let named = shown(name);
    // The command line names the folders of a context by a hash of its name.
    let folder = hex::encode(Sha256::digest(name.as_bytes()));
    let contexts = config_folder(surroundings).unwrap_or_default().join("contexts");
    let path = contexts.join("meta").join(&folder).join("meta.json");
    let meta: Meta = read_json(&path).await?.ok_or_else(|| {
      fail!(
        DockerUnavailable,
        "The docker context {named:?} (of {from}) does not exist: there is no {}. Choose another (docker context use), or pass socketPath.",
        path.display()
      )
    })?;
    let what = format!("docker context {named:?} (of {from})");
    let docker = meta.endpoints.get("docker");
    let host = docker.and_then(|endpoint| endpoint.host.as_deref()).unwrap_or_default();
    let address = match Address::read(host, &format!("The address of the {what}"))? {
      Address::Unix(path) => return Ok(Endpoint::Unix(path)),
      Address::Tcp(address) => address,
    };
    if docker.is_some_and(|endpoint| endpoint.skip_tls_verify) {
      return Err(fail!(
        Unsupported,
        "The {what} skips the check of the engine's certificate, which keeps nobody from taking the engine's place. Give it the engine's CA (docker context update {named} --docker \"host={host},ca=ca.pem\")."
      ));
    }
    let certificates = contexts.join("tls").join(folder).join("docker");
    if !tokio::fs::try_exists(&certificates).await.unwrap_or(true) {
      return Err(fail!(
        Unsupported,
        "The {what} has the engine at {address} without TLS. Give it the engine's certificates (docker context update), or set DOCKER_HOST={address} if you mean it: whoever can read or change that traffic has the engine."
      ));
    }
    Ok(Endpoint::Tcp(address, Some(Tls::read(&certificates, &format!("the {what}")).await?)))
  }
}

#[cfg(test)]
mod tests;
