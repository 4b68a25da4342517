//! Where leases and snapshots are kept: the interfaces, and stores in memory.

pub mod lease;
mod memory_lease;
mod memory_snapshot;
mod run_key;
pub mod snapshot;
