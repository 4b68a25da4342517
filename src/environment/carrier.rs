//! How the host will talk to a new container: by our own process 1 in it where that can be had, by `docker exec`
//! otherwise.

use tokio::sync::OnceCell;

use super::core::Core;
use super::options::Transport;
use crate::docker::model::ImageInspection;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::supervisor::embedded::{Binary, binary};
use crate::supervisor::volume;

/// The transport of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
  /// `docker exec` for every operation.
  Exec,
  /// The supervisor is process 1, out of this volume.
  Resident {
    /// The volume's name.
    volume: String,
  },
}

/// What is known of the supervisor on this engine.
#[derive(Default)]
pub struct Residency {
  volume: OnceCell<String>,
  refusal: OnceCell<Error>,
}

impl Residency {
  /// From now on `auto` uses the other transport: the supervisor was tried and cannot be had here.
  pub fn refuse(&self, why: Error) {
    self.refusal.set(why).ok();
  }

  /// Why the supervisor cannot be had, where that is known.
  pub fn refusal(&self) -> Option<&Error> {
    self.refusal.get()
  }
}

/// Chooses. With `auto` whatever stands in the way of the supervisor is remembered, and `docker exec` used.
pub async fn choose(core: &Core, image: &ImageInspection) -> Result<Carrier> {
  match core.options.transport {
    Transport::Exec => Ok(Carrier::Exec),
    Transport::Resident => resident(core, image).await,
    Transport::Auto if core.residency.refusal().is_some() => Ok(Carrier::Exec),
    Transport::Auto => resident(core, image).await.or_else(|error| fall_back(core, error)),
  }
}

/// An engine that is not there is no reason to try the other way, and neither is a signal.
pub fn fall_back(core: &Core, error: Error) -> Result<Carrier> {
  match error.code() {
    ErrorCode::DockerUnavailable | ErrorCode::Cancelled | ErrorCode::Conflict => Err(error),
    _ => {
      core.residency.refuse(error);
      Ok(Carrier::Exec)
    }
  }
}

async fn resident(core: &Core, image: &ImageInspection) -> Result<Carrier> {
  let client = core.engine.client().ok_or_else(|| {
    fail!(
      Unsupported,
      "The resident transport needs a Docker engine of its own; this client cannot carry it."
    )
  })?;
  let binary = binary(&image.architecture)?;
  let ensure = || volume::ensure(client, binary, &core.options.image);
  let volume = core.residency.volume.get_or_try_init(ensure).await?.clone();
  Ok(Carrier::Resident { volume })
}

/// The program that must answer in a container of this image.
pub fn expected(image: &ImageInspection) -> Result<&'static Binary> {
  binary(&image.architecture)
}
