//! Whether others may have a run that somebody holds.

use super::core::Core;
use super::host::Previous;
use crate::clock::now_ms;
use crate::error::Result;
use crate::limits::SECOND_LOOK;
use crate::store::lease::LeaseRecord;

/// The record as it is now of a run whose holder is nobody, has ended, or is silent; `None` where another may have the run.
/// The clocks of hosts differ, and a host's own may jump: a holder that only seems silent by them gets the time of one more
/// heartbeat by this process's own clock, which does not. One that let go of the run by setting its heartbeat to 0 is not
/// waited for.
pub async fn free(core: &Core, record: LeaseRecord) -> Result<Option<LeaseRecord>> {
  let holder = record.holder.as_ref();
  if !core.host.is_free(holder, now_ms()) {
    return Ok(None);
  }
  match core.host.previous(holder) {
    Previous::Nobody => return Ok(Some(record)),
    // What it wrote last may have come after this look.
    Previous::Dead => {}
    Previous::Silent if has_given_up(&record) => return Ok(Some(record)),
    Previous::Silent => tokio::time::sleep(SECOND_LOOK).await,
  }
  again(core, record).await
}

/// The record once more; `None` where it is another holder's, or its holder was heard of.
pub async fn again(core: &Core, record: LeaseRecord) -> Result<Option<LeaseRecord>> {
  let found = core.leases.load(&record.key).await?;
  Ok(found.filter(|found| (found.fence, &found.holder) == (record.fence, &record.holder)))
}

/// Whether its holder may still write to the workspace, and say so in the record, after anybody's last look at it.
pub fn may_write(core: &Core, record: &LeaseRecord) -> bool {
  core.host.previous(record.holder.as_ref()) == Previous::Silent && !has_given_up(record)
}

fn has_given_up(record: &LeaseRecord) -> bool {
  record.holder.as_ref().is_some_and(|holder| holder.heartbeat_at == 0)
}
