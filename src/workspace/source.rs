//! (being written elsewhere)
use crate::archive::PackEntry;
use crate::environment::options::HostSource;
use crate::error::Result;
/// Budget.
pub struct Budget {
  /// x
  pub max_file_bytes: u64,
  /// x
  pub max_total_bytes: u64,
  /// x
  pub max_entries: u64,
}
/// x
pub fn collect(_source: &HostSource, _budget: &Budget) -> Result<Vec<PackEntry>> {
  Ok(Vec::new())
}
