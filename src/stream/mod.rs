//! Byte streams of commands: the engine's frames taken apart, output kept within its cap, text without split
//! characters. Pure: no sockets, no clock.

pub mod frame;
pub mod json_lines;
pub mod output;
pub mod utf8;

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;

use crate::error::Result;

/// Bytes that come over time.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;
