//! Committed images that no lease has on record. Their labels are blank, so their name says whose they are.

use super::{SweepReport, is_abandoned, note};
use crate::docker::model::ListedImage;
use crate::environment::core::Core;
use crate::environment::event::Resource;
use crate::environment::images::{is_on_record, repository, tag_of};
use crate::environment::spec;
use crate::error::Result;

pub(super) async fn sweep(core: &Core, report: &mut SweepReport) -> Result<()> {
  let repository = repository(core)?;
  for image in core.engine.list_images(&repository).await? {
    if let Some(name) = orphan(core, &image, &repository).await? {
      // By its name: under another one that somebody gave it, it stays.
      let removal = core.engine.remove_image(name).await;
      let (removed, failures) = (&mut report.removed_images, &mut report.failures);
      note(core, Resource::Image, image.id, removal, removed, failures);
    }
  }
  Ok(())
}

/// The image's name, where it was committed of a container of ours, nobody is about to use it, and no lease has it on record.
async fn orphan<'a>(core: &Core, image: &'a ListedImage, repository: &str) -> Result<Option<&'a str>> {
  let Some(tag) = tag_of(image, repository) else { return Ok(None) };
  // Of a container of ours, with its labels blanked.
  let committed = image.labels.get(spec::LABEL).is_some_and(String::is_empty);
  if !committed || !is_abandoned(core, &tag.maker, image.created, false) {
    return Ok(None);
  }
  let leases = core.leases.list(&core.owner_id).await?;
  let held = leases.iter().any(|lease| lease.key.starts_with(tag.key) && is_on_record(lease, image));
  Ok((!held).then_some(tag.name))
}
