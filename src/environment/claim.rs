//! What makes a process the holder of a run.

use std::sync::{Arc, OnceLock};

use super::core::Core;
use crate::error::Result;
use crate::store::lease::{LeaseRecord, LeaseStore};

/// The fence of a run's first holder.
pub const FIRST_FENCE: u64 = 1;

/// A holder's part of a lease. Whoever takes the run over has a higher fence; the token is compared too, since a run that
/// was ended and started anew has the first fence again.
#[derive(Clone)]
pub struct Claim {
  leases: Arc<dyn LeaseStore>,
  key: Arc<OnceLock<String>>,
  token: String,
  fence: u64,
}

impl Claim {
  /// To the lease of this key.
  pub fn new(core: &Core, key: &str, token: &str, fence: u64) -> Self {
    let key = Arc::new(OnceLock::from(key.to_owned()));
    Self { leases: Arc::clone(&core.leases), key, token: token.to_owned(), fence }
  }

  /// To the lease that this holder wrote.
  pub fn of(core: &Core, record: &LeaseRecord) -> Self {
    Self::new(core, &record.key, &record.token, record.fence)
  }

  /// To a lease that is yet to be: of a container that waits for a run.
  pub fn unbound(core: &Core, token: &str) -> Self {
    let leases = Arc::clone(&core.leases);
    Self { leases, key: Arc::default(), token: token.to_owned(), fence: FIRST_FENCE }
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

  /// False where the lease is another holder's or is gone.
  pub async fn is_held(&self) -> Result<bool> {
    // What waits for a run is its maker's.
    if !self.is_bound() {
      return Ok(true);
    }
    self.lease().await.map(|lease| lease.is_some())
  }
}
