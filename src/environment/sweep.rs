//! Cleaning up after hosts that died: leases of this owner that ended, containers of this owner that no lease holds.

use std::time::Instant;

use serde::Serialize;

use super::core::Core;
use super::create::nonce;
use super::event::{Kind, Resource, millis};
use super::host::Maker;
use super::network;
use super::release::claim_and_remove;
use super::silence::is_free;
use super::spec;
use super::status;
use crate::clock::{now_ms, since_1970};
use crate::docker::model::ListedContainer;
use crate::error::{ErrorCode, Result};
use crate::store::lease::LeaseRecord;

/// A container this young may belong to an acquire that has not saved its lease yet, unless its maker has ended.
pub const SETTLING_SECONDS: u64 = 120;

/// What a sweep did.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepReport {
  /// Run ids whose lease ended and whose resources were removed.
  pub expired_runs: Vec<String>,
  /// Names of containers that no lease held and that were removed.
  pub removed_containers: Vec<String>,
  /// Names of networks that no lease held and that were removed.
  #[serde(skip_serializing_if = "Vec::is_empty")]
  pub removed_networks: Vec<String>,
  /// What should have been removed and could not be, with the reason.
  pub failures: Vec<String>,
}

/// Removes what this owner left. Never another owner's, another fingerprint's, or what a live lease holds.
pub async fn sweep(core: &Core) -> Result<SweepReport> {
  core.check_open()?;
  let (mut report, begun) = (SweepReport::default(), Instant::now());
  let records = core.leases.list(&core.owner_id).await?;
  for record in
    records.into_iter().filter(|record| record.fingerprint.as_str() == core.fingerprint().unwrap_or_default())
  {
    end_expired(core, record, &mut report).await;
  }
  let label = format!("{}={}", spec::LABEL_OWNER, core.owner_id);
  for container in core.engine.list_containers(&label).await? {
    if let Some(name) = orphan(core, &container).await? {
      match core.engine.remove_container(&container.id).await {
        Ok(()) => report.removed_containers.push(name),
        Err(gone) if gone.is_not_found() => {}
        Err(error) => {
          core.events.left(None, Resource::Container, &name, &error);
          report.failures.push(format!("container {name}: {error}"));
        }
      }
    }
  }
  // After the containers, which an engine keeps networks for.
  let (networks, failures) = network::remove_left(core).await?;
  report.removed_networks = networks;
  report.failures.extend(failures);
  core.events.emit(None, || Kind::Swept {
    expired_runs: report.expired_runs.len(),
    removed_containers: report.removed_containers.len(),
    removed_networks: report.removed_networks.len(),
    failures: report.failures.len(),
    duration_ms: millis(begun),
  });
  Ok(report)
}

async fn end_expired(core: &Core, record: LeaseRecord, report: &mut SweepReport) {
  let run = record.run_id.clone();
  if now_ms() <= record.expires_at && !status::is_terminal(&record.status) {
    return;
  }
  match is_free(core, &record).await {
    Ok(true) => {}
    Ok(false) => return,
    Err(error) => return report.failures.push(format!("run {run}: {error}")),
  }
  match claim_and_remove(core, record).await {
    Ok(()) => report.expired_runs.push(run),
    // Somebody took it over this moment.
    Err(error) if error.code() == ErrorCode::Conflict => {}
    Err(error) => report.failures.push(format!("run {run}: {error}")),
  }
}

/// The container's name, where it is ours by labels and name, nobody is about to use it, and no lease knows it. Labels alone prove
/// nothing: an image made from one of our containers inherits them.
async fn orphan(core: &Core, container: &ListedContainer) -> Result<Option<String>> {
  let label = |name: &str| container.labels.get(name).map(String::as_str).unwrap_or_default();
  let (key, pooled) = (label(spec::LABEL_KEY), label(spec::LABEL_POOL) == "1");
  let nonce_label = label(spec::LABEL_NONCE);
  let agrees = |name: &&str| match pooled {
    false => !key.is_empty() && *name == spec::container_name(key),
    true => *name == spec::pool_name(nonce_label) || spec::is_container_name(name),
  };
  let names = container.names.iter().filter_map(|name| name.strip_prefix('/'));
  let Some(name) = names.into_iter().find(agrees) else { return Ok(None) };
  let ours = label(spec::LABEL) == "1"
    && label(spec::LABEL_OWNER) == core.owner_id
    && label(spec::LABEL_FINGERPRINT) == core.fingerprint()?;
  let age = since_1970().as_secs().saturating_sub(u64::try_from(container.created).unwrap_or(0));
  let abandoned = match core.host.maker_state(label(spec::LABEL_MAKER)) {
    Maker::Dead => true,
    // Its lease may be in a store of its own; it sweeps for itself.
    Maker::Alive => false,
    // One of a pool ends itself when its maker does, and when its lease does.
    Maker::Unknown => !pooled && age >= SETTLING_SECONDS,
  };
  if !ours || !abandoned {
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
