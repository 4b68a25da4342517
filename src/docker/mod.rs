//! The Docker Engine API: what the product needs of it, over a unix socket or a TCP port.
//!
//! [`Engine`] is the interface, with the methods of the public `DockerClient`; [`client::Client`] speaks HTTP to a
//! real engine, [`memory`] is the deterministic double, [`own`] a client that the application wrote.

mod address;
mod archive;
pub mod attach;
mod bridge;
mod chunked;
pub mod client;
pub mod connection;
pub mod container;
mod credential_helper;
mod credentials;
pub mod dialect;
pub mod ending;
mod endpoint;
pub mod engine;
mod exec;
mod exec_stream;
mod files;
mod hijack;
mod image;
pub mod locate;
pub mod memory;
pub mod model;
mod network;
mod node;
pub mod own;
mod progress;
mod pull;
pub mod reference;
mod request;
mod tap;
mod terminate;
pub mod time;
mod tls;
mod transport;
mod version;
pub mod volume;
mod whole_archive;

pub use engine::{
  Archive, ArchiveBody, ByteStream, Engine, EngineKind, ExecEnd, ExecOutput, ExecRequest, Stdin, exit_text,
};
pub use progress::Progress;
pub use pull::Told;
pub use whole_archive::get_whole_archive;
