//! Networks of runs that no lease knows. A network is removed after its container, so those that still have one are left to
//! the next sweep.

use super::{Labels, SweepReport, failure, is_abandoned, note};
use crate::docker::model::ListedNetwork;
use crate::docker::time::seconds_of;
use crate::environment::core::Core;
use crate::environment::create::nonce;
use crate::environment::event::Resource;
use crate::environment::spec;
use crate::error::Result;

pub(super) async fn sweep(core: &Core, now: i64, report: &mut SweepReport) -> Result<()> {
  if core.options.network.allowlist().is_none() {
    return Ok(());
  }
  let label = format!("{}={}", spec::LABEL_OWNER, core.owner_id);
  for network in core.engine.list_networks(&label).await? {
    match is_orphan(core, now, &network).await {
      Ok(true) => {
        let removal = core.engine.remove_network(&network.id).await;
        let (removed, failures) = (&mut report.removed_networks, &mut report.failures);
        note(core, Resource::Network, network.name, removal, removed, failures);
      }
      Ok(false) => {}
      Err(error) => report.failures.push(failure(Resource::Network, &network.name, &error)),
    }
  }
  Ok(())
}

/// Whether it is ours by labels and name, nobody is about to use it, and no lease knows it.
async fn is_orphan(core: &Core, now: i64, network: &ListedNetwork) -> Result<bool> {
  let labels = Labels(&network.labels);
  let (key, nonce_label) = (labels.get(spec::LABEL_KEY), labels.get(spec::LABEL_NONCE));
  let named = !key.is_empty() && spec::is_network_name(&network.name, key);
  // Of unknown age is taken for new: what is old may be removed.
  let created = seconds_of(&network.created).unwrap_or(i64::MAX);
  let abandoned = is_abandoned(core, now, labels.get(spec::LABEL_MAKER), created, false);
  if !named || !labels.are_ours(core)? || !abandoned || core.making.has(nonce_label) {
    return Ok(false);
  }
  let held = core.leases.load(key).await?.is_some_and(|lease| {
    lease.network_id.as_ref() == Some(&network.id) || nonce(&lease.token) == nonce_label
  });
  Ok(!held)
}
