//! Tar archives: ours are written plainly, everybody else's are hostile until every entry was vetted.
//!
//! [`entry`] says which names, types and link targets are accepted, [`gate`] applies that and the budgets to a whole
//! archive. [`unpack`] reads what others wrote, [`pack`] writes ours, [`reemit`] turns the first into the second, and
//! [`single`] takes one file that was asked for. Nobody else's header ever reaches a `tar -x`: two readers may
//! understand the same bytes differently (BusyBox ignores the PAX `size`), so what was vetted is written afresh.

pub mod entry;
pub mod error;
pub mod gate;
mod header;
pub mod pack;
mod pax;
pub mod reemit;
pub mod single;
pub mod unpack;
pub(crate) mod write;

#[cfg(test)]
mod fixture;

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;

pub use entry::{Entry, EntryKind, EntryPath, SymlinkRule};
pub use error::{ArchiveError, Refusal};
pub use gate::ArchiveLimits;
pub use pack::{Owner, PackEntry, PackOptions, pack, pack_stream};
pub use reemit::{ReemitOptions, reemit};
pub use single::{OneFile, SingleFile, single_file};
pub use unpack::{Event, Unpacker};

/// An archive that comes over time; the same type as the engine's byte streams.
pub type TarStream = Pin<Box<dyn Stream<Item = crate::error::Result<Bytes>> + Send>>;

/// The unit of a tar archive: headers are one block, contents are filled up to whole ones.
pub(crate) const BLOCK: usize = 512;

/// How many zero bytes follow contents of `size` bytes.
pub(crate) const fn padding(size: u64) -> u64 {
  (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}
