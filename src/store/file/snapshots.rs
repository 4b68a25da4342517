//! Snapshots in files.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;

use super::directory::Directory;
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

  async fn save(&self, key: &str, meta: SnapshotMeta, mut tar: ByteStream) -> Result<()> {
    let (directory, name, head) = (Arc::clone(&self.directory), name(key), head(key, &meta)?);
    let mut writer = blocking(move || {
      collect_dead(&directory)?;
      Writer::begin(directory, name, &head)
    })
    .await?;
    let mut waiting = Vec::with_capacity(SNAPSHOT_FILE_CHUNK_BYTES);
    while let Some(piece) = tar.next().await {
      let piece = piece?;
      if waiting.len() + piece.len() > SNAPSHOT_FILE_CHUNK_BYTES {
        (writer, waiting) = write(writer, waiting).await?;
      }
      if piece.len() > SNAPSHOT_FILE_CHUNK_BYTES {
        (writer, _) = write(writer, piece).await?;
      } else {
        waiting.extend_from_slice(&piece);
      }
    }
    let (writer, _) = write(writer, waiting).await?;
    blocking(move || writer.keep()).await
  }

  async fn remove(&self, key: &str) -> Result<()> {
    let (directory, name) = (Arc::clone(&self.directory), name(key));
    blocking(move || directory.remove(&name)).await
  }
}

/// Writes, and gives the buffer back empty where it can be filled again.
async fn write<B>(mut writer: Writer, bytes: B) -> Result<(Writer, Vec<u8>)>
where
  B: AsRef<[u8]> + Into<Vec<u8>> + Send + 'static,
{
  blocking(move || {
    writer.write(bytes.as_ref())?;
    let mut buffer: Vec<u8> = bytes.into();
    buffer.clear();
    Ok((writer, buffer))
  })
  .await
}

/// Removes what processes left that died while they wrote.
fn collect_dead(directory: &Directory) -> Result<()> {
  let names = directory.names()?;
  names.iter().filter(|name| is_temporary(name)).try_for_each(|name| collect(directory, name))
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
