//! What makes a process the holder of a run.

use std::sync::Arc;

use super::core::Core;
use crate::error::Result;
use crate::store::lease::{LeaseRecord, LeaseStore};

/// A holder's part of a lease. Whoever takes the run over has a higher fence; the token is compared too, since a run that
/// was ended and started anew has the first fence again.
#[derive(Clone)]
pub struct Claim {
  leases: Arc<dyn LeaseStore>,
  key: String,
  token: String,
  fence: u64,
}

impl Claim {
  /// To the lease of this key.
  pub fn new(core: &Core, key: &str, token: &str, fence: u64) -> Self {
    let (key, token) = (key.to_owned(), token.to_owned());
    Self { leases: Arc::clone(&core.leases), key, token, fence }
  }

  /// To the lease that this holder wrote.
  pub fn of(core: &Core, record: &LeaseRecord) -> Self {
    Self::new(core, &record.key, &record.token, record.fence)
  }

  /// The lease's token, 64 hexadecimal digits, which proves the holder to its container.
  pub fn token(&self) -> &str {
    &self.token
  }

  /// The lease's fence.
  pub const fn fence(&self) -> u64 {
    self.fence
  }

  /// The lease as the store has it; `None` where it is another holder's or is gone.
  pub async fn lease(&self) -> Result<Option<LeaseRecord>> {
    let found = self.leases.load(&self.key).await?;
    Ok(found.filter(|record| record.fence == self.fence && record.token == self.token))
  }

  /// False where the lease is another holder's or is gone.
  pub async fn is_held(&self) -> Result<bool> {
    self.lease().await.map(|lease| lease.is_some())
  }
}
