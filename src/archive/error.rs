//! Why an archive is not accepted. Callers give it the code that suits what they were doing.

use crate::error::{Error, ErrorCode};
use crate::workspace::path::quote;

/// What is wrong with an archive. Names in it are escaped and shortened, contents never appear.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
  /// It ended before its end marker.
  #[error("the archive ends in the middle, after {at} bytes")]
  Cut {
    /// Bytes read.
    at: u64,
  },
  /// It is no tar archive, or a broken one.
  #[error("the archive is damaged before byte {at}: {what}")]
  Damaged {
    /// Bytes read so far.
    at: u64,
    /// What was found.
    what: &'static str,
  },
  /// An entry that the rules do not accept.
  #[error("entry {name} of the archive is refused: {why}")]
  Refused {
    /// The name in quotes, escaped.
    name: String,
    /// The rule.
    why: Refusal,
  },
  /// A budget would be passed.
  #[error("entry {name} of the archive passes the limit of {max} {what}")]
  Limit {
    /// The name in quotes, escaped.
    name: String,
    /// What is counted.
    what: &'static str,
    /// How much there may be.
    max: u64,
  },
  /// An entry that nobody asked for.
  #[error("the archive holds {name}, which was not asked for")]
  Unasked {
    /// The name in quotes, escaped.
    name: String,
  },
  /// The entry that was asked for is not there.
  #[error("the archive does not hold {name}")]
  Missing {
    /// The name in quotes, escaped.
    name: String,
  },
}

/// The rule that refused an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
  /// No name.
  #[error("its name is empty")]
  EmptyName,
  /// NUL in a name or a link target.
  #[error("its name or link target contains a NUL byte")]
  Nul,
  /// A name that starts with `/`.
  #[error("its name is absolute")]
  Absolute,
  /// `..` in a name.
  #[error("its name contains \"..\"")]
  Parent,
  /// A component over 255 bytes.
  #[error("a component of its name or link target is longer than 255 bytes")]
  LongComponent,
  /// A path over 4095 bytes.
  #[error("its name or link target is longer than 4095 bytes")]
  LongPath,
  /// More than 64 components.
  #[error("it is more than 64 directories deep")]
  Deep,
  /// Two records that name it.
  #[error("two header records give its name, link target or size")]
  Ambiguous,
  /// A type that is no file, directory or link, as in its header.
  #[error("type {:?} is no file, directory or link", char::from(*.0))]
  Type(u8),
  /// A sparse file.
  #[error("sparse files are not accepted")]
  Sparse,
  /// A regular file's name with a closing slash, which some programs take for a directory.
  #[error("a file's name ends with a slash")]
  FileWithSlash,
  /// A name that is not in the directory whose archive this is.
  #[error("it is not below the directory that was asked for")]
  Elsewhere,
  /// The workspace itself as something else than a directory.
  #[error("the workspace itself can only be a directory")]
  Root,
  /// Something else where a file was asked for.
  #[error("it is no regular file")]
  NotFile,
  /// Contents of a directory or link, which some programs skip and others do not.
  #[error("only files have contents")]
  Contents,
  /// An empty link target.
  #[error("its link target is empty")]
  EmptyTarget,
  /// A symbolic link that leaves the workspace, or may.
  #[error("its link target leaves the workspace")]
  LinkOutside,
  /// A hard link to something else than a file of this archive.
  #[error("a hard link can only lead to a regular file that is in this archive before it")]
  HardLink,
  /// A name below a file or a link of this archive.
  #[error("an entry before it has a file or link where this one needs a directory")]
  BelowOther,
  /// The same name with another type.
  #[error("an entry before it has the same name and another type")]
  OtherType,
}

impl ArchiveError {
  pub(crate) fn refused(name: &[u8], why: Refusal) -> Self {
    Self::Refused { name: quote_bytes(name), why }
  }

  pub(crate) fn limit(name: &[u8], what: &'static str, max: u64) -> Self {
    Self::Limit { name: quote_bytes(name), what, max }
  }

  /// As an error of the core: `LIMIT` for a budget, otherwise `code`.
  pub fn into_error(self, code: ErrorCode) -> Error {
    let code = if matches!(self, Self::Limit { .. }) { ErrorCode::Limit } else { code };
    Error::new(code, format!("{self}."))
  }
}

/// A name in quotes, escaped and shortened; bytes that are no text as `\x..`.
pub(crate) fn quote_bytes(name: &[u8]) -> String {
  match std::str::from_utf8(name) {
    Ok(text) => quote(text),
    Err(_) => {
      let shown = name.get(..SHOWN_BYTES);
      format!("\"{}\"{}", shown.unwrap_or(name).escape_ascii(), if shown.is_some() { "…" } else { "" })
    }
  }
}

/// Bytes of a name that is no text in a message; as many as [`quote`] shows characters.
const SHOWN_BYTES: usize = 120;
