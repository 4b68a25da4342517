//! The Docker Engine API: what the product needs of it, over a unix socket.
//!
//! [`Engine`] is the interface, with the methods of the public `DockerClient`; [`client::Client`] speaks HTTP to a
//! real engine, [`memory::MemoryEngine`] is the deterministic double.

pub mod engine;
pub mod memory;
pub mod model;

pub use engine::{ArchiveBody, ByteStream, Engine, EngineKind, ExecEnd, ExecOutput, ExecRequest, Stdin};
