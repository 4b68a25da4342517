//! Sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use napi::bindgen_prelude::{Env, Uint8Array};
use napi_derive::napi;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::archive::ArchiveUpload;
use super::cancel::{CancelToken, cancel_of};
use super::convert::{copy, exit_code, number, optional_integer, optional_u32, parse};
use super::input::InputPipe;
use super::outcome::{Outcome, Promised, outcome, spawn};
use super::process::ProcessHandle;
use crate::docker::Stdin;
use crate::environment::authorize::authorize_json;
use crate::environment::operations::ExecArguments;
use crate::environment::processes::Term;
use crate::environment::session::Session;
use crate::environment::text::{Encoding, file_text};
use crate::error::{Result, fail};
use crate::sandbox::{CommandResult, EntryType, ListEntry, Outcome as CommandOutcome};
use crate::stream::utf8::decode_lossy;

/// An acquired run.
#[napi]
pub struct SessionHandle {
  session: Session,
}

impl SessionHandle {
  pub(super) const fn new(session: Session) -> Self {
    Self { session }
  }
}

/// A part of a file.
#[napi(object, object_from_js = false)]
pub struct ReadResult {
  /// Path relative to the workspace.
  pub path: String,
  /// The bytes, where bytes were asked for.
  pub data: Option<Uint8Array>,
  /// The text or the base64, where that was asked for.
  pub text: Option<String>,
  /// `bytes`, `utf8` or `base64`.
  pub encoding: String,
  /// Where the contents begin.
  pub offset: f64,
  /// Size of the whole file.
  pub size: f64,
  /// The file goes on behind the contents.
  pub truncated: bool,
  /// Bytes of characters that the range cut were left out.
  pub trimmed: bool,
}

/// What was written.
#[napi(object, object_from_js = false)]
pub struct WriteResult {
  /// Path relative to the workspace.
  pub path: String,
  /// Size in bytes.
  pub size: f64,
}

/// A listing.
#[napi(object, object_from_js = false)]
pub struct ListResult {
  /// Path relative to the workspace.
  pub path: String,
  /// Sorted entries, each `{ path, type, size, mode }`, as JSON: an object made through Node-API costs ten times as much.
  pub entries_json: String,
  /// There are more.
  pub truncated: bool,
}

/// What a command did.
#[napi(object, object_from_js = false)]
pub struct CommandReport {
  /// Its exit code, where it has one.
  pub exit_code: Option<f64>,
  /// The signal that ended it, where that is known.
  pub signal: Option<&'static str>,
  /// How it ended.
  pub outcome: &'static str,
  /// Standard output.
  pub stdout: String,
  /// Standard error.
  pub stderr: String,
  /// A cap was passed.
  pub truncated: bool,
  /// The time limit passed.
  pub timed_out: bool,
  /// How long it took, in milliseconds.
  pub duration_ms: f64,
}

/// A file that is being read.
#[napi(object, object_from_js = false)]
pub struct FileDownload {
  /// Path relative to the workspace.
  pub path: String,
  /// Size when it was opened.
  pub size: f64,
  /// Permission bits.
  pub mode: u32,
  /// Its bytes, as `stdout`.
  pub contents: ProcessHandle,
}

/// A file that is being written.
#[napi(object, object_from_js = false)]
pub struct FileUpload {
  /// Path relative to the workspace.
  pub path: String,
  /// Takes its bytes.
  pub contents: ArchiveUpload,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CapabilitiesJson<'a> {
  transport: &'static str,
  outcomes: Vec<&'static str>,
  race_free_paths: bool,
  #[serde(skip_serializing_if = "Option::is_none")]
  network: Option<&'static str>,
  #[serde(skip_serializing_if = "Option::is_none")]
  fallback_reason: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExecJson {
  command: String,
  #[serde(default)]
  args: Vec<String>,
  cwd: Option<String>,
  #[serde(default)]
  env: BTreeMap<String, String>,
  timeout_ms: Option<f64>,
}

#[napi]
impl SessionHandle {
  /// What the transport can do, as JSON.
  #[napi(catch_unwind)]
  pub fn capabilities_json(&self) -> String {
    let found = self.session.sandbox().capabilities();
    let capabilities = CapabilitiesJson {
      transport: found.transport,
      outcomes: found.outcomes.iter().map(|outcome| outcome.as_str()).collect(),
      race_free_paths: found.race_free_paths,
      network: self.session.network(),
      fallback_reason: self.session.instead(),
    };
    json!(capabilities).to_string()
  }

  /// Decides on a tool call; request and decision as JSON.
  #[napi(catch_unwind)]
  pub fn authorize(&self, request_json: String) -> String {
    authorize_json(&self.session.core().options, self.session.is_released(), &request_json)
  }

  /// Reads a part of a file.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | ReadResult>")]
  pub fn read_file<'env>(
    &self,
    env: &'env Env,
    path: String,
    encoding: String,
    offset: Option<f64>,
    limit: Option<f64>,
    token: Option<&CancelToken>,
  ) -> Promised<'env, ReadResult> {
    let (session, cancel) = (self.session.clone(), cancel_of(token));
    let (offset, limit) = (optional_integer(offset, "offset"), optional_integer(limit, "limit"));
    spawn(env, async move { read(&session, &path, &encoding, offset?.unwrap_or(0), limit?, &cancel).await })
  }

  /// Writes a file.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | WriteResult>")]
  pub fn write_file<'env>(
    &self,
    env: &'env Env,
    path: String,
    contents: Uint8Array,
    mode: Option<f64>,
    token: Option<&CancelToken>,
  ) -> Promised<'env, WriteResult> {
    let (session, cancel, contents) = (self.session.clone(), cancel_of(token), copy(&contents));
    let mode = optional_u32(mode, "mode");
    spawn(env, async move {
      let (path, size) = session.write_file(&path, contents, mode?, &cancel).await?;
      Ok(WriteResult { path: path.to_string(), size: number(size) })
    })
  }

  /// Writes a file from text or base64.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | WriteResult>")]
  pub fn write_text<'env>(
    &self,
    env: &'env Env,
    path: String,
    contents: String,
    encoding: String,
    mode: Option<f64>,
    token: Option<&CancelToken>,
  ) -> Promised<'env, WriteResult> {
    let (session, cancel, mode) = (self.session.clone(), cancel_of(token), optional_u32(mode, "mode"));
    spawn(env, async move {
      let contents = decode_contents(contents, &encoding)?;
      let (path, size) = session.write_file(&path, contents.into(), mode?, &cancel).await?;
      Ok(WriteResult { path: path.to_string(), size: number(size) })
    })
  }

  /// Lists a directory.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | ListResult>")]
  pub fn list<'env>(
    &self,
    env: &'env Env,
    path: String,
    depth: Option<f64>,
    limit: Option<f64>,
    token: Option<&CancelToken>,
  ) -> Promised<'env, ListResult> {
    let (session, cancel) = (self.session.clone(), cancel_of(token));
    let (depth, limit) = (optional_u32(depth, "depth"), optional_u32(limit, "limit"));
    spawn(env, async move {
      let limit = limit?.map(|limit| limit as usize);
      let (path, listing) = session.list(&path, depth?, limit, &cancel).await?;
      let entries: Vec<_> = listing.entries.iter().map(EntryJson::new).collect();
      Ok(ListResult {
        path: path.to_string(),
        entries_json: json_text(&entries)?,
        truncated: listing.truncated,
      })
    })
  }

  /// Runs a command.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | CommandReport>")]
  pub fn exec<'env>(
    &self,
    env: &'env Env,
    request_json: String,
    stdin: Option<Uint8Array>,
    input: Option<&InputPipe>,
    token: Option<&CancelToken>,
  ) -> Promised<'env, CommandReport> {
    let (session, cancel) = (self.session.clone(), cancel_of(token));
    let arguments = arguments(&request_json, stdin.as_ref(), input);
    spawn(env, async move { Ok(report(session.exec(arguments?, &cancel).await?)) })
  }

  /// Starts a command whose output is read while it runs, in the background or within the usual time limit.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | ProcessHandle>")]
  pub fn start<'env>(
    &self,
    env: &'env Env,
    request_json: String,
    background: bool,
    stdin: Option<Uint8Array>,
    input: Option<&InputPipe>,
    token: Option<&CancelToken>,
  ) -> Promised<'env, ProcessHandle> {
    let (session, cancel) = (self.session.clone(), cancel_of(token));
    let arguments = arguments(&request_json, stdin.as_ref(), input);
    let term = if background { Term::Background } else { Term::Limited };
    spawn(env, async move { Ok(ProcessHandle::new(session.start(arguments?, term, &cancel).await?, term)) })
  }

  /// Opens a file to be read piece by piece.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | FileDownload>")]
  pub fn read_file_stream<'env>(
    &self,
    env: &'env Env,
    path: String,
    offset: Option<f64>,
    limit: Option<f64>,
    token: Option<&CancelToken>,
  ) -> Promised<'env, FileDownload> {
    let (session, cancel) = (self.session.clone(), cancel_of(token));
    let (offset, limit) = (optional_integer(offset, "offset"), optional_integer(limit, "limit"));
    spawn(env, async move {
      let file = session.read_file_stream(&path, offset?.unwrap_or(0), limit?, &cancel).await?;
      Ok(FileDownload {
        path: file.path.to_string(),
        size: number(file.size),
        mode: file.mode,
        contents: ProcessHandle::new(file.contents, Term::Limited),
      })
    })
  }

  /// Begins to write a file that comes piece by piece.
  #[napi(catch_unwind)]
  pub fn write_file_stream(
    &self,
    path: String,
    mode: Option<f64>,
    token: Option<&CancelToken>,
  ) -> Outcome<FileUpload> {
    let (session, cancel) = (self.session.clone(), cancel_of(token));
    outcome(optional_u32(mode, "mode").and_then(|mode| {
      let path = Session::path_to_write(&path)?;
      let written = path.to_string();
      let work = move |contents| async move {
        session.write_file_stream(&path, contents, mode, &cancel).await.map(drop)
      };
      Ok(FileUpload { path: written, contents: ArchiveUpload::start("Writing a file", work) })
    }))
  }

  /// Saves the workspace; what is known of the snapshot, as JSON.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string>")]
  pub fn snapshot<'env>(&self, env: &'env Env, token: Option<&CancelToken>) -> Promised<'env, String> {
    let (session, cancel) = (self.session.clone(), cancel_of(token));
    spawn(env, async move { Ok(json!(session.snapshot(&cancel).await?).to_string()) })
  }

  /// True once `release` was called.
  #[napi(catch_unwind)]
  pub fn is_released(&self) -> bool {
    self.session.is_released()
  }

  /// Ends the session. Never fails; resolves to what could not be done, for events.
  #[napi(catch_unwind, ts_return_type = "Promise<Failure | string | null>")]
  pub fn release<'env>(&self, env: &'env Env, status: String) -> Promised<'env, Option<String>> {
    let session = self.session.clone();
    spawn(env, async move { Ok(session.release(&status).await.map(|error| error.to_string())) })
  }
}

/// The request of a command with its input, copied.
fn arguments(json: &str, stdin: Option<&Uint8Array>, input: Option<&InputPipe>) -> Result<ExecArguments> {
  let request = parse::<ExecJson>(json, "The request of a command")?;
  let timeout =
    optional_integer(request.timeout_ms, "timeoutMs")?.map(|millis| Duration::from_millis(millis.max(1)));
  let ExecJson { command, args, cwd, env, .. } = request;
  let stdin = input.map(InputPipe::stdin).or_else(|| stdin.map(|bytes| Stdin::Bytes(copy(bytes))));
  Ok(ExecArguments { command, args, cwd, env, stdin, timeout })
}

async fn read(
  session: &Session,
  path: &str,
  encoding: &str,
  offset: u64,
  limit: Option<u64>,
  cancel: &crate::cancel::Cancel,
) -> Result<ReadResult> {
  let kind = Encoding::parse(encoding)?;
  let (path, range) = session.read_file(path, offset, limit, cancel).await?;
  let part = file_text(&path, range, offset, kind)?;
  Ok(ReadResult {
    path: path.to_string(),
    data: part.bytes.map(|bytes| Vec::from(bytes).into()),
    text: part.text,
    encoding: encoding.to_owned(),
    offset: number(part.offset),
    size: number(part.size),
    truncated: part.truncated,
    trimmed: part.trimmed,
  })
}

fn decode_contents(contents: String, encoding: &str) -> Result<Vec<u8>> {
  match Encoding::parse(encoding)? {
    Encoding::Base64 => BASE64_STANDARD
      .decode(contents.as_bytes())
      .map_err(|error| fail!(ConfigInvalid, "The contents are no base64: {error}. Check the encoding.")),
    Encoding::Utf8 | Encoding::Bytes => Ok(contents.into_bytes()),
  }
}

/// One entry of a listing.
#[derive(Serialize)]
struct EntryJson<'a> {
  path: &'a str,
  r#type: &'static str,
  size: u64,
  mode: u32,
}

impl<'a> EntryJson<'a> {
  fn new(entry: &'a ListEntry) -> Self {
    let r#type = match entry.kind {
      EntryType::File => "file",
      EntryType::Directory => "directory",
      EntryType::Symlink => "symlink",
      EntryType::Other => "other",
    };
    Self { path: &entry.path, r#type, size: entry.size, mode: entry.mode }
  }
}

fn json_text(value: &impl Serialize) -> Result<String> {
  serde_json::to_string(value)
    .map_err(|error| fail!(Internal, "A listing could not be written as JSON.").with_source(error))
}

fn report(result: CommandResult) -> CommandReport {
  CommandReport {
    exit_code: result.exit_code.map(exit_code),
    signal: result.signal,
    outcome: result.outcome.as_str(),
    stdout: decode_lossy(&result.stdout, result.truncated),
    stderr: decode_lossy(&result.stderr, result.truncated),
    truncated: result.truncated,
    timed_out: result.outcome == CommandOutcome::TimedOut,
    duration_ms: result.duration.as_secs_f64() * 1000.0,
  }
}
