//! While a run is held, its holder says so, and its lease is renewed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::acquire::expiry;
use super::core::Core;
use super::host::now_ms;
use super::session::Session;
use crate::cancel::Cancel;
use crate::limits::HEARTBEAT_INTERVAL;
use crate::store::lease::LeaseStore;

/// Beats until the session ends or another holder has the lease.
pub fn start(session: &Session) {
  let (session, life) = (session.clone(), session.life().clone());
  tokio::spawn(async move {
    let mut beat = interval(beat_interval(session.core()));
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once, and the lease was written just now.
    beat.tick().await;
    loop {
      tokio::select! {
        biased;
        () = life.cancelled() => return,
        _ = beat.tick() => {}
      }
      if !renew(&session, &life).await {
        return;
      }
    }
  });
}

/// A short lease is renewed often enough.
fn beat_interval(core: &Arc<Core>) -> Duration {
  HEARTBEAT_INTERVAL.min(core.options.lease / 3).max(Duration::from_millis(10))
}

/// False when the lease is another holder's. A store that fails is tried again at the next beat: until the lease ends
/// or others find this holder silent, the run is still ours.
async fn renew(session: &Session, life: &Cancel) -> bool {
  let mut record = session.record().lock().await;
  if life.is_cancelled() {
    return false;
  }
  record.expires_at = expiry(session.core());
  if let Some(holder) = &mut record.holder {
    holder.heartbeat_at = now_ms();
  }
  match session.core().leases.save(&record, Some(session.fence())).await {
    Ok(true) => true,
    Ok(false) => {
      life.cancel();
      false
    }
    Err(_failed) => true,
  }
}
