//! Volumes of supervisors that no container has and that this version of the package does not use, and containers that
//! were to fill one.

use super::{SweepReport, failure, note};
use crate::docker::Engine;
use crate::docker::client::Client;
use crate::docker::model::ListedContainer;
use crate::environment::core::Core;
use crate::environment::event::Resource;
use crate::environment::host::Maker;
use crate::environment::spec;
use crate::error::{ErrorCode, Result};
use crate::supervisor::volume::{Unused, unused};

pub(super) async fn sweep(core: &Core, now: i64, report: &mut SweepReport) -> Result<()> {
  let Some(client) = core.engine.client() else { return Ok(()) };
  let is_dead = |filler: &ListedContainer| {
    let maker = filler.labels.get(spec::LABEL_MAKER).map(String::as_str).unwrap_or_default();
    core.host.maker_state(maker) == Maker::Dead
  };
  let found = match unused(client, now, is_dead).await {
    // An engine, or what stands before it, may allow no volumes: then there are none of ours.
    Err(error) if error.code() == ErrorCode::DockerApi => return Ok(()),
    found => found?,
  };
  for one in found {
    remove(core, client, one, report).await;
  }
  Ok(())
}

async fn remove(core: &Core, client: &Client, unused: Unused, report: &mut SweepReport) {
  let failures = &mut report.failures;
  match unused {
    Unused::Filler(id, name) => {
      let removal = client.remove_container(&id).await;
      note(core, Resource::Container, name, removal, &mut report.removed_containers, failures);
    }
    Unused::Volume(name) => match client.remove_volume(&name).await {
      Ok(()) => report.removed_volumes.push(name),
      // A container has it, or it is gone.
      Err(error) if error.is_not_found() || error.code() == ErrorCode::Conflict => {}
      Err(error) => failures.push(failure(Resource::Volume, &name, &error)),
    },
  }
}
