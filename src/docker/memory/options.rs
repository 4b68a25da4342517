//! What the double starts with, and which of its calls fail: the options of the public `createMemoryDockerClient`.

use serde::Deserialize;

use crate::error::{Error, ErrorCode, Result, fail, shown};

/// Images that are there without being asked for: the default image of the product, and the usual small ones.
pub const DEFAULT_IMAGES: &[&str] = &["alpine:3.21", "alpine:latest", "busybox:latest", "debian:12-slim"];

/// Calls that can be made to fail, by their public names; the last three are no public methods, but made while a run is acquired.
pub const METHODS: &[&str] = &[
  "createContainer",
  "startContainer",
  "inspectContainer",
  "removeContainer",
  "killContainer",
  "listContainers",
  "putArchive",
  "getArchive",
  "exec",
  "realpath",
  "commitContainer",
  "removeImage",
  "createNetwork",
  "removeNetwork",
  "info",
  "inspectImage",
  "pullImage",
];

/// A call that fails. It changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
  /// One of [`METHODS`].
  pub method: String,
  /// Which call of that method, counted from 1.
  pub nth: u32,
  /// The error's code.
  pub code: ErrorCode,
  /// The error's message.
  pub message: String,
}

/// How a double is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
  /// References of the images on it; others can be pulled.
  pub images: Vec<String>,
  /// Calls that fail.
  pub fail: Vec<Fault>,
}

impl Default for MemoryOptions {
  fn default() -> Self {
    Self { images: DEFAULT_IMAGES.iter().map(|&name| name.to_owned()).collect(), fail: Vec::new() }
  }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
  images: Option<Vec<String>>,
  #[serde(default)]
  fail: Vec<RawFault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFault {
  method: String,
  nth: u32,
  code: Option<String>,
  message: Option<String>,
}

impl MemoryOptions {
  /// Reads `{ images?: string[], fail?: [{ method, nth, code?, message? }] }`. Without `images` there are
  /// [`DEFAULT_IMAGES`]; without a code it is `DOCKER_API`. Everything else is `CONFIG_INVALID`.
  pub fn from_json(json: &str) -> Result<Self> {
    let raw: Raw = serde_json::from_str(json).map_err(|error| {
      fail!(
        ConfigInvalid,
        "The options of the in-memory client are wrong: {}. They may be images (a list of references) and fail (a list of {{ method, nth, code, message }}).",
        shown(&error.to_string())
      )
    })?;
    let images = raw.images.unwrap_or_else(|| Self::default().images);
    if images.iter().any(String::is_empty) {
      return Err(fail!(
        ConfigInvalid,
        "Option images holds an empty reference; use one such as \"alpine:3.21\"."
      ));
    }
    let fail = raw.fail.into_iter().enumerate().map(|(at, fault)| fault.check(at)).collect::<Result<_>>()?;
    Ok(Self { images, fail })
  }
}

impl RawFault {
  fn check(self, at: usize) -> Result<Fault> {
    let Self { method, nth, code, message } = self;
    if !METHODS.contains(&method.as_str()) {
      return Err(fail!(
        ConfigInvalid,
        "Option fail[{at}].method is {:?}; it may be one of {}.",
        shown(&method),
        METHODS.join(", ")
      ));
    }
    if nth == 0 {
      return Err(fail!(ConfigInvalid, "Option fail[{at}].nth is 0; calls are counted from 1."));
    }
    let code = match code {
      None => ErrorCode::DockerApi,
      Some(text) => parse_code(&text).ok_or_else(|| {
        fail!(
          ConfigInvalid,
          "Option fail[{at}].code is {:?}; it may be one of {}.",
          shown(&text),
          codes().join(", ")
        )
      })?,
    };
    let message =
      message.unwrap_or_else(|| format!("The in-memory client was told to fail call {nth} of {method}."));
    Ok(Fault { method, nth, code, message })
  }
}

impl From<&Fault> for Error {
  fn from(fault: &Fault) -> Self {
    Self::new(fault.code, fault.message.clone())
  }
}

fn parse_code(text: &str) -> Option<ErrorCode> {
  ErrorCode::ALL.iter().copied().find(|code| code.as_str() == text)
}

fn codes() -> Vec<&'static str> {
  ErrorCode::ALL.iter().map(|code| code.as_str()).collect()
}
