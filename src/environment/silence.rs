//! Whether others may have a run that somebody holds.

use super::core::Core;
use super::host::Previous;
use crate::clock::now_ms;
use crate::error::Result;
use crate::limits::SECOND_LOOK;
use crate::store::lease::LeaseRecord;

/// True where a run's holder is nobody, has ended, or is silent. The clocks of hosts differ, and a host's own may jump: a
/// holder that only seems silent by them gets the time of one more heartbeat by this process's own clock, which does not.
/// One that let go of the run by setting its heartbeat to 0 is not waited for.
pub async fn is_free(core: &Core, record: &LeaseRecord) -> Result<bool> {
  let holder = record.holder.as_ref();
  if !core.host.is_free(holder, now_ms()) {
    return Ok(false);
  }
  if core.host.previous(holder) != Previous::Silent || holder.is_some_and(|holder| holder.heartbeat_at == 0) {
    return Ok(true);
  }
  tokio::time::sleep(SECOND_LOOK).await;
  let found = core.leases.load(&record.key).await?;
  Ok(found.is_some_and(|found| (found.fence, &found.holder) == (record.fence, &record.holder)))
}
