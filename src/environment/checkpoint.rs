//! Snapshots of a run that is held: when asked for, and every `checkpointMs`.
//!
//! The order of steps: the tar is in the store, then the lease says so. A process that dies in between leaves a snapshot
//! that is newer than its lease says, which is told like one that is older. Whoever works in the meantime is not held up.

use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::changes::Moment;
use super::event::{Kind, millis};
use super::images;
use super::release::DRAIN_TIMEOUT;
use super::session::Session;
use super::snapshot;
use crate::awake;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::limits::SNAPSHOT_CALL_TIMEOUT;
use crate::store::lease::{LeaseRecord, SnapshotState};
use crate::store::snapshot::SnapshotMeta;

const WHAT: &str = "Saving the workspace";

/// How long a release waits for a snapshot that is under way, and was cancelled: its store may take its time for the end of
/// it, and the lease and the engine for a call each.
const TURN_TIMEOUT: Duration = SNAPSHOT_CALL_TIMEOUT.saturating_add(DRAIN_TIMEOUT);

/// What a snapshot came to.
pub enum Taken {
  /// The store has one that holds the workspace as it is.
  Unchanged(SnapshotMeta),
  /// It is kept.
  Saved {
    /// What is known of it.
    meta: SnapshotMeta,
    /// Size of the tar.
    bytes: u64,
    /// When it began.
    moment: Moment,
  },
}

impl Taken {
  /// What is known of the snapshot.
  pub fn meta(&self) -> &SnapshotMeta {
    match self {
      Self::Unchanged(meta) | Self::Saved { meta, .. } => meta,
    }
  }

  /// Size of the tar that was saved.
  pub const fn bytes(&self) -> Option<u64> {
    match self {
      Self::Unchanged(_) => None,
      Self::Saved { bytes, .. } => Some(*bytes),
    }
  }

  /// What the lease has to say of the snapshot now. Whether that is written is the caller's.
  pub fn note(&self, session: &Session, record: &mut LeaseRecord) {
    if let Self::Saved { moment, .. } = self {
      let same = session.changes().settle(*moment);
      record.snapshot_state = if same { SnapshotState::Current } else { SnapshotState::Stale };
    }
    record.snapshot_at = Some(self.meta().created_at);
  }
}

impl Session {
  /// Saves the workspace now, unless the store has it as it is. Commands that run meanwhile are in it as far as they came.
  pub async fn snapshot(&self, caller: &Cancel) -> Result<SnapshotMeta> {
    // A release waits until this is told, so that its own event is the last one.
    let _running = self.running().token();
    self.operate(caller, |cancel| async move { self.checkpoint(&cancel).await }).await
  }

  async fn checkpoint(&self, cancel: &Cancel) -> Result<SnapshotMeta> {
    let _turn = cancel.guard(WHAT, async { Ok(self.saving().lock().await) }).await?;
    let taken = take(self, cancel).await?;
    let Taken::Saved { .. } = &taken else {
      images::renew(self, false, cancel).await?;
      return Ok(taken.meta().clone());
    };
    let image = images::announced(self)?;
    {
      let mut record = self.record().lock().await;
      let noted = |record: &mut LeaseRecord| {
        taken.note(self, record);
        record.image_ids.extend(image.clone());
      };
      if !self.rewrite(&mut record, noted).await? {
        return Err(self.taken_over());
      }
      if record.snapshot_state == SnapshotState::Stale {
        self.changes().doubt();
      }
    }
    if let Some(name) = image {
      images::make(self, &name, cancel).await?;
    }
    Ok(taken.meta().clone())
  }
}

/// Puts the workspace into the store, unless that has it as it is, and tells how that went. Only one at a time: `saving`
/// is held.
pub async fn take(session: &Session, cancel: &Cancel) -> Result<Taken> {
  if let Some(meta) = unchanged(session).await {
    return Ok(Taken::Unchanged(meta));
  }
  let begun = Instant::now();
  let (core, sandbox) = (session.core(), session.sandbox().as_ref());
  let (run, key) = (session.run_id(), session.key());
  let moment = session.changes().moment();
  match snapshot::save(core, sandbox, session.claim(), run, key, cancel).await {
    Ok((meta, bytes)) => {
      session.emit(|| Kind::SnapshotSaved { bytes, duration_ms: millis(begun) });
      Ok(Taken::Saved { meta, bytes, moment })
    }
    Err(error) => {
      failed(session, begun, &error);
      Err(error)
    }
  }
}

/// Tells that a snapshot came to nothing.
pub fn failed(session: &Session, begun: Instant, error: &Error) {
  session.look_for_loss(error);
  if error.is_cancelled() {
    // By who asked for it, or by a release, which takes its own.
    return;
  }
  let code = error.code().as_str();
  session.emit(|| Kind::SnapshotFailed { code, duration_ms: millis(begun) });
}

/// The snapshot that the store has, where that is the workspace as it is. A store that fails here is asked again when the
/// workspace is saved.
async fn unchanged(session: &Session) -> Option<SnapshotMeta> {
  if !session.changes().is_unchanged() {
    return None;
  }
  let record = session.record().lock().await.clone();
  let kept = snapshot::is_kept(session.core(), &record).await.ok().flatten();
  kept.filter(|_| session.changes().is_unchanged())
}

/// Saves the workspace every `checkpointMs`, where it has changed, until the session ends. What goes wrong is told by an
/// event, and tried again the next time.
pub fn start(session: &Session) {
  let Some(every) = session.core().options.checkpoint else { return };
  let (session, life) = (session.clone(), session.life().clone());
  let beats = session.core().beats.clone();
  beats.spawn(async move {
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one comes at once.
    tick.tick().await;
    loop {
      tokio::select! {
        biased;
        () = life.cancelled() => return,
        _ = tick.tick() => {}
      }
      let ended = session.snapshot(&life).await.err().map(|error| error.code());
      if matches!(ended, Some(ErrorCode::ContainerLost | ErrorCode::Conflict | ErrorCode::Released)) {
        return;
      }
    }
  });
}

/// As [`take`], for a release: whatever still runs ends before.
pub async fn take_last(session: &Session) -> Result<Taken> {
  let begun = Instant::now();
  let never = Cancel::new();
  // Never two at once: the one that was begun before may land last, and the lease would speak of this one.
  let Some(_turn) = awake::within(TURN_TIMEOUT, session.saving().lock()).await else {
    let error = fail!(
      Timeout,
      "The workspace could not be saved: a snapshot that was begun before had not ended after {} s.",
      TURN_TIMEOUT.as_secs()
    );
    failed(session, begun, &error);
    return Err(error);
  };
  if session.changes().may_linger()
    && let Err(error) = session.sandbox().kill_all().await
  {
    failed(session, begun, &error);
    return Err(error);
  }
  take(session, &never).await
}
