//! The life of a run: options, manifest, acquire, authorize, release, sweep.

pub mod manifest;
pub mod options;
pub mod search_path;
pub mod spec;
