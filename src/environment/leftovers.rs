//! What an acquire made, or found of an earlier one, and nobody will ask for. Whoever may have lost the run meanwhile looks at
//! its lease between seeing a thing and removing it: a next holder makes its own after its lease is on record, so what was
//! seen before is not that.

use super::claim::Claim;
use super::core::Core;
use super::create::{NewContainer, Run, nonce};
use super::event::Resource;
use super::network::bridge;
use super::spec;
use super::status;
use crate::error::{Error, Result};
use crate::store::lease::LeaseRecord;

/// Removes the container of this name where it was made for the claim's lease. False, and nothing is removed: another holder
/// has the lease.
pub async fn remove_container(core: &Core, name: &str, claim: &Claim) -> Result<bool> {
  let found = container(core, name, claim).await?;
  if !claim.has_token().await? {
    return Ok(false);
  }
  if let Some(id) = found {
    remove(core, &id).await?;
  }
  Ok(true)
}

/// The same, with the networks that were made for the lease.
pub async fn remove_all(core: &Core, run: &str, name: &str, claim: &Claim) -> Result<bool> {
  let found = container(core, name, claim).await?;
  let networks = bridge::made_for(core, claim).await?;
  if !claim.has_token().await? {
    return Ok(false);
  }
  if let Some(id) = found {
    let removed = remove(core, &id).await;
    removed.inspect_err(|error| core.events.left(Some(run), Resource::Container, &id, error))?;
  }
  close_all(core, Some(run), &networks).await;
  Ok(true)
}

/// Removes the networks that were made for the claim's lease. False, and nothing is removed: another holder has it.
pub async fn remove_networks(core: &Core, run: Option<&str>, claim: &Claim) -> Result<bool> {
  let networks = bridge::made_for(core, claim).await?;
  if !claim.has_token().await? {
    return Ok(false);
  }
  close_all(core, run, &networks).await;
  Ok(true)
}

async fn close_all(core: &Core, run: Option<&str>, networks: &[String]) {
  for network in networks {
    bridge::close(core, run, network).await;
  }
}

/// The id of the container of this name, where it carries the claim's token.
async fn container(core: &Core, name: &str, claim: &Claim) -> Result<Option<String>> {
  let found = match core.engine.inspect_container(name).await {
    Err(gone) if gone.is_not_found() => return Ok(None),
    found => found?,
  };
  let labels = found.config.labels.unwrap_or_default();
  let is_ours = labels.get(spec::LABEL_NONCE).is_some_and(|label| *label == nonce(claim.token()));
  Ok(is_ours.then_some(found.id))
}

async fn remove(core: &Core, id: &str) -> Result<()> {
  core.engine.remove_container(id).await.or_else(Error::unless_gone)
}

/// Removes the container of a new run that could not be put on record. A store that failed may have written the record all
/// the same, and whoever took the run over since works in that container.
pub async fn unmake(core: &Core, run: Run<'_>, made: &NewContainer, claim: &Claim) {
  let withdrawn = withdraw(core, run.key, claim).await;
  if matches!(withdrawn, Ok(Withdrawn::Followed)) {
    return made.sandbox.detach();
  }
  made.discard(core, Some(run.id)).await;
  // Where nobody can tell, it is tried: another holder's has another fence.
  if !matches!(withdrawn, Ok(Withdrawn::Unwritten))
    && let Err(error) = core.leases.remove(run.key, claim.fence()).await
  {
    core.events.left(Some(run.id), Resource::Lease, run.key, &error);
  }
}

/// What became of a first lease whose save came to nothing.
enum Withdrawn {
  /// It was not written.
  Unwritten,
  /// It was, and says by now that its run has ended: nobody takes that over any more.
  Marked,
  /// It was, and another holder has it.
  Followed,
}

async fn withdraw(core: &Core, key: &str, claim: &Claim) -> Result<Withdrawn> {
  let found = match core.leases.load(key).await? {
    Some(found) if found.token == claim.token() => found,
    _ => return Ok(Withdrawn::Unwritten),
  };
  if found.fence != claim.fence() {
    return Ok(Withdrawn::Followed);
  }
  let ended = LeaseRecord { status: status::FAILED.to_owned(), ..found };
  let marked = core.leases.save(&ended, Some(claim.fence())).await?;
  Ok(if marked { Withdrawn::Marked } else { Withdrawn::Followed })
}

/// Removes the container of a restore that could not be put on record, unless it was all the same, or nobody can tell: a
/// container that no lease speaks of goes with the next restore. The record as it is, where it is still this holder's.
pub async fn unmake_restored(core: &Core, record: LeaseRecord, made: &NewContainer) -> LeaseRecord {
  match core.leases.load(&record.key).await {
    Ok(Some(found)) if found.container_id == made.id => {
      made.sandbox.detach();
      LeaseRecord { fence: record.fence, ..found }
    }
    Ok(_) => {
      made.discard(core, Some(&record.run_id)).await;
      record
    }
    Err(error) => {
      made.sandbox.detach();
      core.events.left(Some(&record.run_id), Resource::Container, &made.id, &error);
      record
    }
  }
}
