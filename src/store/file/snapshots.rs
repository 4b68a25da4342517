//! Snapshots in files.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::Fuse;

use super::directory::Directory;
use super::flushing::Flushing;
use super::snapshot_format::head;
use super::snapshot_reader::{self, Reader};
use super::snapshot_writer::{TEMPORARY, Writer, collect};
use super::{blocking, stem, stem_of};
use crate::error::Result;
use crate::limits::SNAPSHOT_FILE_CHUNK_BYTES;
use crate::store::snapshot::{Snapshot, SnapshotMeta, SnapshotStore};
use crate::stream::ByteStream;

const ENDING: &str = ".snapshot";
/// Digits of the random number in a temporary name.
const RANDOM_DIGITS: usize = 16;

/// Snapshots in files that the processes of one machine share.
#[derive(Debug)]
pub struct FileSnapshotStore {
  directory: Arc<Directory>,
}

impl FileSnapshotStore {
  /// Opens the store in a directory, which is made if it is not there.
  pub fn open(directory: &str) -> Result<Self> {
    Ok(Self { directory: Arc::new(Directory::open(directory, "createFileSnapshotStore")?) })
  }
}

#[async_trait]
impl SnapshotStore for FileSnapshotStore {
  async fn load(&self, key: &str) -> Result<Option<Snapshot>> {
    let (directory, key) = (Arc::clone(&self.directory), key.to_owned());
    let found = blocking(move || snapshot_reader::open(&directory, &name(&key), &key)).await?;
    Ok(found.map(|(meta, reader): (SnapshotMeta, Reader)| Snapshot { meta, tar: reader.stream() }))
  }

  async fn save(&self, key: &str, meta: SnapshotMeta, tar: ByteStream) -> Result<()> {
    let (directory, name, head) = (Arc::clone(&self.directory), name(key), head(key, &meta)?);
    let mut writer = blocking(move || {
      collect_dead(&directory)?;
      Writer::begin(directory, name, &head)
    })
    .await?;
    // It is asked once more after its end.
    let mut tar = tar.fuse();
    let mut flushing = Flushing::default();
    let (mut full, mut empty) = (Vec::new(), Vec::with_capacity(SNAPSHOT_FILE_CHUNK_BYTES));
    loop {
      // Either waits for the other, so that at most two chunks are in memory.
      let (written, gathered) = tokio::join!(write(writer, full), gather(&mut tar, empty));
      (writer, empty) = written?;
      flushing.keep_up(&writer).await?;
      full = gathered?;
      if full.is_empty() {
        break;
      }
    }
    flushing.finish().await?;
    blocking(move || writer.keep()).await
  }

  async fn remove(&self, key: &str) -> Result<()> {
    let (directory, name) = (Arc::clone(&self.directory), name(key));
    blocking(move || directory.remove(&name)).await
  }

  async fn collect(&self) -> Result<Vec<String>> {
    let directory = Arc::clone(&self.directory);
    blocking(move || collect_dead(&directory)).await
  }
}

/// Writes, and gives the buffer back empty.
async fn write(mut writer: Writer, mut bytes: Vec<u8>) -> Result<(Writer, Vec<u8>)> {
  blocking(move || {
    writer.write(&bytes)?;
    bytes.clear();
    Ok((writer, bytes))
  })
  .await
}

/// The next pieces of the tar, a chunk or somewhat more of them; empty at its end.
async fn gather(tar: &mut Fuse<ByteStream>, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
  while buffer.len() < SNAPSHOT_FILE_CHUNK_BYTES {
    match tar.next().await {
      Some(piece) => buffer.extend_from_slice(&piece?),
      None => break,
    }
  }
  Ok(buffer)
}

/// Removes what processes left that died while they wrote; the names of that.
fn collect_dead(directory: &Directory) -> Result<Vec<String>> {
  let mut collected = Vec::new();
  for name in directory.names()?.into_iter().filter(|name| is_temporary(name)) {
    if collect(directory, &name)? {
      collected.push(name);
    }
  }
  Ok(collected)
}

fn name(key: &str) -> String {
  format!("{}{ENDING}", stem(key))
}

/// True for the names that this store gives. The lease store may have the same directory.
pub(super) fn is_name(name: &str) -> bool {
  stem_of(name, ENDING).is_some() || is_temporary(name)
}

fn is_temporary(name: &str) -> bool {
  let parts = name.strip_suffix(TEMPORARY).and_then(|rest| rest.rsplit_once('.'));
  parts.is_some_and(|(name, random)| stem_of(name, ENDING).is_some() && random.len() == RANDOM_DIGITS)
}
