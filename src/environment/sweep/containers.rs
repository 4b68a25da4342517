//! Containers that no lease holds.

use super::{Labels, SweepReport, failure, is_abandoned, note};
use crate::docker::model::ListedContainer;
use crate::environment::core::Core;
use crate::environment::create::nonce;
use crate::environment::event::Resource;
use crate::environment::spec;
use crate::error::Result;

pub(super) async fn sweep(core: &Core, now: i64, report: &mut SweepReport) -> Result<()> {
  let label = format!("{}={}", spec::LABEL_OWNER, core.owner_id);
  for container in core.engine.list_containers(&label).await? {
    match orphan(core, now, &container).await {
      Ok(Some(name)) => {
        let removal = core.engine.remove_container(&container.id).await;
        let (removed, failures) = (&mut report.removed_containers, &mut report.failures);
        note(core, Resource::Container, name, removal, removed, failures);
      }
      Ok(None) => {}
      Err(error) => report.failures.push(failure(Resource::Container, shown_name(&container), &error)),
    }
  }
  Ok(())
}

fn shown_name(container: &ListedContainer) -> &str {
  container.names.first().map_or(&container.id, |name| name.trim_start_matches('/'))
}

/// The container's name, where it is ours by labels and name, nobody is about to use it, and no lease knows it.
async fn orphan(core: &Core, now: i64, container: &ListedContainer) -> Result<Option<String>> {
  let labels = Labels(&container.labels);
  let (key, nonce_label) = (labels.get(spec::LABEL_KEY), labels.get(spec::LABEL_NONCE));
  let pooled = labels.get(spec::LABEL_POOL) == "1";
  let agrees = |name: &&str| match pooled {
    false => !key.is_empty() && *name == spec::container_name(key),
    true => *name == spec::pool_name(nonce_label) || spec::is_container_name(name),
  };
  let names = container.names.iter().filter_map(|name| name.strip_prefix('/'));
  let Some(name) = names.into_iter().find(agrees) else { return Ok(None) };
  // One of a pool ends itself when its maker does, and when its lease does.
  let abandoned = is_abandoned(core, now, labels.get(spec::LABEL_MAKER), container.created, pooled);
  if !labels.are_ours(core)? || !abandoned || core.making.has(nonce_label) {
    return Ok(None);
  }
  // Of a container that waited for a run the labels do not tell for which.
  let leases = if pooled {
    core.leases.list(&core.owner_id).await?
  } else {
    Vec::from_iter(core.leases.load(key).await?)
  };
  let held =
    leases.iter().any(|lease| lease.container_id == container.id || nonce(&lease.token) == nonce_label);
  Ok((!held).then(|| name.to_owned()))
}
