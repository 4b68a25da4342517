//! Committed images that no lease has on record. Their labels are blank, so their name says whose they are.

use super::{SweepReport, is_abandoned, note};
use crate::docker::model::ListedImage;
use crate::environment::core::Core;
use crate::environment::event::Resource;
use crate::environment::images::{is_on_record, repository, tag_of};
use crate::environment::spec;
use crate::error::Result;
use crate::store::lease::LeaseRecord;

pub(super) async fn sweep(core: &Core, now: i64, report: &mut SweepReport) -> Result<()> {
  let repository = repository(core)?;
  let images = core.engine.list_images(&repository).await?;
  if images.is_empty() {
    return Ok(());
  }
  // After the images: each is on record before it is made.
  let leases = core.leases.list(&core.owner_id).await?;
  for image in images {
    if let Some(name) = orphan(core, now, &image, &repository, &leases) {
      // By its name: under another one that somebody gave it, it stays.
      let removal = core.engine.remove_image(name).await;
      let (removed, failures) = (&mut report.removed_images, &mut report.failures);
      note(core, Resource::Image, image.id, removal, removed, failures);
    }
  }
  Ok(())
}

/// The image's name, where it was committed of a container of ours, nobody is about to use it, and no lease has it on record.
fn orphan<'a>(
  core: &Core,
  now: i64,
  image: &'a ListedImage,
  repository: &str,
  leases: &[LeaseRecord],
) -> Option<&'a str> {
  let tag = tag_of(image, repository)?;
  // Of a container of ours, with its labels blanked.
  let committed = image.labels.get(spec::LABEL).is_some_and(String::is_empty);
  let held = || leases.iter().any(|lease| lease.key.starts_with(tag.key) && is_on_record(lease, image));
  (committed && is_abandoned(core, now, &tag.maker, image.created, false) && !held()).then_some(tag.name)
}
