//! A new container for a run: create, start, check, fill. Whatever fails, nothing of it stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;

use super::core::Core;
use super::seed::seed_archive;
use super::spec::{self, Identity};
use crate::cancel::Cancel;
use crate::docker::ByteStream;
use crate::docker::model::{ImageInspection, Inspection};
use crate::error::{Error, Result, fail};
use crate::sandbox::Sandbox;
use crate::sandbox::exec::ExecSandbox;

/// A container that was made for a run and is not on record yet.
pub struct NewContainer {
  /// The engine's id.
  pub id: String,
  /// Its name, a hash of the run key.
  pub name: String,
  /// What can be done in it.
  pub sandbox: Arc<dyn Sandbox>,
}

/// What a new workspace is filled with.
pub enum Contents {
  /// What the options declare.
  Seed,
  /// A tar that was saved and vetted before.
  Snapshot(ByteStream),
}

/// Makes a running container for the run `key`. `token` is the lease's: the container carries it as its nonce.
pub async fn create_container(
  core: &Core,
  key: &str,
  token: &str,
  contents: Contents,
  cancel: &Cancel,
) -> Result<NewContainer> {
  core.check_enforcement().await?;
  let image = core.image(cancel).await?;
  cancel.check("Acquiring the sandbox")?;
  let name = spec::container_name(key);
  let identity = Identity { name: name.clone(), labels: labels(core, key, token)? };
  let spec = spec::container_spec(&core.options, &image, &identity);
  // From here on a container may exist: an error that leaves that open (a lost reply) is followed by a look.
  let id = match core.engine.create_container(&spec).await {
    Ok(id) => id,
    Err(error) => {
      remove_ours(core, &name, token).await;
      return Err(taken(error, &name));
    }
  };
  match fill(core, &id, &image, contents, cancel).await {
    Ok(sandbox) => Ok(NewContainer { id, name, sandbox }),
    Err(error) => {
      core.engine.remove_container(&id).await.ok();
      Err(error)
    }
  }
}

/// What can be done in a container of this environment that runs.
pub fn sandbox(core: &Core, container: &str) -> Arc<dyn Sandbox> {
  let owner = core.options.user.into();
  Arc::new(ExecSandbox::new(Arc::clone(&core.engine), container.to_owned(), owner, BTreeMap::new()))
}

async fn fill(
  core: &Core,
  id: &str,
  image: &ImageInspection,
  contents: Contents,
  cancel: &Cancel,
) -> Result<Arc<dyn Sandbox>> {
  cancel.check("Acquiring the sandbox")?;
  let found = core.engine.inspect_container(id).await?;
  check_image(core, &found, image)?;
  spec::verify(&found, &core.options)?;
  core.engine.start_container(id).await?;
  let sandbox = sandbox(core, id);
  let tar = match contents {
    Contents::Snapshot(tar) => Some(tar),
    Contents::Seed => {
      seed_archive(core, cancel).await?.map(|tar| futures_util::stream::iter([Ok(tar)]).boxed())
    }
  };
  if let Some(tar) = tar {
    sandbox.import(tar, cancel).await?;
  }
  cancel.check("Acquiring the sandbox")?;
  Ok(sandbox)
}

fn labels(core: &Core, key: &str, token: &str) -> Result<BTreeMap<String, String>> {
  let pairs = [
    (spec::LABEL, "1"),
    (spec::LABEL_OWNER, core.owner_id.as_str()),
    (spec::LABEL_FINGERPRINT, core.fingerprint()?),
    (spec::LABEL_KEY, key),
    (spec::LABEL_NONCE, &nonce(token)),
    (spec::LABEL_ENVIRONMENT, core.options.id.as_str()),
    (spec::LABEL_MAKER, &core.host.maker()),
  ];
  Ok(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The lease's token is a secret and labels are not: what a container carries is a hash of it.
pub fn nonce(token: &str) -> String {
  use sha2::{Digest, Sha256};
  Sha256::digest(token.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A tag may be moved between the look at the image and the create call; then the container's masks and variables are
/// those of another image.
fn check_image(core: &Core, found: &Inspection, image: &ImageInspection) -> Result<()> {
  if found.image.is_empty() || image.id.is_empty() || found.image == image.id {
    return Ok(());
  }
  Err(fail!(
    DockerApi,
    "Image {} was replaced on the Docker engine while a container of it was made. Acquire the run again.",
    core.options.image
  ))
}

/// Removes the container of this name if it is the one that we tried to make.
pub async fn remove_ours(core: &Core, name: &str, token: &str) {
  let Ok(found) = core.engine.inspect_container(name).await else { return };
  let labels = found.config.labels.unwrap_or_default();
  if labels.get(spec::LABEL_NONCE).is_some_and(|found| *found == nonce(token)) {
    core.engine.remove_container(&found.id).await.ok();
  }
}

fn taken(error: Error, name: &str) -> Error {
  if error.code() != crate::error::ErrorCode::Conflict {
    return error;
  }
  error.context(format_args!(
    "This run has a container ({name}) and no lease in this lease store: another process works on it, or one ended without releasing it. Use the lease store of that process, or sweep() with its ownerId"
  ))
}
