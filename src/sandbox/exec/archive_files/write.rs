//! Writing a file whole, or not at all.

use std::time::Duration;

use bytes::Bytes;

use super::reader::{Kind, head};
use super::{Site, is_full};
use crate::archive::{ArchiveLimits, EntryPath, Owner, PackEntry, PackOptions, pack};
use crate::cancel::Cancel;
use crate::clock::since_1970;
use crate::docker::{ArchiveBody, Engine, ExecEnd, ExecOutput, ExecRequest, Stdin};
use crate::error::{Error, ErrorCode, Result, fail};
use crate::random;
use crate::workspace::path::WorkspacePath;

/// `mv` and `rm` of one file take as long as one exec; a container starved of CPU may need longer.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);
/// Kept of what they say.
const HELPER_OUTPUT_BYTES: u64 = 4096;

/// Writes a file whole, or not at all; missing parents are made with mode 0755 and stay whatever happens.
///
/// Where the container has `mv`, the contents go to a temporary name beside the file and are renamed. Elsewhere (some
/// doubles) they go to the file itself, and what a failure leaves of a new file is removed.
///
/// `PATH_INVALID` for a link on the way or in its place, for a directory, and where a parent is no directory; `LIMIT`
/// where the workspace is full or the file larger than an archive may be; `CANCELLED` leaves nothing behind.
pub async fn write_file(
  engine: &dyn Engine,
  container: &str,
  path: &WorkspacePath,
  contents: Bytes,
  mode: u32,
  owner: Owner,
  cancel: &Cancel,
) -> Result<()> {
  let site = Site { engine, container, path, verb: "write" };
  if path.is_root() {
    return Err(site.directory());
  }
  let (place, renames) =
    site.guard(cancel, async { Ok((locate(&site).await?, has_mv(&site).await?)) }).await?;
  let target = if renames { place.temporary(path)? } else { path.clone() };
  let tar = place.pack(&target, contents, mode, owner)?;
  let directory = place.directory.absolute();
  let put = engine.put_archive(container, &directory, ArchiveBody::Bytes(tar));
  let put = site.guard(cancel, put).await.map_err(|error| match error.code() {
    ErrorCode::Cancelled => error,
    _ => site.engine_failed(error),
  });
  let written = match put {
    Err(error) => Err(error),
    Ok(()) if !renames => Ok(()),
    // From here on it is a matter of one rename, which is not stopped half-way.
    Ok(()) => match cancel.check(&site.what()) {
      Err(error) => Err(error),
      Ok(()) => rename(&site, &target).await,
    },
  };
  if written.is_err() && (renames || !place.replaces) {
    remove(&site, &target).await;
  }
  written
}

/// Where a file goes.
struct Place {
  /// The deepest directory on its way that exists.
  directory: WorkspacePath,
  /// A regular file is there already.
  replaces: bool,
}

impl Place {
  /// A name beside the file that no program can guess.
  fn temporary(&self, path: &WorkspacePath) -> Result<WorkspacePath> {
    let name = random::hex::<16>()?;
    join(&path.parent().unwrap_or_else(WorkspacePath::root), &format!(".zhivex-{name}"))
  }

  /// The archive for [`Self::directory`] that makes what is missing of the parents, and the file.
  fn pack(&self, target: &WorkspacePath, contents: Bytes, mode: u32, owner: Owner) -> Result<Bytes> {
    let skipped = self.directory.components().count();
    let relative = target.components().skip(skipped).collect::<Vec<_>>().join("/");
    let now = since_1970().as_secs();
    let options =
      PackOptions { owner, mtime: i64::try_from(now).unwrap_or_default(), limits: ArchiveLimits::default() };
    let packed = EntryPath::parse(relative.as_bytes())
      .map_err(|why| fail!(PathInvalid, "Cannot write {target}: {why}."))
      .map(|path| pack(vec![PackEntry::File { path, contents, mode }], &options))?;
    packed.map_err(|error| error.into_error(ErrorCode::PathInvalid).context(format!("Writing {target}")))
  }
}

fn join(directory: &WorkspacePath, name: &str) -> Result<WorkspacePath> {
  WorkspacePath::parse(&format!("{}/{name}", directory.absolute()))
}

/// Finds the deepest directory that exists, and sees to it that nothing else is on the way.
async fn locate(site: &Site<'_>) -> Result<Place> {
  let mut directory = deepest(site).await?;
  // A realpath may resolve a path whose last part is missing, and links that lead nowhere resolve to nothing: what is
  // next on the way, its archive says.
  loop {
    let Some(name) = site.path.components().nth(directory.components().count()) else {
      return Err(site.directory());
    };
    let next = join(&directory, name)?;
    let last = next == *site.path;
    match head(site, &next).await? {
      None => return Ok(Place { directory, replaces: false }),
      Some(Kind::Symlink) => return Err(site.link()),
      Some(Kind::File) if last => return Ok(Place { directory, replaces: true }),
      Some(Kind::Directory) if last => return Err(site.directory()),
      Some(Kind::Other) if last => return Err(site.special()),
      Some(Kind::Directory) => directory = next,
      Some(_) => return Err(site.not_a_directory()),
    }
  }
}

/// The deepest directory above the file that resolves, which must be to itself.
async fn deepest(site: &Site<'_>) -> Result<WorkspacePath> {
  let mut next = site.path.parent();
  while let Some(directory) = next {
    let absolute = directory.absolute();
    // The dot makes it a question about a directory: of a file or of nothing it has no answer.
    let asked = if directory.is_root() { absolute.clone() } else { format!("{absolute}/.") };
    match site.engine.realpath(site.container, &asked).await {
      Ok(resolved) if resolved == absolute => return Ok(directory),
      Ok(_) => return Err(site.link()),
      Err(error) if error.is_not_found() => next = directory.parent(),
      Err(error) => return Err(site.engine_failed(error)),
    }
  }
  Err(fail!(NotFound, "Cannot write {}: the container {} has no workspace.", site.path, site.container))
}

/// True where the container has a working `mv`. Without operands a real one complains; what is not there or does not
/// care is none.
async fn has_mv(site: &Site<'_>) -> Result<bool> {
  match helper(site, vec!["/bin/mv".to_owned()]).await {
    Ok(ExecOutput { exit_code: Some(1..=125), .. }) => Ok(true),
    Ok(_) => Ok(false),
    Err(error) if error.code() == ErrorCode::Unsupported => Ok(false),
    Err(error) => Err(site.engine_failed(error)),
  }
}

async fn rename(site: &Site<'_>, temporary: &WorkspacePath) -> Result<()> {
  // -T: a directory that came to be there meanwhile is not moved into.
  let mut cmd = ["/bin/mv", "-f", "-T", "--"].map(str::to_owned).to_vec();
  cmd.extend([temporary.absolute(), site.path.absolute()]);
  let output = helper(site, cmd).await.map_err(|error| site.engine_failed(error))?;
  if (output.end, output.exit_code) == (ExecEnd::Finished, Some(0)) {
    return Ok(());
  }
  let said = String::from_utf8_lossy(&output.stderr);
  let said: String = said.trim().chars().take(300).collect();
  Err(if is_full(&said) { site.full() } else { refused(site, &said) })
}

fn refused(site: &Site<'_>, said: &str) -> Error {
  fail!(Denied, "Cannot write {}: the sandbox refused to put it in its place ({said}).", site.path)
}

/// Removes what a failed write left. The failure is what the caller hears of; a leftover goes with its container.
async fn remove(site: &Site<'_>, target: &WorkspacePath) {
  let mut cmd = ["/bin/rm", "-f", "--"].map(str::to_owned).to_vec();
  cmd.push(target.absolute());
  helper(site, cmd).await.ok();
}

async fn helper(site: &Site<'_>, cmd: Vec<String>) -> Result<ExecOutput> {
  let request = ExecRequest {
    cmd,
    user: String::new(),
    env: Vec::new(),
    working_dir: "/".to_owned(),
    timeout: HELPER_TIMEOUT,
    max_output_bytes: HELPER_OUTPUT_BYTES,
    stdin: Stdin::Empty,
    cancel: Cancel::new(),
    skip_terminate: true,
    marker: None,
    extra_stderr_bytes: 0,
    clean_mark: Some(String::new()),
    exclusive: false,
    tap: None,
    permit: None,
  };
  site.engine.exec(site.container, request).await
}
