//! How the host will talk to a new container: by our own process 1 in it where that can be had, by `docker exec`
//! otherwise.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::core::Core;
use super::event::Kind;
use super::options::Transport;
use super::spec::LABEL_MAKER;
use crate::docker::dialect::Dialect;
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
  /// Whether a supervisor's volume was compared.
  pub fn is_verified(&self) -> bool {
    locked(&self.verified).is_some()
  }

  /// Has the volume compared before the next start. True where there was an earlier look: engines tell a volume's
  /// time in seconds, so one that was removed and made again at once passes for the old one.
  pub fn forget(&self) -> bool {
    locked(&self.verified).take().is_some()
  }

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

/// Chooses the transport of a new container, for `run` or for none yet.
pub async fn choose(core: &Core, run: Option<&str>, image: &ImageInspection) -> Result<Choice> {
  let reason = match core.options.transport {
    Transport::Exec => return Ok(Choice { carrier: Carrier::Exec, instead: None }),
    Transport::Resident => None,
    Transport::Auto => core.residency.reason(),
  };
  if reason.is_some() {
    return Ok(Choice { carrier: Carrier::Exec, instead: reason });
  }
  match resident(core, image).await {
    Ok(carrier) => Ok(Choice { carrier, instead: None }),
    Err(error) => without(core, run, error),
  }
}

/// `auto` after the resident transport failed: the other one, if the failure was the transport's.
pub fn without(core: &Core, run: Option<&str>, error: Error) -> Result<Choice> {
  if !is_of_transport(&error) {
    return Err(error);
  }
  let error = advised(error);
  if core.options.transport != Transport::Auto {
    return Err(error);
  }
  core.residency.refuse(&error);
  let reason = error.message().to_owned();
  // Of a container for the pool its own event tells.
  if run.is_some() {
    core.events.emit(run, || Kind::TransportFallback { reason: reason.clone() });
  }
  Ok(Choice { carrier: Carrier::Exec, instead: Some(reason) })
}

/// Whether the other transport may fare better. It would not where the caller, the engine, the image or another holder is
/// in the way.
pub fn is_of_transport(error: &Error) -> bool {
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

/// The same error with what to do about it: also what `auto` gives as its reason.
fn advised(error: Error) -> Error {
  let advice = match error.code() {
    ErrorCode::Unsupported => "Set transport: \"exec\" to do without it.",
    _ => {
      "It needs volumes, archives of containers that do not run, wait and attach, and a runtime that can start it: allow them on this engine, or set transport: \"exec\"."
    }
  };
  let said = error.message().trim_end_matches('.');
  let message = format!("The resident transport cannot be had: {said}. {advice}");
  Error::new(error.code(), message).with_source(error)
}

/// What answered in a new container was not our supervisor, or is none any more. Nobody else can hold such a container, so
/// a claim that somebody does is as false as any other answer.
pub fn not_ours(error: Error) -> Error {
  match error.code() {
    ErrorCode::ContainerLost | ErrorCode::Conflict | ErrorCode::Internal => {
      fail!(Unsupported, "{}", error.message()).with_source(error)
    }
    _ => error,
  }
}

/// Before anything is created, where this engine's volume was not looked at yet: one that is somebody else's is never
/// mounted, and an engine that refuses volumes makes none on the way.
async fn resident(core: &Core, image: &ImageInspection) -> Result<Carrier> {
  let Some(client) = core.engine.client() else {
    return Err(fail!(
      Unsupported,
      "it needs a Docker engine that this package talks to itself, and this environment has a client of its own"
    ));
  };
  // Asked for by name it is had all the same: whoever releases every run loses nothing. An allowlist cannot be had with the
  // other one there, since Podman's internal networks have no gateway for the proxy to listen at.
  if core.options.transport == Transport::Auto
    && core.proxy.is_none()
    && core.engine.dialect().await? == Dialect::Podman
  {
    return Err(fail!(
      Unsupported,
      "Podman closes the input of a container's process 1 as soon as its host is gone, so the container of a run would end with this process"
    ));
  }
  let binary = binary(&image.architecture)?;
  if !core.residency.is_verified() {
    volume::claim(client, binary).await?;
  }
  Ok(Carrier::Resident(binary))
}

/// Makes sure that what will be process 1 of a container that does not run yet is what it should be. The contents of a
/// volume are compared once: it takes as long as a fifth of a container's start.
pub async fn prepare(core: &Core, carrier: Carrier, container: &str) -> Result<()> {
  let (Carrier::Resident(binary), Some(client)) = (carrier, core.engine.client()) else { return Ok(()) };
  let volume = volume::claim(client, binary).await?;
  if locked(&core.residency.verified).as_ref() == Some(&volume) {
    return Ok(());
  }
  let maker = core.host.maker();
  volume::prepare(client, binary, container, &core.options.image, (LABEL_MAKER, &maker)).await?;
  *locked(&core.residency.verified) = Some(volume);
  Ok(())
}
