//! The life of a run: options, manifest, acquire, authorize, release, sweep.

pub mod options;
pub mod search_path;
