//! The life of a run: options, manifest, acquire, authorize, release, sweep.
//!
//! [`options`] are checked once. [`manifest`] says what is promised, [`spec`] makes a container of it, [`authorize`]
//! decides on tool calls: pure. [`core`] is what the runs of an environment share; [`acquire`] gives a [`session`],
//! whose [`operations`] end with its `release`; [`sweep`] finishes what dead hosts left. An [`event`] tells an application
//! what no result of a call does.

pub mod acquire;
pub mod authorize;
pub mod carrier;
mod changes;
mod checkpoint;
mod claim;
mod connect;
pub mod core;
mod create;
pub mod event;
mod fetch;
mod heartbeat;
mod host;
mod images;
mod leftovers;
mod making;
pub mod manifest;
pub mod network;
mod observe;
pub mod operations;
pub mod options;
mod places;
mod pool;
pub mod processes;
mod release;
mod search_path;
mod seed;
pub mod session;
mod silence;
mod snapshot;
pub mod spec;
mod status;
pub mod streams;
pub mod sweep;
pub mod text;
