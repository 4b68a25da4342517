//! How the host will talk to a new container: by our own process 1 in it where that can be had, by `docker exec`
//! otherwise.

use tokio::sync::OnceCell;

use super::core::Core;
use super::options::Transport;
use crate::docker::model::ImageInspection;
use crate::error::{Result, fail};
use crate::supervisor::embedded::binary;
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
}

/// Chooses the transport of a new container.
pub async fn choose(core: &Core, image: &ImageInspection) -> Result<Carrier> {
  match core.options.transport {
    // `auto` stays with the transport that every test of the package runs over, until all of them run over both.
    Transport::Auto | Transport::Exec => Ok(Carrier::Exec),
    Transport::Resident => resident(core, image).await,
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
