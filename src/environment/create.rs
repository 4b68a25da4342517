//! A new container for a run: create, start, check, fill. Whatever fails, nothing of it stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;

use super::acquire::held;
use super::carrier::{self, Carrier, Choice};
use super::claim::Claim;
use super::connect::{Connected, connect};
use super::core::Core;
use super::event::Resource;
use super::leftovers;
use super::network::bridge;
use super::seed::seed_archive;
use super::spec::{self, Identity};
use crate::cancel::Cancel;
use crate::docker::ByteStream;
use crate::docker::model::{ContainerSpec, ImageInspection, Inspection};
use crate::error::{Error, Result, fail};
use crate::random;
use crate::sandbox::Sandbox;
use crate::sandbox::connections::Connections;

/// A container that was made for a run and is not on record yet.
pub struct NewContainer {
  /// The engine's id.
  pub id: String,
  /// Its name, a hash of the run key.
  pub name: String,
  /// What can be done in it.
  pub sandbox: Arc<dyn Sandbox>,
  /// Connections that its programs make to the proxy, where there is an allowlist.
  pub connections: Option<Box<dyn Connections>>,
  /// The engine's id of its network, where it has one.
  pub network_id: Option<String>,
  /// Why it has not the resident transport, where that was wanted.
  pub instead: Option<String>,
}

impl NewContainer {
  /// What can be done with it, once; the rest stays.
  pub fn connected(&mut self) -> Connected {
    Connected { sandbox: Arc::clone(&self.sandbox), connections: self.connections.take() }
  }

  /// Removes it with all that it has on the engine.
  pub async fn discard(&self, core: &Core, run: Option<&str>) {
    discard(core, run, &self.id).await;
    if let Some(id) = &self.network_id {
      bridge::close(core, run, id).await;
    }
  }
}

/// A run, by both its names.
#[derive(Clone, Copy)]
pub struct Run<'a> {
  /// Its key in stores, from which its container has its name.
  pub key: &'a str,
  /// Its id within its scope, by which events name it.
  pub id: &'a str,
}

/// What a new workspace is filled with.
pub enum Contents {
  /// What the options declare.
  Seed,
  /// A tar that was saved and vetted before.
  Snapshot(ByteStream),
}

/// Makes a running container for `run`, which carries a hash of the lease's token as its nonce.
pub async fn create_container(
  core: &Core,
  run: Run<'_>,
  claim: &Claim,
  contents: Contents,
  cancel: &Cancel,
) -> Result<NewContainer> {
  core.check_enforcement().await?;
  let image = core.image(cancel).await?;
  let attempt = Attempt { core, run: Some(run), claim, image: &image, cancel };
  let made = Box::pin(attempt.make_any()).await?;
  attempt.fill(made, contents).await
}

/// Makes a running container with an empty workspace for a run that is yet to come. Only process 1 of ours ends it, should
/// this process die.
pub async fn create_unbound(
  core: &Core,
  image: &ImageInspection,
  claim: &Claim,
  cancel: &Cancel,
) -> Result<NewContainer> {
  core.check_enforcement().await?;
  let attempt = Attempt { core, run: None, claim, image, cancel };
  let Choice { carrier, instead } = carrier::choose(core, None, image).await?;
  match instead {
    Some(reason) => Err(fail!(Unsupported, "{reason}")),
    None => attempt.make(carrier, None).await,
  }
}

/// Fills the workspace of a new container with what the options declare.
pub async fn seed(core: &Core, sandbox: &dyn Sandbox, cancel: &Cancel) -> Result<()> {
  fill(core, sandbox, Contents::Seed, cancel).await
}

async fn fill(core: &Core, sandbox: &dyn Sandbox, contents: Contents, cancel: &Cancel) -> Result<()> {
  let tar = match contents {
    Contents::Snapshot(tar) => Some(tar),
    Contents::Seed => {
      let tar = seed_archive(core, cancel).await?;
      tar.map(|tar| futures_util::stream::iter([Ok(tar)]).boxed())
    }
  };
  if let Some(tar) = tar {
    sandbox.import(tar, cancel).await?;
  }
  cancel.check("Acquiring the sandbox")
}

/// One try to make a container.
struct Attempt<'a> {
  core: &'a Core,
  /// `None`: one that is yet to come.
  run: Option<Run<'a>>,
  claim: &'a Claim,
  image: &'a ImageInspection,
  cancel: &'a Cancel,
}

impl Attempt<'_> {
  /// Makes one with the transport that can be had.
  async fn make_any(&self) -> Result<NewContainer> {
    let (core, run) = (self.core, self.run.map(|run| run.id));
    let relied = core.residency.is_verified();
    let Choice { carrier, instead } = carrier::choose(core, run, self.image).await?;
    let mut made = self.make(carrier, instead).await;
    if carrier.is_resident()
      && made.as_ref().is_err_and(carrier::is_of_transport)
      && core.residency.forget()
      && relied
    {
      made = self.make(carrier, None).await;
    }
    match made {
      Err(error) if carrier.is_resident() => {
        let Choice { carrier, instead } = carrier::without(core, run, error)?;
        self.make(carrier, instead).await
      }
      made => made,
    }
  }

  /// Creates, checks, starts and connects. Whatever fails, nothing of it stays.
  async fn make(&self, carrier: Carrier, instead: Option<String>) -> Result<NewContainer> {
    let core = self.core;
    let turn = self.cancel.guard("Acquiring the sandbox", async { Ok(core.starts.acquire().await) }).await?;
    let nonce = nonce(self.claim.token());
    let name = self.run.map_or_else(|| spec::pool_name(&nonce), |run| spec::container_name(run.key));
    let labels = labels(core, self.run, &nonce)?;
    let bridge = match core.proxy {
      Some(_) if !carrier.is_resident() => {
        let name = spec::network_name(&name, random::bytes()?);
        Some(bridge::open(core, self.run_id(), &name, &labels, self.claim).await?)
      }
      _ => None,
    };
    let network = bridge.as_ref().map(|bridge| (bridge.id.clone(), bridge.site));
    let network_id = network.as_ref().map(|(id, _)| id.clone());
    let identity = Identity { name: name.clone(), labels, network };
    let made = self.make_as(carrier, &identity).await;
    drop(turn);
    match made {
      Ok((id, Connected { sandbox, connections })) => {
        let connections = bridge.and_then(|bridge| bridge.connections).or(connections);
        Ok(NewContainer { id, name, sandbox, connections, network_id, instead })
      }
      Err(error) => {
        if let Some(id) = &network_id {
          bridge::close(core, self.run_id(), id).await;
        }
        Err(error)
      }
    }
  }

  async fn make_as(&self, carrier: Carrier, identity: &Identity) -> Result<(String, Connected)> {
    let dialect = self.core.engine.dialect().await?;
    let spec = spec::container_spec(&self.core.options, self.image, identity, carrier, dialect);
    let id = self.create(&spec, &identity.name).await?;
    match self.run(&id, carrier, identity).await {
      Ok(connected) => Ok((id, connected)),
      Err(error) => {
        self.discard(&id).await;
        Err(error)
      }
    }
  }

  async fn create(&self, spec: &ContainerSpec, name: &str) -> Result<String> {
    match self.core.engine.create_container(spec).await {
      Ok(id) => Ok(id),
      Err(error) => {
        // A container may exist all the same: the reply may have been lost.
        let removed = leftovers::remove_container(self.core, name, self.claim).await;
        let error = taken(error, name);
        Err(not_made(self.core, self.run_id(), (Resource::Container, name), error, removed))
      }
    }
  }

  async fn run(&self, id: &str, carrier: Carrier, identity: &Identity) -> Result<Connected> {
    let core = self.core;
    self.cancel.check("Acquiring the sandbox")?;
    // Both to their end: a filler of the volume that is dropped half way stays on the engine.
    let (found, prepared) =
      tokio::join!(core.engine.inspect_container(id), carrier::prepare(core, carrier, id));
    let found = found?;
    check_image(core, &found, self.image)?;
    let network = identity.network.as_ref().map(|(id, _)| id.as_str());
    spec::verify(&found, &core.options, network, core.engine.dialect().await?)?;
    prepared?;
    let connected = connect(core, &found, carrier, self.claim, core.engine.start_container(id)).await;
    if carrier.is_resident() { connected.map_err(carrier::not_ours) } else { connected }
  }

  async fn fill(&self, made: NewContainer, contents: Contents) -> Result<NewContainer> {
    match fill(self.core, made.sandbox.as_ref(), contents, self.cancel).await {
      Ok(()) => Ok(made),
      Err(error) => {
        made.discard(self.core, self.run_id()).await;
        Err(error)
      }
    }
  }

  async fn discard(&self, id: &str) {
    discard(self.core, self.run_id(), id).await;
  }

  fn run_id(&self) -> Option<&str> {
    self.run.map(|run| run.id)
  }
}

fn labels(core: &Core, run: Option<Run<'_>>, nonce: &str) -> Result<BTreeMap<String, String>> {
  let pairs = [
    (spec::LABEL, "1"),
    (spec::LABEL_OWNER, core.owner_id.as_str()),
    (spec::LABEL_FINGERPRINT, core.fingerprint()?),
    run.map_or((spec::LABEL_POOL, "1"), |run| (spec::LABEL_KEY, run.key)),
    (spec::LABEL_NONCE, nonce),
    (spec::LABEL_ENVIRONMENT, core.options.id.as_str()),
    (spec::LABEL_MAKER, &core.host.maker()),
  ];
  Ok(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The lease's token is a secret and labels are not: what a container carries is a hash of it.
pub fn nonce(token: &str) -> String {
  use sha2::{Digest, Sha256};
  let mut hex = hex::encode(Sha256::digest(token.as_bytes()));
  hex.truncate(32);
  hex
}

/// A tag may be moved between the look at the image and the create call; then the container's masks and variables are
/// those of another image.
fn check_image(core: &Core, found: &Inspection, image: &ImageInspection) -> Result<()> {
  if found.image.is_empty() || image.id.is_empty() || found.image == image.id {
    return Ok(());
  }
  Err(fail!(
    DockerApi,
    "Image {} was replaced on the Docker engine while a container of it was made. Acquire the run again.",
    core.options.image
  ))
}

/// Removes a container that nobody will ask for; where that fails, an event is all that tells of it.
pub async fn discard(core: &Core, run: Option<&str>, id: &str) {
  if let Err(error) = core.engine.remove_container(id).await {
    core.events.left(run, Resource::Container, id, &error);
  }
}

/// Why a thing of this name was not made, once what there was of it was `removed`, or was another holder's.
pub fn not_made(
  core: &Core,
  run: Option<&str>,
  (what, name): (Resource, &str),
  error: Error,
  removed: Result<bool>,
) -> Error {
  match removed {
    Ok(true) => {}
    Ok(false) => return held(run.unwrap_or_default()),
    Err(left) => core.events.left(run, what, name, &left),
  }
  error
}

/// The engine's refusal to give a name a second time, as what it means.
pub fn taken(error: Error, name: &str) -> Error {
  if error.code() != crate::error::ErrorCode::Conflict {
    return error;
  }
  error.context(format_args!(
    "This run has a container ({name}) and no lease in this lease store: another acquire of it is under way, another process has it in another lease store, or one ended before it could put it on record. Acquire it again in a moment, or with the lease store of that process; where that is gone, sweep() with its ownerId removes the container, once the process has ended or after two minutes"
  ))
}
