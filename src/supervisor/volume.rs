//! How the supervisor gets into a container with a read-only root: a local volume for each digest, filled once, then
//! mounted read-only. No host path is mounted, so remote and rootless engines work.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::embedded::{Binary, by_digest};
use crate::archive::{ArchiveLimits, EntryPath, Owner, PackEntry, PackOptions, SymlinkRule, pack};
use crate::docker::Engine;
use crate::docker::client::Client;
use crate::docker::model::{ContainerSpec, ListedContainer};
use crate::docker::volume::Volume;
use crate::error::{Error, ErrorCode, Result, fail};

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
/// A marker is a digest in hexadecimal; something longer is none.
const MAX_MARKER_BYTES: u64 = 256;
/// Only to be executed: a program that may not be read is not dumpable either.
const MODE: u32 = 0o111;
/// A filler that is older was left by a host that died.
const FILLER_AGE: Duration = Duration::from_secs(60);
/// Attempts where others remove our filler.
const FILL_ATTEMPTS: u32 = 3;
/// Pause between two looks at another host's filler.
const FILLER_POLL: Duration = Duration::from_millis(50);

/// The name of a binary's volume.
pub fn name(binary: &Binary) -> String {
  name_of(&binary.hex())
}

fn name_of(digest: &str) -> String {
  format!("zhivex-supervisor-{}", digest.get(..32).unwrap_or(digest))
}

/// The labels of a binary's volume, and of the container that fills it.
pub fn labels(binary: &Binary) -> BTreeMap<String, String> {
  labels_of(&binary.hex())
}

fn labels_of(digest: &str) -> BTreeMap<String, String> {
  [(LABEL.to_owned(), "1".to_owned()), (LABEL_DIGEST.to_owned(), digest.to_owned())].into()
}

/// Makes sure that there is a volume of ours for a binary, filled or not; what tells it from one that takes its place later.
pub async fn claim(client: &Client, binary: &Binary) -> Result<String> {
  let (name, labels) = (name(binary), labels(binary));
  let volume = match client.inspect_volume(&name).await {
    Err(absent) if absent.is_not_found() => client.create_volume(&name, &labels).await?,
    found => found?,
  };
  check_ours(&volume, &labels)?;
  Ok(format!("{name} {}", volume.created_at))
}

/// Makes sure that `container`, which was created with the volume and does not run yet, will run this very binary: the
/// volume is filled where it is not, and what is there is compared byte by byte. `image` is any that the engine has;
/// `maker` labels the container that fills it.
pub async fn prepare(
  client: &Client,
  binary: &Binary,
  container: &str,
  image: &str,
  maker: (&str, &str),
) -> Result<()> {
  if holds(client, binary, container).await? {
    return Ok(());
  }
  let mut labels = labels(binary);
  labels.insert(maker.0.to_owned(), maker.1.to_owned());
  let filler = Filler { client, binary, image, volume: name(binary), labels };
  for _ in 0..FILL_ATTEMPTS {
    match filler.fill().await {
      // Another host took this one for dead and removed its filler.
      Err(gone) if gone.is_not_found() => {}
      Err(error) => return Err(error),
      Ok(()) if holds(client, binary, container).await? => return Ok(()),
      Ok(()) => return Err(tampered(binary)),
    }
  }
  Err(fail!(
    Unsupported,
    "Volume {} on the Docker engine could not be filled: its filler was removed each time.",
    name(binary)
  ))
}

/// Whether the volume, as `container` has it, holds the binary. The marker is looked at first: without it another host may
/// be writing right now, and what the file is does not matter; with it nobody writes any more, and a volume that holds
/// something else was changed by somebody.
async fn holds(client: &Client, binary: &Binary, container: &str) -> Result<bool> {
  let kept = async {
    if read(client, container, MARKER, MAX_MARKER_BYTES).await?.is_none() {
      return Ok(None);
    }
    read(client, container, FILE, binary.bytes().len() as u64).await.map(Some)
  };
  match kept.await {
    Ok(None) => Ok(false),
    Ok(Some(found)) if found.as_deref() == Some(binary.bytes()) => Ok(true),
    // Too long, a directory, a link: whatever it is, it is not what we put there.
    Err(error) if error.code() != ErrorCode::Unsupported => Err(error),
    Ok(Some(_)) | Err(_) => Err(tampered(binary)),
  }
}

fn tampered(binary: &Binary) -> Error {
  fail!(
    Unsupported,
    "Volume {0} on the Docker engine does not hold the supervisor of this package: somebody changed it. Remove it (docker volume rm {0}); it is made again.",
    name(binary)
  )
}

/// A file of the volume as `container` has it, `None` where it is not there; `UNSUPPORTED` where it is no file of at most
/// `max` bytes.
async fn read(client: &Client, container: &str, name: &str, max: u64) -> Result<Option<Bytes>> {
  let found = match client.engine_archive(container, &format!("{MOUNT}/{name}")).await {
    Err(absent) if absent.is_not_found() => return Ok(None),
    found => found?,
  };
  let wanted = EntryPath::parse(name.as_bytes())
    .map_err(|_refusal| fail!(Internal, "The name {name} is no file name."))?;
  let file = crate::archive::single_file(found, wanted, max, ErrorCode::Unsupported).await;
  file.map(|file| Some(file.contents)).map_err(|error| match error.code() {
    ErrorCode::Limit | ErrorCode::NotFound | ErrorCode::PathInvalid => {
      fail!(Unsupported, "File {name} of the supervisor's volume is not as it was made.").with_source(error)
    }
    _ => error,
  })
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
  volume: String,
  labels: BTreeMap<String, String>,
}

impl Filler<'_> {
  async fn fill(&self) -> Result<()> {
    let id = self.lock().await?;
    let filled = self.fill_through(&id).await;
    let removed = self.client.remove_container(&id).await;
    filled?;
    removed.or_else(Error::unless_gone)
  }

  fn name(&self) -> String {
    filler_name(&self.volume)
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
      writable_volumes: [(self.volume.clone(), MOUNT.to_owned())].into(),
      ..ContainerSpec::default()
    };
    let begun = Instant::now();
    let mut watched: Option<(String, Instant)> = None;
    loop {
      match self.client.create_container(&spec).await {
        Err(taken) if taken.code() == ErrorCode::Conflict => {}
        created => return created,
      }
      if let Some(found) = self.other().await? {
        let since = match watched.take() {
          Some((id, since)) if id == found.id => since,
          _ => Instant::now(),
        };
        if since.elapsed() > FILLER_AGE || is_old(&found, self.client.time().await?) {
          // This one and no other: by now another host may have taken it over and be at work in one of the same name.
          self.client.remove_container(&found.id).await.or_else(Error::unless_gone)?;
        }
        watched = Some((found.id, since));
      } else if begun.elapsed() > FILLER_AGE {
        return Err(fail!(
          Unsupported,
          "Container {} on the Docker engine has the name of a filler and was not made by this package. Remove it.",
          self.name()
        ));
      }
      sleep(FILLER_POLL).await;
    }
  }

  /// The filler that is there.
  async fn other(&self) -> Result<Option<ListedContainer>> {
    let label = format!("{LABEL_DIGEST}={}", self.binary.hex());
    let name = self.name();
    let ours = |container: &ListedContainer| {
      container.names.iter().any(|found| found.strip_prefix('/') == Some(name.as_str()))
    };
    Ok(self.client.list_containers(&label).await?.into_iter().find(ours))
  }

  /// Binary first, marker last: a volume with the marker is whole, and never written again, since a program that runs
  /// cannot be replaced (`ETXTBSY`), and one that starts may find half of it.
  async fn fill_through(&self, id: &str) -> Result<()> {
    if read(self.client, id, MARKER, MAX_MARKER_BYTES).await?.is_some() {
      return Ok(());
    }
    self.put(id, FILE, Bytes::copy_from_slice(self.binary.bytes()), MODE).await?;
    self.put(id, MARKER, self.binary.hex().into(), 0o444).await
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

fn filler_name(volume: &str) -> String {
  format!("{volume}-filler")
}

/// A volume of ours, or what was meant to fill it, that nobody needs any more.
pub enum Unused {
  /// A volume, by name.
  Volume(String),
  /// A container, by id and name.
  Filler(String, String),
}

/// Volumes of supervisors of other versions of this package, and fillers that hosts left which died. `is_dead` tells of the
/// process that a filler's label names, `now` is the engine's time.
///
/// A volume that a container has cannot be removed, whether that runs or not: one that is about to be used is refused, or
/// made again by who uses it.
pub async fn unused(
  client: &Client,
  now: i64,
  is_dead: impl Fn(&ListedContainer) -> bool,
) -> Result<Vec<Unused>> {
  let label = format!("{LABEL}=1");
  let mut found = Vec::new();
  for filler in client.list_containers(&label).await? {
    let digest = filler.labels.get(LABEL_DIGEST).map(String::as_str).unwrap_or_default();
    let wanted = filler_name(&name_of(digest));
    let named = filler.names.iter().filter_map(|name| name.strip_prefix('/')).any(|name| *name == wanted);
    if named && (is_dead(&filler) || is_old(&filler, now)) {
      found.push(Unused::Filler(filler.id, wanted));
    }
  }
  for volume in client.list_volumes(&label).await? {
    let labels = volume.labels.clone().unwrap_or_default();
    let digest = labels.get(LABEL_DIGEST).map(String::as_str).unwrap_or_default();
    let is_ours = volume.name == name_of(digest) && check_ours(&volume, &labels_of(digest)).is_ok();
    if is_ours && by_digest(digest).is_none() {
      found.push(Unused::Volume(volume.name));
    }
  }
  Ok(found)
}

/// Whether a filler is older than any host needs, by the engine's clock.
fn is_old(filler: &ListedContainer, now: i64) -> bool {
  u64::try_from(now.saturating_sub(filler.created)).is_ok_and(|age| age > FILLER_AGE.as_secs())
}
