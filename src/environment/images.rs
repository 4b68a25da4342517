//! Images of runs' containers, for `snapshot: "docker-commit"`. The tar beside it is what a run is restored from.
//!
//! An image has a name that says whose it is, and is on record under that name before it is made; once it is made, under
//! its id. A name that is last on record is of an image that is yet to be made, also where that was tried and failed: the
//! next snapshot or release makes one, changed workspace or not. What takes its place leaves an image on record until it is
//! deleted, which is tried again at each later snapshot, at the end of the run, and by a sweep. Labels of ours are blanked
//! in it, since whatever is made of it inherits them.

use sha2::{Digest, Sha256};

use super::core::Core;
use super::event::Resource;
use super::options::SnapshotKind;
use super::session::Session;
use super::spec;
use crate::cancel::Cancel;
use crate::docker::model::ListedImage;
use crate::error::{Error, Result};
use crate::random;
use crate::store::lease::LeaseRecord;

const WHAT: &str = "Committing the container";
/// What the names of all our images begin with.
const REPOSITORIES: &str = "zhivex-sandbox/";
/// Digits of the hash of whose an image is. A name has 255 bytes at most (Docker's `reference` package).
const WHOSE_DIGITS: usize = 32;
/// Digits of a run's key in a tag. A tag has 128 bytes at most.
const KEY_DIGITS: usize = 24;

/// The repository of all images of this owner and fingerprint.
pub fn repository(core: &Core) -> Result<String> {
  let mut hash = Sha256::new();
  // Each with its length before it, so that no two differ only in where one ends.
  for part in [core.owner_id.as_str(), core.fingerprint()?] {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
  }
  let mut whose = hex::encode(hash.finalize());
  whose.truncate(WHOSE_DIGITS);
  Ok(format!("{REPOSITORIES}{whose}"))
}

/// What a tag of ours says.
pub struct Tag<'a> {
  /// The whole name.
  pub name: &'a str,
  /// The beginning of the run's key.
  pub key: &'a str,
  /// The process that made the image, as [`super::host::Host::maker_state`] reads it.
  pub maker: String,
}

/// A tag that no other image has.
fn new_tag(core: &Core, key: &str) -> Result<String> {
  let (key, maker) = (key.get(..KEY_DIGITS).unwrap_or(key), core.host.maker().replace(':', "."));
  Ok(format!("{key}.{}.{maker}", random::hex::<8>()?))
}

/// What the tag of an image says, where it is one of ours in this repository.
pub fn tag_of<'a>(image: &'a ListedImage, repository: &str) -> Option<Tag<'a>> {
  image.repo_tags.iter().find_map(|name| {
    let tag = name.strip_prefix(repository)?.strip_prefix(':')?;
    let (key, rest) = tag.split_once('.')?;
    let (_random, maker) = rest.split_once('.')?;
    let digits = key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (key.len() == KEY_DIGITS && digits).then(|| Tag { name, key, maker: maker.replace('.', ":") })
  })
}

/// Whether a lease has this image on record.
pub fn is_on_record(lease: &LeaseRecord, image: &ListedImage) -> bool {
  lease.image_ids.iter().any(|known| *known == image.id || image.repo_tags.contains(known))
}

/// A name for the image of a snapshot that is about to be on record, to be put there with it: as long as the name is there
/// in place of an image, one is yet to be made. `None` where the environment wants none.
pub fn announced(session: &Session) -> Result<Option<String>> {
  let core = session.core();
  if core.options.snapshot != SnapshotKind::Commit {
    return Ok(None);
  }
  Ok(Some(format!("{}:{}", repository(core)?, new_tag(core, session.key())?)))
}

/// Makes an image of the run's container where the environment wants one and there is none of the workspace as it is, and
/// deletes those that it takes the place of.
pub async fn renew(session: &Session, is_new: bool, cancel: &Cancel) -> Result<()> {
  if session.core().options.snapshot != SnapshotKind::Commit {
    return Ok(());
  }
  let is_made = session.record().lock().await.image_ids.last().is_some_and(|last| !is_name(last));
  if !is_new && is_made {
    return delete_replaced(session).await;
  }
  let Some(name) = announced(session)? else { return Ok(()) };
  change(session, |record| record.image_ids.push(name.clone())).await?;
  make(session, &name, cancel).await
}

/// Makes the image of a name that is on record, and deletes those that it takes the place of.
pub async fn make(session: &Session, name: &str, cancel: &Cancel) -> Result<()> {
  delete_failed(session, name).await?;
  cancel.check(WHAT)?;
  let container = session.record().lock().await.container_id.clone();
  let (repository, tag) = name.rsplit_once(':').unwrap_or((name, ""));
  let blank = spec::OUR_LABELS.iter().map(|label| ((*label).to_owned(), String::new())).collect();
  // To its end: an engine goes on with it whoever waits.
  let id = session.core().engine.commit_running(&container, repository, tag, &blank).await?;
  let named = |record: &mut LeaseRecord| {
    record.image_ids.iter_mut().filter(|known| *known == name).for_each(|known| known.clone_from(&id));
  };
  change(session, named).await?;
  delete_replaced(session).await
}

async fn change(session: &Session, change: impl FnOnce(&mut LeaseRecord)) -> Result<()> {
  let mut record = session.record().lock().await;
  if session.rewrite(&mut record, change).await? { Ok(()) } else { Err(session.taken_over()) }
}

/// True for a name on record, false for the id that takes its place once the image is made.
fn is_name(known: &str) -> bool {
  known.starts_with(REPOSITORIES)
}

/// How many of these have been replaced: those before the last one that was made, since names behind it may be of none.
fn count_replaced(known: &[String]) -> usize {
  known.iter().rposition(|known| !is_name(known)).unwrap_or(known.len().saturating_sub(1))
}

/// Takes names off the record whose images were not made, or not told of. What an engine makes of one later is for a sweep.
async fn delete_failed(session: &Session, current: &str) -> Result<()> {
  let mut failed = session.record().lock().await.image_ids.clone();
  failed.retain(|known| is_name(known) && known != current);
  delete_and_forget(session, &failed).await
}

/// Deletes the images of the run that another one has replaced. What cannot be deleted stays on record.
async fn delete_replaced(session: &Session) -> Result<()> {
  let mut known = session.record().lock().await.image_ids.clone();
  known.truncate(count_replaced(&known));
  delete_and_forget(session, &known).await
}

async fn delete_and_forget(session: &Session, images: &[String]) -> Result<()> {
  if images.is_empty() {
    return Ok(());
  }
  let gone = delete(session.core(), session.run_id(), images).await;
  change(session, |record| record.image_ids.retain(|id| !gone.contains(id))).await
}

/// Deletes images; which of them are gone. What could not be deleted is told by an event.
async fn delete(core: &Core, run: &str, images: &[String]) -> Vec<String> {
  let mut gone = Vec::new();
  for id in images {
    match core.engine.remove_image(id).await.or_else(Error::unless_gone) {
      Ok(()) => gone.push(id.clone()),
      Err(error) => core.events.left(Some(run), Resource::Image, id, &error),
    }
  }
  gone
}

/// Tries again to delete what the images of a run that waits have taken the place of. `None`: there is nothing to do, or
/// somebody has the run by now. Else whether all of them are gone.
pub async fn delete_replaced_of(core: &Core, record: &LeaseRecord) -> Result<Option<bool>> {
  let replaced = record.image_ids.get(..count_replaced(&record.image_ids)).unwrap_or_default();
  if replaced.is_empty() || record.holder.is_some() {
    return Ok(None);
  }
  let gone = delete(core, &record.run_id, replaced).await;
  let mut record = record.clone();
  record.image_ids.retain(|id| !gone.contains(id));
  let (left, fence) = (count_replaced(&record.image_ids) > 0, record.fence);
  // Under the same fence: whoever takes the run over meanwhile has the longer list, and finds nothing under those names.
  Ok(core.leases.save(&record, Some(fence)).await?.then_some(!left))
}
