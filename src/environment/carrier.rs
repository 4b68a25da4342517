//! How the host will talk to a new container: by our own process 1 in it where that can be had, by `docker exec`
//! otherwise.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::core::Core;
use super::event::Kind;
use super::options::Transport;
use crate::docker::model::ImageInspection;
use crate::error::{Error, ErrorCode, Result, fail};
use crate::supervisor::embedded::{Binary, binary};
use crate::supervisor::volume;

/// After a failed attempt `auto` does without the supervisor for so long: each attempt costs the start of a container.
const RETRY: Duration = Duration::from_secs(60);

/// The transport of a container.
#[derive(Clone, Copy)]
pub enum Carrier {
  /// `docker exec` for every operation.
  Exec,
  /// This supervisor is process 1.
  Resident(&'static Binary),
}

impl Carrier {
  /// True for [`Self::Resident`].
  pub const fn is_resident(self) -> bool {
    matches!(self, Self::Resident(_))
  }
}

/// A transport, and why it is not the other one where the environment was free to choose.
pub struct Choice {
  /// What was chosen.
  pub carrier: Carrier,
  /// Why the resident transport was not; `None` where it was, or where nobody asked for it.
  pub instead: Option<String>,
}

/// What is known of the supervisor on this engine.
#[derive(Default)]
pub struct Residency {
  /// The volume whose contents were compared: only who may use the engine can change them, and is trusted.
  verified: Mutex<Option<String>>,
  refused: Mutex<Option<(Instant, String)>>,
}

impl Residency {
  /// An attempt to use the supervisor failed.
  pub fn refuse(&self, reason: &Error) {
    *locked(&self.refused) = Some((Instant::now(), reason.message().to_owned()));
  }

  fn reason(&self) -> Option<String> {
    let refused = locked(&self.refused);
    refused.as_ref().filter(|(at, _)| at.elapsed() < RETRY).map(|(_, reason)| reason.clone())
  }
}

/// Nothing panics while one is held, and the values are whole at any time.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
  value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Chooses the transport of a new container for `run`.
pub fn choose(core: &Core, run: &str, image: &ImageInspection) -> Result<Choice> {
  let chosen = |carrier| Ok(Choice { carrier, instead: None });
  match core.options.transport {
    Transport::Exec => chosen(Carrier::Exec),
    Transport::Resident => chosen(resident(core, image)?),
    Transport::Auto => {
      if let Some(reason) = core.residency.reason() {
        return Ok(Choice { carrier: Carrier::Exec, instead: Some(reason) });
      }
      match resident(core, image) {
        Ok(carrier) => chosen(carrier),
        Err(error) => without(core, run, error),
      }
    }
  }
}

/// `auto` after the resident transport failed: the other one, if the failure was the transport's.
pub fn without(core: &Core, run: &str, error: Error) -> Result<Choice> {
  if core.options.transport != Transport::Auto || !is_of_transport(&error) {
    return Err(error);
  }
  core.residency.refuse(&error);
  let reason = error.message().to_owned();
  core.events.emit(Some(run), || Kind::TransportFallback { reason: reason.clone() });
  Ok(Choice { carrier: Carrier::Exec, instead: Some(reason) })
}

/// Whether the other transport may fare better. It would not where the caller, the engine, the image or another holder is
/// in the way.
fn is_of_transport(error: &Error) -> bool {
  matches!(
    error.code(),
    ErrorCode::Unsupported
      | ErrorCode::DockerApi
      | ErrorCode::NotFound
      | ErrorCode::ContainerLost
      | ErrorCode::Limit
      | ErrorCode::Timeout
  )
}

fn resident(core: &Core, image: &ImageInspection) -> Result<Carrier> {
  if core.engine.client().is_none() {
    return Err(fail!(
      Unsupported,
      "The resident transport needs a Docker engine of its own; this client cannot carry it. Use transport \"exec\" or \"auto\"."
    ));
  }
  Ok(Carrier::Resident(binary(&image.architecture)?))
}

/// Makes sure that what will be process 1 of a container that does not run yet is what it should be. The contents of a
/// volume are compared once: it takes as long as a fifth of a container's start.
pub async fn prepare(core: &Core, carrier: Carrier, container: &str) -> Result<()> {
  let (Carrier::Resident(binary), Some(client)) = (carrier, core.engine.client()) else { return Ok(()) };
  let volume = volume::claim(client, binary).await?;
  if locked(&core.residency.verified).as_ref() == Some(&volume) {
    return Ok(());
  }
  volume::prepare(client, binary, container, &core.options.image).await?;
  *locked(&core.residency.verified) = Some(volume);
  Ok(())
}
