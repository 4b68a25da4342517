//! A part of a file as tools hand it to a model: text, or base64 where it is none.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;

use crate::error::{Result, fail};
use crate::sandbox::FileRange;
use crate::stream::utf8::trim_range;
use crate::workspace::path::WorkspacePath;

/// How contents are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
  /// As they are.
  Bytes,
  /// As text.
  Utf8,
  /// As base64 (RFC 4648, section 4).
  Base64,
}

impl Encoding {
  /// Reads the public name.
  pub fn parse(name: &str) -> Result<Self> {
    match name {
      "bytes" => Ok(Self::Bytes),
      "utf8" => Ok(Self::Utf8),
      "base64" => Ok(Self::Base64),
      _ => Err(fail!(ConfigInvalid, "encoding was {name:?}; it may be \"utf8\" or \"base64\".")),
    }
  }
}

/// A part of a file in an encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
  /// The bytes, for [`Encoding::Bytes`].
  pub bytes: Option<Bytes>,
  /// The text or base64, for the others.
  pub text: Option<String>,
  /// Where the contents begin, behind what was left out of a cut character.
  pub offset: u64,
  /// Size of the whole file.
  pub size: u64,
  /// The file goes on behind the contents.
  pub truncated: bool,
  /// Bytes of a character that the range cut were left out.
  pub trimmed: bool,
}

/// Encodes what was read from `offset` on. Text is trimmed to whole characters.
pub fn file_text(
  path: &WorkspacePath,
  range: FileRange,
  offset: u64,
  encoding: Encoding,
) -> Result<FilePart> {
  let FileRange { data, size, .. } = range;
  let more = offset.saturating_add(data.len() as u64) < size;
  let part = FilePart { bytes: None, text: None, offset, size, truncated: more, trimmed: false };
  match encoding {
    Encoding::Bytes => Ok(FilePart { bytes: Some(data), ..part }),
    Encoding::Base64 => Ok(FilePart { text: Some(BASE64_STANDARD.encode(&data)), ..part }),
    Encoding::Utf8 => {
      let read = trim_range(&data, offset > 0, more).map_err(|at| not_text(path, offset + at as u64))?;
      Ok(FilePart {
        text: Some(read.text.to_owned()),
        offset: offset + read.skipped as u64,
        truncated: more,
        trimmed: read.skipped + read.dropped > 0,
        ..part
      })
    }
  }
}

fn not_text(path: &WorkspacePath, at: u64) -> crate::error::Error {
  fail!(Unsupported, "File {path} is no UTF-8 text (byte {at}); read it with encoding \"base64\".")
}

#[cfg(test)]
mod tests {
  use super::*;

  fn part(data: &[u8], offset: u64, size: u64, encoding: Encoding) -> Result<FilePart> {
    let range = FileRange { data: Bytes::copy_from_slice(data), size, mode: 0o644 };
    file_text(&WorkspacePath::root(), range, offset, encoding)
  }

  #[test]
  fn text_is_trimmed_to_whole_characters_and_says_so() {
    let whole = part("é€".as_bytes(), 0, 5, Encoding::Utf8).unwrap();
    assert_eq!((whole.text.as_deref(), whole.truncated, whole.trimmed), (Some("é€"), false, false));
    let cut = part(&"é€".as_bytes()[1..4], 1, 5, Encoding::Utf8).unwrap();
    assert_eq!((cut.text.as_deref(), cut.offset, cut.truncated, cut.trimmed), (Some(""), 2, true, true));
  }

  #[test]
  fn what_is_no_text_is_refused_with_its_place_and_read_as_base64() {
    let error = part(b"ab\xff", 10, 13, Encoding::Utf8).unwrap_err();
    assert!(error.message().contains("byte 12") && error.message().contains("base64"), "{error}");
    assert_eq!(part(b"ab\xff", 10, 13, Encoding::Base64).unwrap().text.as_deref(), Some("YWL/"));
    assert!(part(b"ab\xff", 10, 14, Encoding::Bytes).unwrap().truncated);
    // A cut character at the very end of the file is not cut by the range.
    assert!(part(b"a\xe2\x82", 0, 3, Encoding::Utf8).is_err());
  }
}
