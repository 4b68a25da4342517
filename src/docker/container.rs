//! Containers: create, start, inspect, kill, list, remove, commit.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::dialect::Dialect;
use super::model::{ContainerSpec, Inspection, ListedContainer};
use super::request::{Reply, api_error, encode, engine_message, segment};
use crate::error::{Error, ErrorCode, Result, fail};

/// Whether a container is frozen while an image is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
  /// As engines do unless told otherwise.
  During,
  /// Its processes go on.
  Never,
}

/// How long another removal of the same container may take.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(30);
/// First pause between two looks whether it is gone; it doubles up to the slowest.
const REMOVAL_POLL: Duration = Duration::from_millis(5);
const REMOVAL_SLOWEST_POLL: Duration = Duration::from_millis(250);

/// The reply to a create or commit.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Created {
  id: String,
}

/// The body of `POST /containers/create`.
pub fn create_body(spec: &ContainerSpec) -> Value {
  let mut body = json!({
    "Image": spec.image, "User": spec.user, "WorkingDir": spec.working_dir, "Env": spec.env, "Cmd": spec.cmd,
    "Labels": spec.labels,
    "HostConfig": {
      "NetworkMode": spec.network_mode, "ReadonlyRootfs": spec.readonly_rootfs,
      // Memory and swap together are limited to the memory: no swap.
      "Memory": spec.memory_bytes, "MemorySwap": spec.memory_bytes,
      "NanoCpus": spec.nano_cpus, "PidsLimit": spec.pids_limit,
      "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges:true"],
      "Init": spec.init, "Tmpfs": spec.tmpfs,
    },
  });
  let ulimits: Vec<Value> =
    spec.ulimits.iter().map(|(name, limit)| json!({ "Name": name, "Soft": limit, "Hard": limit })).collect();
  let read_only = spec.read_only_volumes.iter().map(|mount| volume_mount(mount, &spec.volume_labels, true));
  let writable = spec.writable_volumes.iter().map(|mount| volume_mount(mount, &spec.volume_labels, false));
  let mounts: Vec<Value> = read_only.chain(writable).collect();
  let mut set = |path: &str, value: Option<Value>| {
    let Some(value) = value else { return };
    if let Some(slot) = slot(&mut body, path) {
      *slot = value;
    }
  };
  set("/Entrypoint", spec.entrypoint.as_ref().map(|entrypoint| json!(entrypoint)));
  set("/Hostname", spec.hostname.as_ref().map(|hostname| json!(hostname)));
  set("/Healthcheck", spec.no_healthcheck.then(|| json!({ "Test": ["NONE"] })));
  set("/HostConfig/IpcMode", spec.ipc_mode.as_ref().map(|mode| json!(mode)));
  set("/HostConfig/Runtime", spec.runtime.as_ref().map(|runtime| json!(runtime)));
  set("/HostConfig/Dns", (!spec.dns.is_empty()).then(|| json!(spec.dns)));
  set("/HostConfig/Sysctls", (!spec.sysctls.is_empty()).then(|| json!(spec.sysctls)));
  set("/HostConfig/Ulimits", (!ulimits.is_empty()).then(|| json!(ulimits)));
  set("/OpenStdin", spec.open_stdin.then_some(json!(true)));
  set("/StdinOnce", spec.open_stdin.then_some(json!(false)));
  set("/AttachStdin", spec.open_stdin.then_some(json!(true)));
  set("/AttachStdout", spec.open_stdin.then_some(json!(true)));
  set("/HostConfig/AutoRemove", spec.auto_remove.then_some(json!(true)));
  set("/HostConfig/Mounts", (!mounts.is_empty()).then(|| json!(mounts)));
  set("/HostConfig/LogConfig", spec.no_log.then(|| json!({ "Type": "none" })));
  body
}

/// `NoCopy`: otherwise the engine copies what the image has at that place into an empty volume. A volume that was removed
/// meanwhile is made anew by the engine, with the labels that it had.
fn volume_mount(
  (volume, target): (&String, &String),
  labels: &BTreeMap<String, String>,
  read_only: bool,
) -> Value {
  json!({
    "Type": "volume", "Source": volume, "Target": target, "ReadOnly": read_only,
    "VolumeOptions": { "NoCopy": true, "Labels": labels },
  })
}

/// The place of `path` in an object of objects, made where it is not there.
fn slot<'a>(body: &'a mut Value, path: &str) -> Option<&'a mut Value> {
  let (parent, key) = path.rsplit_once('/')?;
  Some(body.pointer_mut(parent)?.as_object_mut()?.entry(key).or_insert(Value::Null))
}

impl Client {
  pub(super) async fn create(&self, spec: &ContainerSpec) -> Result<String> {
    let path = match &spec.name {
      Some(name) => format!("/containers/create?name={}", encode(name)),
      None => "/containers/create".to_owned(),
    };
    let reply = self.call(Method::POST, &path, Some(&create_body(spec))).await?;
    match reply.meaning() {
      status if status.is_success() => {
        serde_json::from_slice::<Created>(&reply.body).map(|created| created.id).map_err(|error| {
          fail!(DockerApi, "The Docker engine created a container and told no id.").with_source(error)
        })
      }
      StatusCode::NOT_FOUND => Err(self.not_created(spec, &path, &reply).await),
      StatusCode::CONFLICT if spec.name.is_some() => {
        Err(name_taken(spec.name.as_deref().unwrap_or_default(), &reply))
      }
      _ => Err(api_error(&Method::POST, &path, &reply)),
    }
  }

  /// A missing image and a missing network have the same status; the engine is asked which it is.
  async fn not_created(&self, spec: &ContainerSpec, path: &str, reply: &Reply) -> Error {
    match self.image(&spec.image).await {
      Err(error) if error.is_not_found() => fail!(
        ImageMissing,
        "Image {} is not on the Docker engine ({}). Fetch it with \"docker pull {}\", or pass another image.",
        spec.image,
        engine_message(&reply.body),
        spec.image
      ),
      _ => api_error(&Method::POST, path, reply),
    }
  }

  pub(super) async fn start(&self, id: &str) -> Result<()> {
    let path = format!("/containers/{}/start", segment(id)?);
    let reply = self.call(Method::POST, &path, None).await?;
    match reply.status {
      StatusCode::NOT_MODIFIED => Ok(()),
      status if status.is_success() => Ok(()),
      _ => Err(api_error(&Method::POST, &path, &reply)),
    }
  }

  pub(super) async fn inspection(&self, id: &str) -> Result<Inspection> {
    self.json(Method::GET, &format!("/containers/{}/json", segment(id)?), None).await
  }

  pub(super) async fn kill(&self, id: &str, signal: &str) -> Result<()> {
    let path = format!("/containers/{}/kill?signal={}", segment(id)?, encode(signal));
    let reply = self.call(Method::POST, &path, None).await?;
    match reply.meaning() {
      status if status.is_success() => Ok(()),
      StatusCode::NOT_FOUND => Err(api_error(&Method::POST, &path, &reply)),
      // One that has ended is refused, with a status that differs between engines. It is what a kill is for.
      _ => match self.inspection(id).await {
        Ok(found) if !found.state.running => Ok(()),
        Err(gone) if gone.is_not_found() => Ok(()),
        _ => Err(api_error(&Method::POST, &path, &reply)),
      },
    }
  }

  pub(super) async fn list(&self, label: &str) -> Result<Vec<ListedContainer>> {
    let filters = json!({ "label": [label] }).to_string();
    let path = format!("/containers/json?all=true&filters={}", encode(&filters));
    let listed: Vec<ListedContainer> = self.json(Method::GET, &path, None).await?;
    Ok(listed.into_iter().filter(|container| has_label(&container.labels, label)).collect())
  }

  /// Gives a container another name.
  ///
  /// # Errors
  ///
  /// `CONFLICT` where another has it; `NOT_FOUND`; errors of the engine.
  pub async fn rename_container(&self, id: &str, name: &str) -> Result<()> {
    let path = format!("/containers/{}/rename?name={}", segment(id)?, encode(name));
    let reply = self.call(Method::POST, &path, None).await?;
    match reply.meaning() {
      status if status.is_success() => Ok(()),
      StatusCode::CONFLICT => Err(name_taken(name, &reply)),
      _ => Err(api_error(&Method::POST, &path, &reply)),
    }
  }

  pub(super) async fn remove(&self, id: &str) -> Result<()> {
    let path = format!("/containers/{}?force=true&v=true", segment(id)?);
    let reply = self.call(Method::DELETE, &path, None).await?;
    match reply.meaning() {
      status if status.is_success() => Ok(()),
      // Podman gives up where the container ended by itself just before it was killed for this.
      StatusCode::CONFLICT if reply.status != StatusCode::CONFLICT => self.remove_again(id, &path).await,
      // To a forced removal this says that another is under way, which may take a moment. The state meanwhile may be
      // any: an engine calls a container running while it kills it.
      StatusCode::CONFLICT => self.wait_removed(id, || api_error(&Method::DELETE, &path, &reply)).await,
      _ => Err(api_error(&Method::DELETE, &path, &reply)),
    }
  }

  async fn remove_again(&self, id: &str, path: &str) -> Result<()> {
    sleep(REMOVAL_POLL).await;
    let reply = self.call(Method::DELETE, path, None).await?;
    match reply.meaning() {
      // It went by itself.
      StatusCode::NOT_FOUND => Ok(()),
      status if status.is_success() => Ok(()),
      StatusCode::CONFLICT => self.wait_removed(id, || api_error(&Method::DELETE, path, &reply)).await,
      _ => Err(api_error(&Method::DELETE, path, &reply)),
    }
  }

  async fn wait_removed(&self, id: &str, refusal: impl Fn() -> Error) -> Result<()> {
    let deadline = Instant::now() + REMOVAL_TIMEOUT;
    let mut pause = REMOVAL_POLL;
    loop {
      match self.inspection(id).await {
        Err(gone) if gone.is_not_found() => return Ok(()),
        Err(error) if error.code() == ErrorCode::DockerUnavailable => return Err(error),
        _ if Instant::now() >= deadline => return Err(refusal()),
        _ => sleep(pause).await,
      }
      pause = (pause * 2).min(REMOVAL_SLOWEST_POLL);
    }
  }

  pub(super) async fn commit(
    &self,
    id: &str,
    repo: &str,
    tag: &str,
    labels: Option<&BTreeMap<String, String>>,
    pause: Pause,
  ) -> Result<String> {
    let pause = if pause == Pause::Never { "&pause=false" } else { "" };
    let changes = match (self.dialect().await?, labels) {
      (Dialect::Podman, Some(labels)) => label_changes(labels)?,
      _ => String::new(),
    };
    let path =
      format!("/commit?container={}&repo={}&tag={}{pause}{changes}", encode(id), encode(repo), encode(tag));
    // Podman refuses a commit without a body.
    let body = labels.map_or_else(|| json!({}), |labels| json!({ "Labels": labels }));
    let id = self.json::<Created>(Method::POST, &path, Some(&body)).await?.id;
    // Podman leaves out what it begins with everywhere else, lists of images among it.
    Ok(if id.contains(':') { id } else { format!("sha256:{id}") })
  }
}

/// Labels of a commit as Podman takes them, which does not look at those in the body.
fn label_changes(labels: &BTreeMap<String, String>) -> Result<String> {
  let change = |(name, value): (&String, &String)| {
    let label = format!("{name}={value}");
    // The next line would be another instruction.
    if label.chars().any(char::is_control) {
      return Err(fail!(
        Unsupported,
        "Podman can give an image no label with control characters: {label:?}."
      ));
    }
    Ok(format!("&changes={}", encode(&format!("LABEL {label}"))))
  };
  labels.iter().map(change).collect()
}

fn name_taken(name: &str, reply: &Reply) -> Error {
  fail!(Conflict, "A container named {name} exists already: {}", engine_message(&reply.body))
}

/// True where the labels have `name`, or `name=value` with exactly that value. Engines' own filters are checked again:
/// one that ignored them would hand us strangers' containers.
pub fn has_label(labels: &BTreeMap<String, String>, label: &str) -> bool {
  match label.split_once('=') {
    None => labels.contains_key(label),
    Some((name, value)) => labels.get(name).is_some_and(|found| found == value),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn labels_match_whole() {
    let labels = BTreeMap::from([
      ("run".to_owned(), "run-1".to_owned()),
      ("eq".to_owned(), "a=b".to_owned()),
      ("none".to_owned(), String::new()),
    ]);
    for label in ["run", "run=run-1", "eq=a=b", "none", "none="] {
      assert!(has_label(&labels, label), "{label}");
    }
    for label in ["ru", "run=run", "run=run-10", "run=", "eq=a", "other", "none=x"] {
      assert!(!has_label(&labels, label), "{label}");
    }
  }

  #[test]
  fn a_plain_spec_gives_the_plain_body() {
    let spec = ContainerSpec { image: "i".to_owned(), memory_bytes: 7, ..ContainerSpec::default() };
    let body = create_body(&spec);
    assert_eq!(body["HostConfig"]["MemorySwap"], 7);
    assert_eq!(body["HostConfig"]["CapDrop"], json!(["ALL"]));
    assert_eq!(body["HostConfig"]["SecurityOpt"], json!(["no-new-privileges:true"]));
    for absent in ["Entrypoint", "Healthcheck", "Hostname"] {
      assert!(body.get(absent).is_none(), "{absent}");
    }
    assert!(body["HostConfig"].get("IpcMode").is_none());
  }
}
