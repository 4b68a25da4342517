//! What outlives a process: who holds which run ([`lease`]), and the workspaces of runs that wait ([`snapshot`]).

pub mod lease;
pub mod snapshot;
