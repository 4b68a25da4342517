//! The one error type of the core: a stable code, a message a user can act on, and the cause.

use std::fmt;
use std::sync::Arc;

/// What `Result` means everywhere in the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
  ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
    /// Stable codes; the strings are public (`SandboxError.code`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ErrorCode { $($(#[$doc])* $variant,)* }

    impl ErrorCode {
      /// Every code, in the order of the documentation.
      pub const ALL: &[Self] = &[$(Self::$variant,)*];

      /// The public string.
      pub const fn as_str(self) -> &'static str {
        match self { $(Self::$variant => $text,)* }
      }
    }
  };
}

codes! {
  /// The engine's socket is absent, refuses, may not be opened, or speaks no version that we do.
  DockerUnavailable => "DOCKER_UNAVAILABLE",
  /// The engine refused or broke off a request; the message is the engine's.
  DockerApi => "DOCKER_API",
  /// The engine (404) or the workspace has no such thing.
  NotFound => "NOT_FOUND",
  /// A path that is malformed, leaves the workspace, or goes through a symbolic link.
  PathInvalid => "PATH_INVALID",
  /// A documented limit would be passed, or the disk of a file store is full.
  Limit => "LIMIT",
  /// The caller's signal, or the end of the session, stopped the operation.
  Cancelled => "CANCELLED",
  /// A deadline of ours passed.
  Timeout => "TIMEOUT",
  /// The policy of the environment refuses it.
  Denied => "DENIED",
  /// The run's lease ended; its resources are removed.
  LeaseExpired => "LEASE_EXPIRED",
  /// The run's container is gone and nothing can restore it.
  ContainerLost => "CONTAINER_LOST",
  /// The run's snapshot is absent where one is needed, incomplete, altered, or stale.
  SnapshotInvalid => "SNAPSHOT_INVALID",
  /// The image is not on the engine, and may not or cannot be pulled.
  ImageMissing => "IMAGE_MISSING",
  /// An option is wrong, or what it leads to: a store's answer, a store's files. The message names it, what it was and
  /// what it may be.
  ConfigInvalid => "CONFIG_INVALID",
  /// The session or environment was released or closed before.
  Released => "RELEASED",
  /// This engine, image or version cannot do it.
  Unsupported => "UNSUPPORTED",
  /// A fault of this package; please report it.
  Internal => "INTERNAL",
  /// Somebody else holds the run, or it was started with another environment. JavaScript throws it as `ConflictError`.
  Conflict => "CONFLICT",
}

/// An error with a code, a message and perhaps a cause. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Error {
  code: ErrorCode,
  message: String,
  source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
  /// An error without a cause. `message` says what was attempted, on what, and what to do.
  pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
    Self { code, message: message.into(), source: None }
  }

  /// The same error with its cause.
  #[must_use]
  pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
    self.source = Some(Arc::new(source));
    self
  }

  /// The same error with words before its message ("writing src/a.txt: …").
  #[must_use]
  pub fn context(mut self, what: impl fmt::Display) -> Self {
    self.message = format!("{what}: {}", self.message);
    self
  }

  /// The stable code.
  pub const fn code(&self) -> ErrorCode {
    self.code
  }

  /// The message, without the cause.
  pub fn message(&self) -> &str {
    &self.message
  }

  /// True for `NOT_FOUND`.
  pub fn is_not_found(&self) -> bool {
    self.code == ErrorCode::NotFound
  }

  /// `Ok` where what was to be removed is gone already.
  pub fn unless_gone(self) -> Result<()> {
    if self.is_not_found() { Ok(()) } else { Err(self) }
  }

  /// True for `CANCELLED`.
  pub fn is_cancelled(&self) -> bool {
    self.code == ErrorCode::Cancelled
  }
}

impl fmt::Display for Error {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&self.message)
  }
}

impl std::error::Error for Error {
  fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
    self.source.as_deref().map(|source| source as _)
  }
}

/// How much is shown in a message of a text that a caller may have made as long as it likes, in characters.
const SHOWN_CHARS: usize = 300;

/// The front of such a text.
pub fn shown(text: &str) -> &str {
  text.char_indices().nth(SHOWN_CHARS).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// Shorthand for the constructors that appear everywhere.
macro_rules! fail {
  ($code:ident, $($arg:tt)*) => {
    $crate::error::Error::new($crate::error::ErrorCode::$code, format!($($arg)*))
  };
}
pub(crate) use fail;
