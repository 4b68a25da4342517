//! The core of `@zhivex-ai/sandbox-docker`: one hardened container for each agent run.
//!
//! Read it from the inside out. Pure rooms take values and return values: [`stream`] (exec frames, bounded
//! output, text), [`archive`] (tar rules), [`workspace`] (paths, policy; [`workspace::source`] reads host files).
//! [`docker`] speaks the Engine API. [`supervisor`] is process 1 in a container and the language it speaks. [`sandbox`] is
//! what can be done in one running container. [`proxy`] is the network allowlist. [`store`] keeps leases and snapshots. [`environment`] is the life of a run.
//! `binding` alone knows Node.
//!
//! Without the feature `host` there is only what the program in the container is made of.

pub mod archive;
#[cfg(feature = "host")]
mod awake;
#[cfg(feature = "host")]
pub mod cancel;
#[cfg(feature = "host")]
mod clock;
#[cfg(feature = "host")]
pub mod docker;
#[cfg(feature = "host")]
pub mod environment;
pub mod error;
pub mod limits;
#[cfg(feature = "host")]
pub mod proxy;
#[cfg(feature = "host")]
mod random;
#[cfg(feature = "host")]
pub mod sandbox;
#[cfg(feature = "host")]
pub mod store;
#[cfg(feature = "host")]
pub mod stream;
pub mod supervisor;
pub mod workspace;

#[cfg(feature = "binding")]
pub mod binding;
