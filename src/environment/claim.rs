//! What makes a process the holder of a run.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::FutureExt;

use super::core::Core;
use crate::awake::Moment;
use crate::docker::engine::Permit;
use crate::error::{Result, fail};
use crate::limits::HEARTBEAT_INTERVAL;
use crate::random;
use crate::store::lease::{LeaseRecord, LeaseStore};

/// Bits of a first fence: a store may keep fences in 32 bits, and process 1 numbers operations by as many of them.
const FIRST_FENCE_BITS: u32 = 30;

/// The fence of a run's first holder. Random, since stores compare fences and nothing else: were the first one always the
/// same, what a holder writes that was stopped until its run had ended and was started anew would replace the new run's
/// lease.
fn first_fence() -> Result<u64> {
  let random = u64::from(u32::from_be_bytes(random::bytes::<4>()?));
  Ok((random & ((1 << FIRST_FENCE_BITS) - 1)) + 1)
}

/// A holder's part of a lease. Whoever takes the run over has a higher fence; one that was ended and started anew has
/// another token too.
#[derive(Clone)]
pub struct Claim {
  leases: Arc<dyn LeaseStore>,
  key: Arc<OnceLock<String>>,
  token: String,
  fence: u64,
  /// The lease is in the store, and whoever takes the run over keeps its token.
  is_shared: bool,
}

impl Claim {
  /// To the lease that this holder wrote.
  pub fn of(core: &Core, record: &LeaseRecord) -> Self {
    let key = Arc::new(OnceLock::from(record.key.clone()));
    let leases = Arc::clone(&core.leases);
    Self { leases, key, token: record.token.clone(), fence: record.fence, is_shared: true }
  }

  /// To a run's first lease, which is yet to be written.
  pub fn first(core: &Core, key: &str) -> Result<Self> {
    let claim = Self::unbound(core)?;
    claim.bind(key);
    Ok(claim)
  }

  /// To the first lease of a run that is yet to come: of a container that waits for one.
  pub fn unbound(core: &Core) -> Result<Self> {
    let leases = Arc::clone(&core.leases);
    let (key, token) = (Arc::default(), random::hex::<32>()?);
    Ok(Self { leases, key, token, fence: first_fence()?, is_shared: false })
  }

  /// The lease of this key it is, for all clones too. Nothing changes where there was one.
  pub fn bind(&self, key: &str) {
    self.key.get_or_init(|| key.to_owned());
  }

  /// False while it is to no lease yet.
  pub fn is_bound(&self) -> bool {
    self.key.get().is_some()
  }

  /// The lease's token, 64 hexadecimal digits, which proves the holder to its container.
  pub fn token(&self) -> &str {
    &self.token
  }

  /// The lease's fence.
  pub const fn fence(&self) -> u64 {
    self.fence
  }

  /// The lease as the store has it; `None` where it is another holder's or is gone, or is yet to be.
  pub async fn lease(&self) -> Result<Option<LeaseRecord>> {
    let Some(key) = self.key.get() else { return Ok(None) };
    let found = self.leases.load(key).await?;
    Ok(found.filter(|record| record.fence == self.fence && record.token == self.token))
  }

  /// False where what carries this token may be another holder's. The token of a lease that is yet to be written nobody else
  /// has.
  pub async fn has_token(&self) -> Result<bool> {
    if self.is_shared { self.is_held().await } else { Ok(true) }
  }

  /// False where the lease is another holder's or is gone.
  pub async fn is_held(&self) -> Result<bool> {
    // What waits for a run is its maker's.
    if !self.is_bound() {
      return Ok(true);
    }
    self.lease().await.map(|lease| lease.is_some())
  }

  /// For what an engine starts whoever asks: an error once the lease is another holder's. The store is asked where that is
  /// a heartbeat ago; whoever follows waits longer than that.
  pub fn permit(&self) -> Permit {
    let (claim, known) = (self.clone(), Arc::new(Mutex::new(None)));
    Arc::new(move || {
      let (claim, known) = (claim.clone(), Arc::clone(&known));
      async move { claim.check(&known).await }.boxed()
    })
  }

  async fn check(&self, known: &Mutex<Option<Moment>>) -> Result<()> {
    let is_recent = |moment: Moment| moment.elapsed() < HEARTBEAT_INTERVAL;
    // Nothing panics while it is locked, and the value is whole at any time.
    let last = || known.lock().unwrap_or_else(PoisonError::into_inner);
    // An answer that took long is of a time before that, so it is asked for once more.
    for _ in 0..2 {
      if last().is_some_and(is_recent) {
        break;
      }
      let asked = Moment::now();
      if !self.is_held().await? {
        return Err(fail!(
          Conflict,
          "This run was taken over by another holder; nothing was started in its container. Acquire the run again."
        ));
      }
      *last() = Some(asked);
    }
    Ok(())
  }
}
