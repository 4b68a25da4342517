//! While a run is held, its holder says so, and its lease is renewed.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::core::Core;
use super::event::{Kind, Resource};
use super::session::Session;
use crate::cancel::Cancel;
use crate::clock::now_ms;
use crate::error::Result;
use crate::limits::HEARTBEAT_INTERVAL;
use crate::store::lease::LeaseRecord;

/// Beats until the session ends, its environment is closed, or another holder has the lease.
pub fn start(session: &Session) {
  let (session, life) = (session.clone(), session.life().clone());
  let beats = session.core().beats.clone();
  beats.spawn(async move {
    let mut beat = beat(session.core()).await;
    let mut row = Row::default();
    loop {
      tokio::select! {
        biased;
        () = life.cancelled() => return hand_back(&session).await,
        _ = beat.tick() => {}
      }
      if !renew(&session, &life, &mut row).await {
        return;
      }
    }
  });
}

/// After `close` nobody in this process works on the run: another holder need not wait until this one is silent.
async fn hand_back(session: &Session) {
  if !session.core().closed.is_cancelled() || session.is_released() {
    return;
  }
  session.running().close();
  session.running().wait().await;
  let used = session.end_network().await;
  session.sandbox().detach();
  let mut record = session.record().lock().await;
  record.network_used = used;
  if session.is_released() {
    return;
  }
  // A store that fails here leaves the holder on record, which then falls silent.
  if let Err(error) = leave(session, &mut record).await {
    session.core().events.left(Some(session.run_id()), Resource::Lease, &record.key, &error);
  }
}

/// Takes this holder off the record, if it is still on it.
async fn leave(session: &Session, record: &mut LeaseRecord) -> Result<()> {
  let held = match session.lease().await? {
    None => false,
    Some(found) => {
      record.extra = found.extra;
      record.holder = None;
      session.core().leases.save(record, Some(session.fence())).await?
    }
  };
  if !held {
    session.lost_lease();
  }
  Ok(())
}

/// Beats that fail one after the other are told once.
#[derive(Default)]
struct Row {
  failing: bool,
}

impl Row {
  /// Whether the lease is still ours after this beat; `None` where the store failed, which tells nothing.
  fn held(&mut self, core: &Core, run: &str, beaten: Result<bool>) -> Option<bool> {
    match beaten {
      Ok(held) => {
        self.failing = false;
        Some(held)
      }
      Err(error) => {
        if !std::mem::replace(&mut self.failing, true) {
          core.events.emit(Some(run), || Kind::HeartbeatFailed { code: error.code().as_str() });
        }
        None
      }
    }
  }
}

/// When a lease that was written just now is to be written again. A short one is renewed often enough.
async fn beat(core: &Core) -> Interval {
  let every = HEARTBEAT_INTERVAL.min(core.options.lease / 3).max(Duration::from_millis(10));
  let mut beat = interval(every);
  beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
  // The first tick comes at once.
  beat.tick().await;
  beat
}

/// False when the lease is another holder's. A store that fails is tried again at the next beat: until the lease ends
/// or others find this holder silent, the run is still ours.
async fn renew(session: &Session, life: &Cancel, row: &mut Row) -> bool {
  let mut record = session.record().lock().await;
  if life.is_cancelled() {
    return false;
  }
  let renewed = match session.lease().await {
    Ok(Some(found)) => {
      // What others wrote into it is theirs.
      record.extra = found.extra;
      record.network_used = session.network_used();
      write_beat(session.core(), &mut record).await
    }
    Ok(None) => Ok(false),
    Err(error) => Err(error),
  };
  let held = row.held(session.core(), session.run_id(), renewed) != Some(false);
  if !held {
    session.lost_lease();
    life.cancel();
    session.end_network().await;
    session.sandbox().detach();
  }
  held
}

/// False: somebody else has the lease.
async fn write_beat(core: &Core, record: &mut LeaseRecord) -> Result<bool> {
  record.expires_at = core.expiry();
  if let Some(holder) = &mut record.holder {
    holder.heartbeat_at = now_ms();
  }
  core.leases.save(record, Some(record.fence)).await
}

/// As [`beating`], for a session that is being released: its lease may be changed by the work.
pub async fn beating_session<T>(session: &Session, work: impl Future<Output = T>) -> T {
  let (mut beat, mut held, mut row) = (beat(session.core()).await, true, Row::default());
  let once = || async {
    let mut record = session.record().lock().await;
    write_beat(session.core(), &mut record).await
  };
  tokio::pin!(work);
  loop {
    // Within one turn the work goes on while a beat is written, which may wait for it.
    tokio::select! {
      biased;
      result = &mut work => return result,
      _ = beat.tick(), if held => {}
    }
    let mut beating = std::pin::pin!(once());
    let beaten = tokio::select! {
      biased;
      result = &mut work => {
        // A write that nobody waits for may come after the next one.
        let _ended = beating.await;
        return result;
      }
      beaten = &mut beating => beaten,
    };
    held = row.held(session.core(), session.run_id(), beaten).unwrap_or(held);
  }
}

/// Runs `work` to its end, in which no session beats for the lease: without a sign of life for so long, another process
/// would take the run over in the middle. It goes on where the lease is lost all the same, since what it made must still
/// be removed; the next write of the lease tells.
pub async fn beating<T>(core: &Core, record: &LeaseRecord, work: impl Future<Output = T>) -> T {
  let (mut beat, mut held, mut row) = (beat(core).await, true, Row::default());
  let mut record = record.clone();
  tokio::pin!(work);
  loop {
    tokio::select! {
      biased;
      result = &mut work => return result,
      _ = beat.tick(), if held => {
        let beaten = write_beat(core, &mut record).await;
        held = row.held(core, &record.run_id, beaten).unwrap_or(held);
      }
    }
  }
}
