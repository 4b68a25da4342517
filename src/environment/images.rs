//! Images of runs' containers, for `snapshot: "docker-commit"`. The tar beside it is what a run is restored from.
//!
//! An image has a name that says whose it is, and is on record under that name before it is made; once it is made, under
//! its id. What takes its place leaves it on record until it is deleted, which is tried again at each later snapshot, at
//! the end of the run, and by a sweep. Labels of ours are blanked in it, since whatever is made of it inherits them.

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
  Ok(format!("zhivex-sandbox/{whose}"))
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

/// Makes an image of the run's container where the environment wants one and there is none of the workspace as it is, and
/// deletes those that it takes the place of.
pub async fn renew(session: &Session, is_new: bool, cancel: &Cancel) -> Result<()> {
  if session.core().options.snapshot != SnapshotKind::Commit {
    return Ok(());
  }
  if is_new || session.record().lock().await.image_ids.is_empty() {
    commit(session, cancel).await?;
  }
  delete_replaced(session).await
}

async fn commit(session: &Session, cancel: &Cancel) -> Result<()> {
  cancel.check(WHAT)?;
  let core = session.core();
  let (repository, tag) = (repository(core)?, new_tag(core, session.key())?);
  let name = format!("{repository}:{tag}");
  let container = {
    let mut record = session.record().lock().await;
    if !session.rewrite(&mut record, |record| record.image_ids.push(name.clone())).await? {
      return Err(session.taken_over());
    }
    record.container_id.clone()
  };
  let blank = spec::OUR_LABELS.iter().map(|label| ((*label).to_owned(), String::new())).collect();
  // To its end: an engine goes on with it whoever waits.
  let id = core.engine.commit_running(&container, &repository, &tag, &blank).await?;
  let mut record = session.record().lock().await;
  let named = |record: &mut LeaseRecord| {
    record.image_ids.iter_mut().filter(|known| **known == name).for_each(|known| known.clone_from(&id));
  };
  if session.rewrite(&mut record, named).await? { Ok(()) } else { Err(session.taken_over()) }
}

/// Deletes all images of the run but the last. What cannot be deleted stays on record.
async fn delete_replaced(session: &Session) -> Result<()> {
  let core = session.core();
  let mut known = session.record().lock().await.image_ids.clone();
  let last = known.pop();
  if known.is_empty() {
    return Ok(());
  }
  let gone = delete(core, session.run_id(), &known).await;
  let mut record = session.record().lock().await;
  let changed = |record: &mut LeaseRecord| {
    record.image_ids.retain(|id| last.as_ref() == Some(id) || !gone.contains(id));
  };
  if session.rewrite(&mut record, changed).await? { Ok(()) } else { Err(session.taken_over()) }
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
  let Some((last, replaced)) = record.image_ids.split_last() else { return Ok(None) };
  if replaced.is_empty() || record.holder.is_some() {
    return Ok(None);
  }
  let gone = delete(core, &record.run_id, replaced).await;
  let mut record = record.clone();
  record.image_ids.retain(|id| id == last || !gone.contains(id));
  let (left, fence) = (record.image_ids.len() > 1, record.fence);
  // Under the same fence: whoever takes the run over meanwhile has the longer list, and finds nothing under those names.
  Ok(core.leases.save(&record, Some(fence)).await?.then_some(!left))
}
