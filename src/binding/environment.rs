//! Environments.
#![expect(
  clippy::too_many_arguments,
  reason = "objects of JavaScript cannot be put into one another on their way here"
)]

use std::sync::Arc;

use napi::bindgen_prelude::{Env, Function, Uint8Array};
use napi_derive::napi;
use serde::Deserialize;
use serde_json::json;

use super::cancel::{CancelToken, cancel_of};
use super::convert::{copy, parse};
use super::docker::DockerHandle;
use super::events::events_to;
use super::js_resolver::ResolverHandle;
use super::outcome::{Outcome, Promised, outcome, spawn};
use super::session::SessionHandle;
use super::stores::{LeaseStoreHandle, SnapshotStoreHandle};
use crate::docker::client::Client;
use crate::docker::locate::Surroundings;
use crate::docker::{Engine, EngineKind};
use crate::environment::acquire::{AcquireRequest, acquire};
use crate::environment::core::{Core, Parts};
use crate::environment::options::Options;
use crate::environment::sweep::sweep;
use crate::error::Result;
use crate::store::lease::{LeaseStore, MemoryLeaseStore, Scope};
use crate::store::snapshot::{MemorySnapshotStore, SnapshotStore};

/// An environment.
#[napi]
pub struct EnvironmentHandle {
  core: Arc<Core>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AcquireJson {
  run_id: String,
  scope: Option<Scope>,
}

/// Checks options and puts an environment together; asks nothing of an engine. `blobs` are the contents of files that
/// the options speak of by number, `surroundings_json` what the process says of engines; `listener` is called with each
/// event as JSON text; `resolver` looks names up for the allowlist.
#[napi(catch_unwind)]
pub fn prepare_environment(
  options_json: String,
  blobs: Vec<Uint8Array>,
  docker: Option<&DockerHandle>,
  surroundings_json: String,
  leases: Option<&LeaseStoreHandle>,
  snapshots: Option<&SnapshotStoreHandle>,
  listener: Option<Function<'_, String, ()>>,
  resolver: Option<&ResolverHandle>,
) -> napi::Result<Outcome<EnvironmentHandle>> {
  let blobs: Vec<_> = blobs.iter().map(copy).collect();
  let events = listener.map(events_to).transpose()?.unwrap_or_default();
  let build = || -> Result<EnvironmentHandle> {
    let json: serde_json::Value = parse(&options_json, "The options of createDockerSandboxEnvironment")?;
    let kind = docker.map_or(EngineKind::Node, |docker| docker.engine().kind());
    let options = Options::from_json(&json, &blobs, kind)?;
    let engine: Arc<dyn Engine> = match docker {
      Some(docker) => docker.engine(),
      None => {
        let surroundings = parse::<Surroundings>(&surroundings_json, "What the process says of engines")?;
        Arc::new(Client::in_surroundings(options.socket_path.clone(), None, surroundings)?)
      }
    };
    let resolver = resolver.map(ResolverHandle::resolver);
    let leases: Arc<dyn LeaseStore> =
      leases.map_or_else(|| Arc::new(MemoryLeaseStore::default()) as _, |leases| leases.store());
    let snapshots: Arc<dyn SnapshotStore> =
      snapshots.map_or_else(|| Arc::new(MemorySnapshotStore::default()) as _, |snapshots| snapshots.store());
    let core = Core::new(Parts { options, engine, leases, snapshots, events, resolver })?;
    Ok(EnvironmentHandle { core: Arc::new(core) })
  };
  Ok(outcome(build()))
}

#[napi]
impl EnvironmentHandle {
  /// The manifest as JSON.
  #[napi(catch_unwind)]
  pub fn manifest_json(&self) -> String {
    self.core.manifest().to_string()
  }

  /// Takes the manifest's canonical text, returns the fingerprint.
  #[napi(catch_unwind)]
  pub fn seal(&self, canonical_manifest: String) -> String {
    self.core.seal(&canonical_manifest)
  }

  /// Acquires a run.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | SessionHandle>")]
  pub fn acquire<'env>(
    &self,
    env: &'env Env,
    request_json: String,
    token: Option<&CancelToken>,
  ) -> Promised<'env, SessionHandle> {
    let (core, cancel) = (Arc::clone(&self.core), cancel_of(token));
    let request = parse::<AcquireJson>(&request_json, "The request of acquire");
    spawn(env, async move {
      let AcquireJson { run_id, scope } = request?;
      Ok(SessionHandle::new(acquire(&core, &AcquireRequest { run_id, scope }, &cancel).await?))
    })
  }

  /// Cleans up after hosts that died; the report as JSON.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn sweep<'env>(&self, env: &'env Env, token: Option<&CancelToken>) -> Promised<'env, String> {
    let (core, cancel) = (Arc::clone(&self.core), cancel_of(token));
    spawn(env, async move {
      let report = sweep(&core, &cancel).await?;
      Ok(json!(report).to_string())
    })
  }

  /// To be called on a worker: when that ends, however it does, so does what this environment keeps alive. Nobody could
  /// release its runs or close it any more, and the process would hold them for as long as it lives.
  #[napi(catch_unwind)]
  pub fn close_with_worker(&self, env: &Env) -> napi::Result<()> {
    // Not the environment itself, which may go before the worker does.
    env.add_env_cleanup_hook(self.core.closed.clone(), |closed| closed.cancel())?;
    Ok(())
  }

  /// Ends everything that this environment keeps alive in this process.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn close<'env>(&self, env: &'env Env) -> Promised<'env, Option<u32>> {
    let core = Arc::clone(&self.core);
    spawn(env, async move {
      core.close().await;
      Ok(None)
    })
  }
}
