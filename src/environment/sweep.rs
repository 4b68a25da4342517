//! Cleaning up after hosts that died: leases of this owner that ended, and what this owner has on the engine that no lease
//! holds.
//!
//! What carries our labels is ours only where its name agrees with them, since labels are inherited by images that are made
//! of our containers; and it is left over only where nobody can be about to put it on record: its maker has ended, or
//! cannot be told and had time enough.

mod containers;
mod images;
mod networks;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::core::Core;
use super::event::{Kind, Resource, millis};
use super::host::Maker;
use super::images::delete_replaced_of;
use super::release::claim_and_remove;
use super::silence::free;
use super::spec;
use super::status;
use crate::cancel::Cancel;
use crate::clock::now_ms;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::store::lease::LeaseRecord;

/// What is cancelled, for messages.
const WHAT: &str = "The sweep";
/// Something this young may belong to an acquire that has not saved its lease yet, unless its maker has ended.
const SETTLING_SECONDS: i64 = 120;

/// What a sweep did.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepReport {
  /// Run ids whose lease ended and whose resources were removed.
  pub expired_runs: Vec<String>,
  /// Names of containers that no lease held and that were removed.
  pub removed_containers: Vec<String>,
  /// Names of networks that no lease held and that were removed.
  pub removed_networks: Vec<String>,
  /// Ids of committed images that no lease held and that were removed.
  pub removed_images: Vec<String>,
  /// Names of volumes that were removed: of the supervisors of other versions of this package.
  pub removed_volumes: Vec<String>,
  /// Names of temporary files that were removed from the directories of the stores.
  pub removed_files: Vec<String>,
  /// What should have been removed and could not be, with the reason.
  pub failures: Vec<String>,
}

impl SweepReport {
  /// What one step cannot do keeps none of the others from what they can, nor the caller from what was done.
  fn note(&mut self, what: &str, swept: Result<()>) {
    if let Err(error) = swept {
      self.failures.push(format!("{what}: {error}"));
    }
  }
}

/// Removes what this owner left. Never another owner's, another fingerprint's, or what a live lease holds. Cancelled, it is over
/// at once for the caller, and goes on to the end of the step that it has begun: a run that it claimed would be held by it
/// until it counts as silent.
pub async fn sweep(core: &Arc<Core>, cancel: &Cancel) -> Result<SweepReport> {
  core.check_open()?;
  cancel.check(WHAT)?;
  let (own, until) = (Arc::clone(core), cancel.clone());
  let sweeping = core.beats.spawn(async move { sweep_until(&own, &until).await });
  let over =
    async { sweeping.await.map_err(|error| fail!(Internal, "A sweep broke off.").with_source(error))? };
  cancel.guard(WHAT, over).await
}

async fn sweep_until(core: &Core, cancel: &Cancel) -> Result<SweepReport> {
  let (mut report, begun) = (SweepReport::default(), Instant::now());
  // Before the list, which may do the same without a word.
  let collected = core.leases.collect().await.map(|names| report.removed_files.extend(names));
  report.note("temporary files of the lease store", collected);
  for record in core.leases.list(&core.owner_id).await? {
    cancel.check(WHAT)?;
    if record.fingerprint == core.fingerprint()? {
      look_at_lease(core, record, &mut report).await;
    }
  }
  // Nothing is old by the clock of an engine that does not answer.
  let now = core.engine.time().await.unwrap_or(0);
  // Containers first: a network or a volume is in use while one has it.
  cancel.check(WHAT)?;
  let swept = containers::sweep(core, now, &mut report).await;
  report.note("containers", swept);
  cancel.check(WHAT)?;
  let swept = networks::sweep(core, now, &mut report).await;
  report.note("networks", swept);
  cancel.check(WHAT)?;
  let swept = images::sweep(core, now, &mut report).await;
  report.note("images", swept);
  cancel.check(WHAT)?;
  let swept = volumes::sweep(core, now, &mut report).await;
  report.note("volumes", swept);
  let collected = core.snapshots.collect().await.map(|names| report.removed_files.extend(names));
  report.note("temporary files of the snapshot store", collected);
  core.events.emit(None, || Kind::Swept {
    expired_runs: report.expired_runs.len(),
    removed_containers: report.removed_containers.len(),
    removed_networks: report.removed_networks.len(),
    failures: report.failures.len(),
    duration_ms: millis(begun),
  });
  Ok(report)
}

async fn look_at_lease(core: &Core, record: LeaseRecord, report: &mut SweepReport) {
  if now_ms() > record.expires_at || status::is_terminal(&record.status) {
    return end_expired(core, record, report).await;
  }
  let run = &record.run_id;
  match delete_replaced_of(core, &record).await {
    Ok(Some(false)) => {
      report.failures.push(format!("run {run}: an image that was replaced cannot be deleted"))
    }
    Ok(_) => {}
    Err(error) => report.failures.push(format!("run {run}: {error}")),
  }
}

async fn end_expired(core: &Core, record: LeaseRecord, report: &mut SweepReport) {
  let run = record.run_id.clone();
  let record = match free(core, record).await {
    Ok(Some(record)) => record,
    Ok(None) => return,
    Err(error) => return report.failures.push(format!("run {run}: {error}")),
  };
  // It may have been acquired and kept meanwhile.
  if now_ms() <= record.expires_at && !status::is_terminal(&record.status) {
    return;
  }
  match claim_and_remove(core, record).await {
    Ok(()) => report.expired_runs.push(run),
    // Somebody took it over this moment.
    Err(error) if error.code() == ErrorCode::Conflict => {}
    Err(error) => report.failures.push(format!("run {run}: {error}")),
  }
}

/// Labels of something on the engine.
struct Labels<'a>(&'a BTreeMap<String, String>);

impl Labels<'_> {
  fn get(&self, name: &str) -> &str {
    self.0.get(name).map(String::as_str).unwrap_or_default()
  }

  /// By its labels, of this owner and fingerprint.
  fn are_ours(&self, core: &Core) -> Result<bool> {
    Ok(
      self.get(spec::LABEL) == "1"
        && self.get(spec::LABEL_OWNER) == core.owner_id
        && self.get(spec::LABEL_FINGERPRINT) == core.fingerprint()?,
    )
  }
}

/// Whether nobody can be about to put something on record that this process made, at this time in seconds since 1970 by the
/// engine's clock, which is another than ours. `ends_itself`: it does not outlive its maker for long.
fn is_abandoned(core: &Core, now: i64, maker: &str, created: i64, ends_itself: bool) -> bool {
  match core.host.maker_state(maker) {
    Maker::Dead => true,
    // Its lease may be in a store of its own; it sweeps for itself.
    Maker::Alive => false,
    Maker::Unknown => !ends_itself && now.saturating_sub(created) >= SETTLING_SECONDS,
  }
}

/// Notes what a removal came to. What is gone already was not removed by us, and what is in use by now is left.
fn note(
  core: &Core,
  resource: Resource,
  name: String,
  removal: Result<()>,
  removed: &mut Vec<String>,
  failures: &mut Vec<String>,
) {
  match removal {
    Ok(()) => removed.push(name),
    Err(gone) if gone.is_not_found() => {}
    Err(error) => {
      core.events.left(None, resource, &name, &error);
      failures.push(failure(resource, &name, &error));
    }
  }
}

fn failure(resource: Resource, name: &str, error: &Error) -> String {
  format!("{} {name}: {error}", resource.as_str())
}
