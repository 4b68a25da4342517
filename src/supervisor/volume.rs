//! How the supervisor gets into a container with a read-only root: a local volume for each digest, filled once, then
//! mounted read-only. No host path is mounted, so remote and rootless engines work.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::embedded::Binary;
use crate::archive::{ArchiveLimits, EntryPath, Owner, PackEntry, PackOptions, SymlinkRule, pack};
use crate::docker::Engine;
use crate::docker::client::Client;
use crate::docker::model::ContainerSpec;
use crate::docker::volume::Volume;
use crate::error::{ErrorCode, Result, fail};

/// Where the volume is mounted.
pub const MOUNT: &str = "/.sandbox";
/// The program in it.
pub const PROGRAM: &str = "/.sandbox/supervisor";
/// Label of our volumes and fillers.
pub const LABEL: &str = "zhivex.supervisor";
/// Label with the digest of the program.
pub const LABEL_DIGEST: &str = "zhivex.supervisor.digest";

/// Name of the program in the volume, and of the file that says that it is whole.
const FILE: &str = "supervisor";
const MARKER: &str = "complete";
/// Only to be executed: a program that may not be read is not dumpable either.
const MODE: u32 = 0o111;
/// A filler that is older was left by a host that died.
const FILLER_AGE: Duration = Duration::from_secs(60);
/// Pause between two looks at another host's filler.
const FILLER_POLL: Duration = Duration::from_millis(50);

/// The volume of a binary: there, ours, and filled. Its name.
pub async fn ensure(client: &Client, binary: &Binary, image: &str) -> Result<String> {
  let digest = binary.hex();
  let name = format!("zhivex-supervisor-{}", digest.get(..32).unwrap_or(&digest));
  let labels: BTreeMap<String, String> =
    [(LABEL.to_owned(), "1".to_owned()), (LABEL_DIGEST.to_owned(), digest)].into();
  let volume = match client.inspect_volume(&name).await {
    Err(absent) if absent.is_not_found() => client.create_volume(&name, &labels).await?,
    found => found?,
  };
  check_ours(&volume, &labels)?;
  let filler = Filler { client, binary, image, volume: &name, labels };
  filler.fill().await?;
  Ok(name)
}

/// Somebody else's volume of our name could be a bind mount of the host's files.
fn check_ours(volume: &Volume, labels: &BTreeMap<String, String>) -> Result<()> {
  let plain = volume.driver == "local" && volume.options.as_ref().is_none_or(BTreeMap::is_empty);
  if plain && volume.labels.as_ref() == Some(labels) {
    return Ok(());
  }
  Err(fail!(
    Unsupported,
    "Volume {} on the Docker engine was not made by this package (driver {}, with options or other labels). Remove it.",
    volume.name,
    volume.driver
  ))
}

/// Fills a volume through a container that is never started. Its fixed name is the lock.
struct Filler<'a> {
  client: &'a Client,
  binary: &'a Binary,
  image: &'a str,
  volume: &'a str,
  labels: BTreeMap<String, String>,
}

impl Filler<'_> {
  async fn fill(&self) -> Result<()> {
    let id = self.lock().await?;
    let filled = self.fill_through(&id).await;
    let removed = self.client.remove_container(&id).await;
    filled?;
    removed.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
  }

  fn name(&self) -> String {
    format!("{}-filler", self.volume)
  }

  /// Creates the filler; while another host has it, waits, and takes it over when that host seems dead.
  async fn lock(&self) -> Result<String> {
    let spec = ContainerSpec {
      image: self.image.to_owned(),
      name: Some(self.name()),
      user: "65534:65534".to_owned(),
      working_dir: "/".to_owned(),
      entrypoint: Some(vec![PROGRAM.to_owned()]),
      network_mode: "none".to_owned(),
      labels: self.labels.clone(),
      no_healthcheck: true,
      no_log: true,
      // Written by the engine's archive call, not by a process: nothing of this container ever runs.
      writable_volumes: [(self.volume.to_owned(), MOUNT.to_owned())].into(),
      ..ContainerSpec::default()
    };
    let since = Instant::now();
    loop {
      match self.client.create_container(&spec).await {
        Err(taken) if taken.code() == ErrorCode::Conflict => {}
        created => return created,
      }
      if since.elapsed() > FILLER_AGE {
        self.take_over().await?;
      }
      sleep(FILLER_POLL).await;
    }
  }

  /// The filler has been there for as long as we have waited: its host is dead or its engine stuck.
  async fn take_over(&self) -> Result<()> {
    match self.client.remove_container(&self.name()).await {
      Err(gone) if gone.is_not_found() => Ok(()),
      removed => removed,
    }
  }

  /// Binary first, marker last: a volume with the marker is whole, and never written again, since a program that runs
  /// cannot be replaced (`ETXTBSY`), and one that starts may find half of it.
  async fn fill_through(&self, id: &str) -> Result<()> {
    if self.marker(id).await?.is_some_and(|marker| marker == self.binary.hex()) {
      return Ok(());
    }
    self.put(id, FILE, Bytes::from_static(self.binary.bytes), MODE).await?;
    self.put(id, MARKER, self.binary.hex().into(), 0o444).await
  }

  async fn marker(&self, id: &str) -> Result<Option<String>> {
    let path = format!("{MOUNT}/{MARKER}");
    let found = match self.client.engine_archive(id, &path).await {
      Err(absent) if absent.is_not_found() => return Ok(None),
      found => found?,
    };
    let wanted = EntryPath::parse(MARKER.as_bytes())
      .map_err(|_refusal| fail!(Internal, "The marker's name is no file name."))?;
    let file = crate::archive::single_file(found, wanted, 256, ErrorCode::Unsupported).await?;
    Ok(String::from_utf8(file.contents.into()).ok())
  }

  async fn put(&self, id: &str, name: &str, contents: Bytes, mode: u32) -> Result<()> {
    let path = EntryPath::parse(name.as_bytes())
      .map_err(|_refusal| fail!(Internal, "The supervisor's name is no file name."))?;
    let limits = ArchiveLimits {
      max_entries: 1,
      max_file_bytes: contents.len() as u64,
      max_total_bytes: contents.len() as u64,
      symlinks: SymlinkRule::Inside,
    };
    let options = PackOptions { owner: Owner { uid: 0, gid: 0 }, mtime: 0, limits };
    let tar = pack(vec![PackEntry::File { path, contents, mode }], &options)
      .map_err(|error| error.into_error(ErrorCode::Internal))?;
    self.client.put_engine_archive(id, MOUNT, tar).await
  }
}
