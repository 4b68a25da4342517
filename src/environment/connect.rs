//! Talking to a container of ours, by the transport that it was made for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::spec;
use crate::docker::model::Inspection;
use crate::error::{Result, fail};
use crate::sandbox::Sandbox;
use crate::sandbox::exec::ExecSandbox;
use crate::sandbox::resident::ResidentSandbox;
use crate::supervisor::embedded::binary;
use crate::supervisor::link::{Identity, Link};
use crate::supervisor::wire::{Token, image_digest};

/// After the end of a lease nobody may come back; the supervisor gives a slow `release` this long.
const DEAD_MAN_MARGIN: Duration = Duration::from_secs(60);

/// What proves a holder to the container.
#[derive(Clone, Copy)]
pub struct Holding<'a> {
  /// The lease's token, 64 hexadecimal digits.
  pub token: &'a str,
  /// The lease's fence.
  pub fence: u64,
}

/// Opens the transport of `found`; `start` runs the container, where it does not run yet, once its output is listened to.
pub async fn connect(
  core: &Core,
  found: &Inspection,
  holding: Holding<'_>,
  start: impl Future<Output = Result<()>>,
) -> Result<Arc<dyn Sandbox>> {
  let labels = found.config.labels.as_ref();
  let is_resident =
    labels.and_then(|labels| labels.get(spec::LABEL_TRANSPORT)).is_some_and(|name| name == "resident");
  if !is_resident {
    start.await?;
    let owner = core.options.user.into();
    return Ok(Arc::new(ExecSandbox::new(
      Arc::clone(&core.engine),
      found.id.clone(),
      owner,
      BTreeMap::new(),
    )));
  }
  let client = core.engine.client().ok_or_else(|| {
    fail!(Unsupported, "Container {} has the resident transport, which this client cannot carry.", found.id)
  })?;
  let identity = Identity {
    token: token(holding.token)?,
    fence: holding.fence,
    dead_man: core.options.lease.saturating_add(DEAD_MAN_MARGIN),
  };
  let link = Link::open(client, &found.id, identity, start).await?;
  check_supervisor(core, &link).await?;
  Ok(Arc::new(ResidentSandbox::new(Arc::clone(&core.engine), found.id.clone(), link, variables(found))))
}

/// What answered must be the program that we put there, and must have withstood the attacks that it tried on itself.
async fn check_supervisor(core: &Core, link: &Link) -> Result<()> {
  let image = core.engine.inspect_image(&core.options.image).await?;
  let expected = image_digest(binary(&image.architecture)?.bytes);
  let welcome = link.welcome();
  if expected != Some(welcome.digest) {
    return Err(fail!(
      Unsupported,
      "What runs as process 1 of the sandbox is not the supervisor of this package."
    ));
  }
  if !welcome.self_test.is_safe() {
    let broken: Vec<_> = welcome.self_test.broken().collect();
    return Err(fail!(
      Unsupported,
      "On this engine the sandbox's process 1 cannot be protected from its commands (got through: {}).",
      if broken.is_empty() { "not all attacks could be tried".to_owned() } else { broken.join(", ") }
    ));
  }
  Ok(())
}

/// The variables of the container, which its commands have; process 1 passes none of its own on.
fn variables(found: &Inspection) -> BTreeMap<String, String> {
  let pairs = found.config.env.iter().flatten().filter_map(|variable| variable.split_once('='));
  pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn token(hex: &str) -> Result<Token> {
  let wrong = || fail!(Conflict, "The lease's token is not one of this package's.");
  let mut bytes = [0u8; 32];
  if hex.len() != 2 * bytes.len() {
    return Err(wrong());
  }
  for (index, byte) in bytes.iter_mut().enumerate() {
    let digits = hex.get(2 * index..2 * index + 2).ok_or_else(wrong)?;
    *byte = u8::from_str_radix(digits, 16).map_err(|_error| wrong())?;
  }
  Ok(Token(bytes))
}
