//! The Docker client, real or in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::{Env, Uint8Array};
use napi_derive::napi;
use serde::Deserialize;
use serde_json::json;

use super::archive::{ArchiveDownload, ArchiveUpload};
use super::cancel::{CancelToken, cancel_of};
use super::convert::{copy, optional_integer, parse};
use super::js_client::JsClient;
use super::outcome::{Outcome, Promised, outcome, spawn};
use super::own_calls::{Callbacks, Dispatch};
use crate::cancel::Cancel;
use crate::docker::client::Client;
use crate::docker::locate::{Surroundings, VARIABLES};
use crate::docker::memory::{MemoryEngine, MemoryOptions};
use crate::docker::model::ContainerSpec;
use crate::docker::own::OwnEngine;
use crate::docker::{
  ArchiveBody, Engine, EngineKind, ExecEnd, ExecOutput, ExecRequest, Stdin, get_whole_archive,
};
use crate::error::{Error, ErrorCode, Result, fail};
use crate::limits::MAX_ARCHIVE_BYTES;

/// Exit code of a command that was killed by SIGKILL, as shells and engines write it: 128 + 9.
const KILLED: f64 = 137.0;

/// A Docker engine.
#[napi]
pub struct DockerHandle {
  engine: Arc<dyn Engine>,
}

impl DockerHandle {
  pub(super) fn engine(&self) -> Arc<dyn Engine> {
    Arc::clone(&self.engine)
  }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConnectOptions {
  socket_path: Option<String>,
  api_version: Option<String>,
  surroundings: Surroundings,
}

/// A client of the engine behind a socket, or of the one that is meant where the process says `surroundings` (values of
/// the variables that [`engine_variables`] names); connects when first used.
#[napi(catch_unwind)]
pub fn docker_connect(options_json: String) -> Outcome<DockerHandle> {
  outcome(parse::<ConnectOptions>(&options_json, "The options of createNodeDockerClient").and_then(
    |options| {
      let ConnectOptions { socket_path, api_version, surroundings } = options;
      let client =
        Client::in_surroundings(socket_path.map(Into::into), api_version.as_deref(), surroundings)?;
      Ok(DockerHandle { engine: Arc::new(client) })
    },
  ))
}

/// Names of the variables of the process that say which engine is meant. JavaScript reads them: what a program sets is in the
/// environment of the process under Node only.
#[napi(catch_unwind)]
pub fn engine_variables() -> Vec<String> {
  VARIABLES.iter().map(|&name| name.to_owned()).collect()
}

/// The deterministic double.
#[napi(catch_unwind)]
pub fn memory_docker(options_json: String) -> Outcome<DockerHandle> {
  outcome(
    MemoryOptions::from_json(&options_json)
      .map(|options| DockerHandle { engine: Arc::new(MemoryEngine::new(options)) }),
  )
}

/// A client that the application wrote; `double` where it says so of itself, and the optional methods that it has.
#[napi(
  catch_unwind,
  ts_args_type = "dispatch: (call: OwnCall) => void, double: boolean, optionalMethods: Array<string>"
)]
pub fn js_docker_client(dispatch: Dispatch, double: bool, optional_methods: Vec<String>) -> DockerHandle {
  let calls = Callbacks::new(dispatch, "client", "client");
  let client = JsClient::new(calls, double, optional_methods);
  DockerHandle { engine: Arc::new(OwnEngine::new(Arc::new(client))) }
}

/// The options of the public `exec`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecOptions {
  cmd: Vec<String>,
  #[serde(default)]
  user: String,
  #[serde(default)]
  env: Option<Vec<String>>,
  working_dir: String,
  timeout_ms: f64,
  max_output_bytes: f64,
  #[serde(default)]
  skip_terminate: bool,
  #[serde(default)]
  marker: Option<String>,
}

/// The public `exec` result.
#[napi(object, object_from_js = false)]
pub struct ExecResult {
  /// The command's exit code; 137 when it was killed.
  pub exit_code: f64,
  /// Standard output.
  pub stdout: Uint8Array,
  /// Standard error.
  pub stderr: Uint8Array,
  /// A cap was passed.
  pub truncated: bool,
  /// The time limit passed.
  pub timed_out: bool,
}

/// The public `getArchive` result.
#[napi(object, object_from_js = false)]
pub struct ArchiveResult {
  /// The tar.
  pub tar: Uint8Array,
  /// `DockerPathStat` as JSON.
  pub stat_json: String,
}

/// To whoever calls the client a missing image is one more thing that is not there, as it always was; an environment tells
/// it apart.
fn as_declared(error: Error) -> Error {
  if error.code() == ErrorCode::ImageMissing {
    Error::new(ErrorCode::NotFound, error.message())
  } else {
    error
  }
}

#[napi]
impl DockerHandle {
  /// `node` or `memory`.
  #[napi(catch_unwind)]
  pub fn kind(&self) -> &'static str {
    match self.engine.kind() {
      EngineKind::Node | EngineKind::Own => "node",
      EngineKind::Memory => "memory",
    }
  }

  /// Creates a container; its id.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn create_container<'env>(&self, env: &'env Env, spec_json: String) -> Promised<'env, String> {
    let (engine, spec) = (self.engine(), parse::<ContainerSpec>(&spec_json, "The spec of createContainer"));
    spawn(env, async move { engine.create_container(&spec?).await.map_err(as_declared) })
  }

  /// Starts a container.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn start_container<'env>(&self, env: &'env Env, id: String) -> Promised<'env, Option<u32>> {
    let engine = self.engine();
    spawn(env, async move { engine.start_container(&id).await.map(nothing) })
  }

  /// The engine's inspection as JSON.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn inspect_container<'env>(&self, env: &'env Env, id: String) -> Promised<'env, String> {
    let engine = self.engine();
    spawn(env, async move { engine.inspect_container_json(&id).await })
  }

  /// Removes a container.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn remove_container<'env>(&self, env: &'env Env, id: String) -> Promised<'env, Option<u32>> {
    let engine = self.engine();
    spawn(env, async move { engine.remove_container(&id).await.map(nothing) })
  }

  /// Sends a signal to process 1.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn kill_container<'env>(
    &self,
    env: &'env Env,
    id: String,
    signal: String,
  ) -> Promised<'env, Option<u32>> {
    let engine = self.engine();
    spawn(env, async move { engine.kill_container(&id, &signal).await.map(nothing) })
  }

  /// Containers with a label, as JSON.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn list_containers<'env>(&self, env: &'env Env, label: String) -> Promised<'env, String> {
    let engine = self.engine();
    spawn(env, async move {
      let listed = engine.list_containers(&label).await?;
      Ok(json!(listed).to_string())
    })
  }

  /// Unpacks a tar.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn put_archive<'env>(
    &self,
    env: &'env Env,
    id: String,
    path: String,
    tar: Uint8Array,
  ) -> Promised<'env, Option<u32>> {
    let (engine, size) = (self.engine(), tar.len() as u64);
    let tar = if size <= MAX_ARCHIVE_BYTES { Ok(copy(&tar)) } else { Err(too_long(size)) };
    spawn(env, async move { engine.put_archive(&id, &path, ArchiveBody::Bytes(tar?)).await.map(nothing) })
  }

  /// Unpacks a tar that comes in pieces.
  #[napi(catch_unwind)]
  pub fn put_archive_stream(&self, id: String, path: String) -> ArchiveUpload {
    let engine = self.engine();
    ArchiveUpload::start("Unpacking an archive", |tar| async move {
      engine.put_archive(&id, &path, ArchiveBody::Stream(tar)).await
    })
  }

  /// A tar of a path.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | ArchiveResult>")]
  pub fn get_archive<'env>(
    &self,
    env: &'env Env,
    id: String,
    path: String,
    max_bytes: Option<f64>,
  ) -> Promised<'env, ArchiveResult> {
    let (engine, max) = (self.engine(), optional_integer(max_bytes, "maxOutputBytes"));
    spawn(env, async move {
      let found = get_whole_archive(engine.as_ref(), &id, &path, max?.unwrap_or(MAX_ARCHIVE_BYTES)).await?;
      Ok(ArchiveResult { tar: found.tar.into(), stat_json: json!(found.stat).to_string() })
    })
  }

  /// A tar of a path, in pieces.
  #[napi(catch_unwind, ts_return_type = "Failure | ArchiveDownload")]
  pub fn get_archive_stream(
    &self,
    id: String,
    path: String,
    max_bytes: Option<f64>,
  ) -> Outcome<ArchiveDownload> {
    let max = optional_integer(max_bytes, "maxOutputBytes");
    outcome(max.map(|max| ArchiveDownload::new(self.engine(), id, path, max.unwrap_or(u64::MAX))))
  }

  /// Runs a command to its end.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | ExecResult>")]
  pub fn exec<'env>(
    &self,
    env: &'env Env,
    id: String,
    options_json: String,
    token: Option<&CancelToken>,
  ) -> Promised<'env, ExecResult> {
    let (engine, cancel) = (self.engine(), cancel_of(token));
    let options = parse::<ExecOptions>(&options_json, "The options of exec");
    spawn(env, async move {
      let request = ExecRequest { cancel, ..exec_request(options?) };
      exec_result(engine.exec(&id, request).await?)
    })
  }

  /// A path with all links resolved.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn realpath<'env>(&self, env: &'env Env, id: String, path: String) -> Promised<'env, String> {
    let engine = self.engine();
    spawn(env, async move { engine.realpath(&id, &path).await })
  }

  /// Makes an image; its id.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn commit_container<'env>(
    &self,
    env: &'env Env,
    id: String,
    repo: String,
    tag: String,
    labels_json: Option<String>,
  ) -> Promised<'env, String> {
    let engine = self.engine();
    let labels =
      labels_json.map(|json| parse::<BTreeMap<String, String>>(&json, "The labels of commitContainer"));
    spawn(env, async move { engine.commit_container(&id, &repo, &tag, labels.transpose()?.as_ref()).await })
  }

  /// Removes an image.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn remove_image<'env>(&self, env: &'env Env, id: String) -> Promised<'env, Option<u32>> {
    let engine = self.engine();
    spawn(env, async move { engine.remove_image(&id).await.map(nothing) })
  }

  /// Makes an internal network; `{ Id, gateway? }` as JSON.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn create_network<'env>(&self, env: &'env Env, name: String) -> Promised<'env, String> {
    let engine = self.engine();
    spawn(env, async move {
      let network = engine.create_network(&name).await?;
      Ok(match network.gateway {
        Some(gateway) => json!({ "Id": network.id, "gateway": gateway }).to_string(),
        None => json!({ "Id": network.id }).to_string(),
      })
    })
  }

  /// What the engine is and can enforce, as JSON.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn info<'env>(&self, env: &'env Env) -> Promised<'env, String> {
    let engine = self.engine();
    spawn(env, async move { Ok(json!(engine.info().await?).to_string()) })
  }

  /// What an image brings along, as JSON.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn inspect_image<'env>(&self, env: &'env Env, image: String) -> Promised<'env, String> {
    let engine = self.engine();
    spawn(env, async move { Ok(json!(engine.inspect_image(&image).await?).to_string()) })
  }

  /// Fetches an image.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn pull_image<'env>(&self, env: &'env Env, image: String) -> Promised<'env, Option<u32>> {
    let engine = self.engine();
    spawn(env, async move { engine.pull_image(&image, &|_progress| (), &Cancel::new()).await.map(nothing) })
  }

  /// Removes a network.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | null>")]
  pub fn remove_network<'env>(&self, env: &'env Env, id: String) -> Promised<'env, Option<u32>> {
    let engine = self.engine();
    spawn(env, async move { engine.remove_network(&id).await.map(nothing) })
  }
}

/// `undefined` is not a value that crosses in a union; `null` is.
pub(super) const fn nothing(_done: ()) -> Option<u32> {
  None
}

fn too_long(size: u64) -> crate::error::Error {
  fail!(
    Limit,
    "An archive of {size} bytes was passed; at most {MAX_ARCHIVE_BYTES} may be. Pass an async iterable instead."
  )
}

/// A time limit that is no number runs out at once, as in the package that this one replaces.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as casts of doubles saturate")]
fn exec_request(options: ExecOptions) -> ExecRequest {
  let millis =
    if options.timeout_ms.is_finite() { options.timeout_ms.clamp(1.0, f64::from(i32::MAX)) } else { 1.0 };
  ExecRequest {
    cmd: options.cmd,
    user: options.user,
    env: options.env.unwrap_or_default(),
    working_dir: options.working_dir,
    timeout: Duration::from_millis(millis as u64),
    max_output_bytes: options.max_output_bytes as u64,
    stdin: Stdin::Empty,
    cancel: Cancel::new(),
    skip_terminate: options.skip_terminate,
    marker: options.marker,
    extra_stderr_bytes: 0,
    clean_mark: None,
    exclusive: false,
    tap: None,
    permit: None,
  }
}

#[expect(clippy::cast_precision_loss, reason = "an exit code has eight bits")]
fn exec_result(output: ExecOutput) -> Result<ExecResult> {
  let timed_out = output.end == ExecEnd::TimedOut;
  let truncated = output.end == ExecEnd::Truncated;
  let exit_code = match output.exit_code {
    Some(code) => code as f64,
    None if timed_out || truncated => KILLED,
    None => {
      return Err(fail!(DockerApi, "The command ended and the Docker engine does not know its exit code."));
    }
  };
  Ok(ExecResult {
    exit_code,
    stdout: output.stdout.into(),
    stderr: output.stderr.into(),
    truncated,
    timed_out,
  })
}
