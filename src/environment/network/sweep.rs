//! Networks that an acquire left behind whose process died before its lease was saved.

use std::collections::BTreeMap;

use crate::clock::since_1970;
use crate::docker::model::ListedNetwork;
use crate::docker::time::seconds_of;
use crate::environment::core::Core;
use crate::environment::create::nonce;
use crate::environment::event::Resource;
use crate::environment::host::Maker;
use crate::environment::spec;
use crate::environment::sweep::SETTLING_SECONDS;
use crate::error::Result;

/// Removes this owner's networks that no lease knows and nobody is about to use; their names, and what could not be
/// removed. A network is removed after its container, so those that still have one are left to the next sweep.
pub async fn remove_left(core: &Core) -> Result<(Vec<String>, Vec<String>)> {
  let (mut removed, mut failures) = (Vec::new(), Vec::new());
  if core.options.network.allowlist().is_none() {
    return Ok((removed, failures));
  }
  let label = format!("{}={}", spec::LABEL_OWNER, core.owner_id);
  for network in core.engine.list_networks(&label).await? {
    if !is_left(core, &network).await? {
      continue;
    }
    match core.engine.remove_network(&network.id).await {
      Ok(()) => removed.push(network.name),
      Err(gone) if gone.is_not_found() => {}
      Err(error) => {
        core.events.left(None, Resource::Network, &network.name, &error);
        failures.push(format!("network {}: {error}", network.name));
      }
    }
  }
  Ok((removed, failures))
}

async fn is_left(core: &Core, network: &ListedNetwork) -> Result<bool> {
  let label = |name: &str| text(&network.labels, name);
  let key = label(spec::LABEL_KEY);
  let ours = label(spec::LABEL) == "1"
    && label(spec::LABEL_OWNER) == core.owner_id
    && label(spec::LABEL_FINGERPRINT) == core.fingerprint()?
    && !key.is_empty()
    && network.name == spec::container_name(key);
  let age = since_1970().as_secs().saturating_sub(created_at(network));
  let abandoned = match core.host.maker_state(label(spec::LABEL_MAKER)) {
    Maker::Dead => true,
    Maker::Alive => false,
    Maker::Unknown => age >= SETTLING_SECONDS,
  };
  if !ours || !abandoned {
    return Ok(false);
  }
  let held = core.leases.load(key).await?.is_some_and(|lease| {
    lease.network_id.as_ref() == Some(&network.id) || nonce(&lease.token) == label(spec::LABEL_NONCE)
  });
  Ok(!held)
}

/// Seconds since 1970; long ago where the engine does not say.
fn created_at(network: &ListedNetwork) -> u64 {
  seconds_of(&network.created).and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0)
}

fn text<'a>(labels: &'a BTreeMap<String, String>, name: &str) -> &'a str {
  labels.get(name).map(String::as_str).unwrap_or_default()
}
