//! Containers that are started and wait for a run, so that one begins in milliseconds. Each is used once.
//!
//! Until a run takes it, a container has a name of its own, the label of the process that made it, and a claim to no lease;
//! it ends itself a minute after that process. A run gives it its name, and its lease the token that the container knows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::future::join_all;

use super::claim::Claim;
use super::connect::dead_man;
use super::core::Core;
use super::create::{NewContainer, Run, create_unbound, seed, taken};
use super::event::{Kind, millis};
use super::spec;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorCode, Result, fail};

/// The containers of one environment that wait.
#[derive(Default)]
pub struct Pool {
  waiting: Mutex<VecDeque<Waiting>>,
  /// Somebody makes more.
  filling: AtomicBool,
}

struct Waiting {
  made: NewContainer,
  claim: Claim,
  /// Id of the image that it was made of.
  image: String,
}

impl Pool {
  fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
    // No code panics while it holds the lock, and a queue is whole between two changes.
    self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

/// A container out of the pool, as one of this run, with its workspace as declared; `None` where none waits that can be
/// used. Whatever fails, nothing of it stays.
pub async fn take(core: &Core, run: Run<'_>, cancel: &Cancel) -> Result<Option<(NewContainer, Claim)>> {
  loop {
    let Some(Waiting { made, claim, image }) = core.pool.waiting().pop_front() else { return Ok(None) };
    // Whether it is of today's image takes the engine as long to tell as to make it the run's.
    let (today, bound) = tokio::join!(core.image(cancel), bind(core, run, &made, &claim, cancel));
    let today = match today {
      Ok(today) => today,
      Err(error) => {
        made.discard(core, Some(run.id)).await;
        return Err(error);
      }
    };
    prune(core, &today.id).await;
    match bound {
      Ok(name) if today.id == image => return Ok(Some((NewContainer { name, ..made }, claim))),
      bound => {
        made.discard(core, Some(run.id)).await;
        if let Err(error) = bound
          && !is_lost(&error)
        {
          return Err(error);
        }
      }
    }
  }
}

/// Whether a container that waited is gone: its stream says so, or the engine, which is asked at the same time.
fn is_lost(error: &Error) -> bool {
  error.code() == ErrorCode::ContainerLost || error.is_not_found()
}

/// Removes what is no use to anybody: what has ended, and what is of an image that has been replaced.
async fn prune(core: &Core, image: &str) {
  let useless: Vec<_> = {
    let mut waiting = core.pool.waiting();
    let (useful, useless) = std::mem::take(&mut *waiting)
      .into_iter()
      .partition(|waiting: &Waiting| waiting.image == image && waiting.made.sandbox.is_alive());
    *waiting = useful;
    Vec::from(useless)
  };
  remove(core, &useless).await;
}

/// Makes a container that waited the run's; its name.
async fn bind(
  core: &Core,
  run: Run<'_>,
  made: &NewContainer,
  claim: &Claim,
  cancel: &Cancel,
) -> Result<String> {
  let Some(client) = core.engine.client() else {
    return Err(fail!(Internal, "There is a pool of containers without a client of its engine."));
  };
  let name = spec::container_name(run.key);
  let filling = async {
    made.sandbox.outlive(dead_man(core)).await?;
    seed(core, made.sandbox.as_ref(), cancel).await
  };
  let (renamed, filled) = tokio::join!(client.rename_container(&made.id, &name), filling);
  renamed.map_err(|error| taken(error, &name))?;
  filled?;
  claim.bind(run.key);
  Ok(name)
}

/// Makes containers until the pool is full, in the background. One that cannot be made is told of, and tried again at the
/// next acquire.
pub fn fill(core: &Arc<Core>) {
  let pool = &core.pool;
  if core.options.pool_size == 0 || core.closed.is_cancelled() || pool.filling.swap(true, Ordering::AcqRel) {
    return;
  }
  let core = Arc::clone(core);
  core.beats.clone().spawn(async move {
    loop {
      let filled = make_up(&core).await;
      core.pool.filling.store(false, Ordering::Release);
      if let Err(error) = filled {
        if !core.closed.is_cancelled() {
          core.events.emit(None, || Kind::PoolFailed {
            code: error.code().as_str(),
            reason: error.message().to_owned(),
          });
        }
        return;
      }
      // One may have been taken since, by somebody who saw that it was being filled.
      if is_full(&core) || core.pool.filling.swap(true, Ordering::AcqRel) {
        return;
      }
    }
  });
}

fn is_full(core: &Core) -> bool {
  core.pool.waiting().len() >= core.options.pool_size
}

async fn make_up(core: &Core) -> Result<()> {
  while !is_full(core) {
    core.check_open()?;
    let begun = Instant::now();
    let claim = Claim::unbound(core)?;
    let image = core.image(&core.closed).await?;
    let made = create_unbound(core, &image, &claim, &core.closed).await?;
    core.events.emit(None, || Kind::Pooled { duration_ms: millis(begun) });
    core.pool.waiting().push_back(Waiting { made, claim, image: image.id });
  }
  Ok(())
}

/// Removes what waits. Nobody may be filling it.
pub async fn empty(core: &Core) {
  let waiting: Vec<_> = core.pool.waiting().drain(..).collect();
  remove(core, &waiting).await;
}

async fn remove(core: &Core, waiting: &[Waiting]) {
  join_all(waiting.iter().map(|waiting| waiting.made.discard(core, None))).await;
}
