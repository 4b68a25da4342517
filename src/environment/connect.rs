//! Talking to a container of ours, by the transport that it was made for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::carrier::Carrier;
use super::claim::Claim;
use super::core::Core;
use super::host::Previous;
use super::network::{self, bridge};
use super::spec;
use crate::clock::since_1970;
use crate::docker::client::Client;
use crate::docker::model::Inspection;
use crate::error::{ErrorCode, Result, fail};
use crate::sandbox::Sandbox;
use crate::sandbox::connections::Connections;
use crate::sandbox::exec::ExecSandbox;
use crate::sandbox::resident::{Container, ResidentSandbox, StillHeld};
use crate::supervisor::embedded::{Binary, by_digest};
use crate::supervisor::link::{self, Identity, Link};
use crate::supervisor::wire::Token;

/// After the end of a lease nobody may come back; the supervisor gives a slow `release` this long.
const DEAD_MAN_MARGIN: Duration = Duration::from_secs(60);

/// A container that waits for a run ends itself this long after its maker did, which tells it so every 5 s.
const POOL_DEAD_MAN: Duration = Duration::from_secs(60);

/// A container that can be worked with.
pub struct Connected {
  /// What can be done in it.
  pub sandbox: Arc<dyn Sandbox>,
  /// Connections to the proxy, where there is an allowlist.
  pub connections: Option<Box<dyn Connections>>,
}

/// How long the supervisor of a run's container goes without a holder.
pub fn dead_man(core: &Core) -> Duration {
  core.options.lease.saturating_add(DEAD_MAN_MARGIN)
}

/// The transport that a container on record was made for; `None` where its supervisor is of another version of this
/// package, which nobody here can vouch for.
pub fn carrier_of(found: &Inspection) -> Option<Carrier> {
  let labels = found.config.labels.as_ref();
  match labels.and_then(|labels| labels.get(spec::LABEL_SUPERVISOR)) {
    None => Some(Carrier::Exec),
    Some(digest) => by_digest(digest).map(Carrier::Resident),
  }
}

/// Opens the transport of a container that does not run yet; `start` runs it, once its output is listened to. Where the
/// container has a network of its own, whoever made that listens on it.
pub async fn connect(
  core: &Core,
  found: &Inspection,
  carrier: Carrier,
  claim: &Claim,
  start: impl Future<Output = Result<()>>,
) -> Result<Connected> {
  let Carrier::Resident(binary) = carrier else {
    start.await?;
    return Ok(Connected { sandbox: exec(core, found, claim, BTreeMap::new()), connections: None });
  };
  let client = client(core, found)?;
  let identity = identity(core, claim)?;
  resident(core, client, found, binary, claim, Link::open(client, &found.id, identity, start)).await
}

/// Opens the transport of a container that another holder had.
pub async fn take_over_container(
  core: &Core,
  found: &Inspection,
  carrier: Carrier,
  claim: &Claim,
  before: Previous,
) -> Result<Connected> {
  let Carrier::Resident(binary) = carrier else {
    let (connections, env) = match core.proxy {
      Some(_) => bridge::reopen(core, found).await?,
      None => (None, BTreeMap::new()),
    };
    return Ok(Connected { sandbox: exec(core, found, claim, env), connections });
  };
  let client = client(core, found)?;
  let identity = identity(core, claim)?;
  let previous = match before {
    Previous::Nobody | Previous::Dead => link::Previous::Gone,
    Previous::Silent => link::Previous::Silent,
  };
  let user = core.options.user.to_string();
  resident(core, client, found, binary, claim, Link::take_over(client, &found.id, &user, identity, previous))
    .await
}

fn exec(core: &Core, found: &Inspection, claim: &Claim, env: BTreeMap<String, String>) -> Arc<dyn Sandbox> {
  let (engine, owner) = (Arc::clone(&core.engine), core.options.user.into());
  Arc::new(ExecSandbox::new(engine, found.id.clone(), owner, env, Some(claim.permit())))
}

fn client<'a>(core: &'a Core, found: &Inspection) -> Result<&'a Client> {
  core.engine.client().ok_or_else(|| {
    fail!(Unsupported, "Container {} has the resident transport, which this client cannot carry.", found.id)
  })
}

fn identity(core: &Core, claim: &Claim) -> Result<Identity> {
  Ok(Identity {
    token: token(claim.token())?,
    fence: claim.fence(),
    dead_man: if claim.is_bound() { dead_man(core) } else { POOL_DEAD_MAN },
  })
}

async fn resident(
  core: &Core,
  client: &Client,
  found: &Inspection,
  binary: &Binary,
  claim: &Claim,
  opening: impl Future<Output = Result<Link>>,
) -> Result<Connected> {
  let since = since_1970().as_secs();
  let ending = client.ending(&found.id).await?;
  let container = Container::new(client.clone(), found.id.clone(), ending, since, still_held(claim));
  let link = match opening.await {
    Ok(link) => link,
    Err(error) if error.code() == ErrorCode::ContainerLost => return Err(container.unreachable(error).await),
    Err(error) => return Err(error),
  };
  check_supervisor(binary, &link)?;
  let sandbox = ResidentSandbox::new(container, link, variables(core, found));
  let connections = match core.proxy {
    Some(_) => Some(sandbox.listen(network::PORT).await?),
    None => None,
  };
  Ok(Connected { sandbox: Arc::new(sandbox), connections })
}

/// A store that does not answer leaves the container to the run's release, or to a sweep.
fn still_held(claim: &Claim) -> StillHeld {
  let claim = claim.clone();
  Box::new(move || {
    let claim = claim.clone();
    async move { claim.is_held().await.unwrap_or(false) }.boxed()
  })
}

/// What answered must be the program that we put there, and must have withstood the attacks that it tried on itself.
fn check_supervisor(binary: &Binary, link: &Link) -> Result<()> {
  let welcome = link.welcome();
  if binary.image_digest() != Some(welcome.digest) {
    return Err(fail!(
      Unsupported,
      "What runs as process 1 of the sandbox is not the supervisor of this package."
    ));
  }
  if !welcome.self_test.is_safe() {
    let broken: Vec<_> = welcome.self_test.broken().collect();
    return Err(fail!(
      Unsupported,
      "Under this engine's kernel and runtime the sandbox's process 1 cannot be protected from its commands (got through: {}). Another runtime may do better.",
      if broken.is_empty() { "not all attacks could be tried".to_owned() } else { broken.join(", ") }
    ));
  }
  Ok(())
}

/// The variables of each command: the container's, and over them the application's, which no container has in its
/// configuration. Process 1 passes none of its own on.
fn variables(core: &Core, found: &Inspection) -> BTreeMap<String, String> {
  let pairs = found.config.env.iter().flatten().filter_map(|variable| variable.split_once('='));
  let of_container = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
  of_container.chain(core.options.env.clone()).collect()
}

fn token(hex: &str) -> Result<Token> {
  let wrong = || fail!(Conflict, "The lease's token is not one of this package's.");
  let mut bytes = [0u8; 32];
  hex::decode_to_slice(hex, &mut bytes).map_err(|_error| wrong())?;
  Ok(Token(bytes))
}
