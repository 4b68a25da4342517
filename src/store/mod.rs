//! What outlives a process: who holds which run ([`lease`]), and the workspaces of runs that wait ([`snapshot`]); in
//! memory, or in files that the processes of one machine share ([`file`]).

pub mod file;
pub mod lease;
pub mod memory_snapshot;
pub mod record;
pub mod snapshot;
