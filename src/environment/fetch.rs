//! The image of an environment: fetched once, and looked at for each run.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::core::Core;
use super::event::{Kind, millis};
use super::options::Pull;
use crate::cancel::Cancel;
use crate::docker::model::ImageInspection;
use crate::docker::reference::Reference;
use crate::docker::{EngineKind, Progress};
use crate::error::{Error, Result, fail};

impl Core {
  /// The image as it is now, fetched before if that is wanted. Concurrent runs share one fetch.
  pub async fn image(&self, cancel: &Cancel) -> Result<ImageInspection> {
    let name = &self.options.image;
    self.fetched.get_or_try_init(|| self.fetch_image(cancel)).await?;
    let mut found = self.engine.inspect_image(name).await;
    if self.options.pull != Pull::Never && found.as_ref().is_err_and(Error::is_not_found) {
      // It was there, and was removed since. Of those that find it so, one fetches it.
      let _turn = self.fetching.lock().await;
      found = self.engine.inspect_image(name).await;
      if found.as_ref().is_err_and(Error::is_not_found) {
        self.pull(cancel).await?;
        found = self.engine.inspect_image(name).await;
      }
    }
    match found {
      Err(absent) if absent.is_not_found() => Err(fail!(
        ImageMissing,
        "Image {name} is not on the Docker engine. Run \"docker pull {name}\", or pass another image."
      )),
      Ok(found) => self.check_digest(found),
      Err(error) => Err(error),
    }
  }

  /// An image that was asked for by its digest must be that one, whatever an engine finds under the name.
  fn check_digest(&self, found: ImageInspection) -> Result<ImageInspection> {
    let name = &self.options.image;
    let Some(digest) = Reference::read(name).digest else { return Ok(found) };
    let known = found.repo_digests.as_deref().unwrap_or_default();
    let is_it = known.iter().any(|known| Reference::read(known).digest == Some(digest));
    // A client of the application's own may not tell.
    if is_it || (known.is_empty() && self.engine.kind() != EngineKind::Node) {
      return Ok(found);
    }
    Err(fail!(
      ImageMissing,
      "The Docker engine has another image under the name {name}: {} ({}). Remove that, or pass the digest that is meant.",
      found.id,
      known.join(", ")
    ))
  }

  async fn fetch_image(&self, cancel: &Cancel) -> Result<()> {
    let name = &self.options.image;
    match self.options.pull {
      Pull::Never => Ok(()),
      Pull::Always => self.pull(cancel).await,
      Pull::Missing => match self.engine.inspect_image(name).await {
        Err(absent) if absent.is_not_found() => self.pull(cancel).await,
        found => found.map(drop),
      },
    }
  }

  async fn pull(&self, cancel: &Cancel) -> Result<()> {
    let (image, begun) = (&self.options.image, Instant::now());
    let told = Mutex::new(None);
    let tell = |progress: Progress| {
      *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress.bytes);
      self.events.emit(None, || Kind::ImageProgress {
        image: image.clone(),
        bytes: progress.bytes,
        total_bytes: progress.total,
      });
    };
    self.engine.pull_image(image, &tell, cancel).await?;
    let bytes = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    self.events.emit(None, || Kind::ImagePulled { image: image.clone(), bytes, duration_ms: millis(begun) });
    Ok(())
  }
}
