//! Networks of runs that no lease knows. A network is removed after its container, so those that still have one are left to
//! the next sweep.

use super::{Labels, SweepReport, is_abandoned, note};
use crate::docker::model::ListedNetwork;
use crate::docker::time::seconds_of;
use crate::environment::core::Core;
use crate::environment::create::nonce;
use crate::environment::event::Resource;
use crate::environment::spec;
use crate::error::Result;

pub(super) async fn sweep(core: &Core, report: &mut SweepReport) -> Result<()> {
  if core.options.network.allowlist().is_none() {
    return Ok(());
  }
  let label = format!("{}={}", spec::LABEL_OWNER, core.owner_id);
  for network in core.engine.list_networks(&label).await? {
    if is_orphan(core, &network).await? {
      let removal = core.engine.remove_network(&network.id).await;
      let (removed, failures) = (&mut report.removed_networks, &mut report.failures);
      note(core, Resource::Network, network.name, removal, removed, failures);
    }
  }
  Ok(())
}

/// Whether it is ours by labels and name, nobody is about to use it, and no lease knows it.
async fn is_orphan(core: &Core, network: &ListedNetwork) -> Result<bool> {
  let labels = Labels(&network.labels);
  let key = labels.get(spec::LABEL_KEY);
  let named = !key.is_empty() && network.name == spec::container_name(key);
  // Long ago where the engine does not say.
  let created = seconds_of(&network.created).unwrap_or(0);
  if !named || !labels.are_ours(core)? || !is_abandoned(core, labels.get(spec::LABEL_MAKER), created, false) {
    return Ok(false);
  }
  let held = core.leases.load(key).await?.is_some_and(|lease| {
    lease.network_id.as_ref() == Some(&network.id) || nonce(&lease.token) == labels.get(spec::LABEL_NONCE)
  });
  Ok(!held)
}
