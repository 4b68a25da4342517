//! What texts may be: users, images, runtimes, ids, tools, commands, variables.

use super::User;
use super::defaults::MAX_ID;

/// Longest id, version or name of ours, in bytes: they travel as labels and in every lease.
const MAX_ID_BYTES: usize = 512;
/// Longest image reference (the distribution specification bounds repository names to 255).
const MAX_REFERENCE_BYTES: usize = 255;
/// Longest name of a tool; model providers allow 64 or 128.
const MAX_TOOL_BYTES: usize = 128;
/// What an id may be, for messages.
pub const ID_MAY: &str = "a text of 1 to 512 bytes without control characters";
/// What an image may be.
pub const IMAGE_MAY: &str =
  "an image reference of 1 to 255 letters, digits and ._-/:@+[] that does not begin with \"-\"";
/// What a runtime may be.
pub const RUNTIME_MAY: &str =
  "the name of an OCI runtime: 1 to 255 letters, digits and ._-/, not beginning with \"-\"";
/// What a user may be.
pub const USER_MAY: &str =
  "\"uid\" or \"uid:gid\", each a whole number from 1 to 2147483646 without leading zeros (root is refused)";
/// What a tool's name may be.
pub const TOOL_MAY: &str = "a tool name of 1 to 128 bytes without white space or control characters";
/// What a variable's name may be.
pub const VARIABLE_MAY: &str = "letters, digits and \"_\", not beginning with a digit";

/// An id, a version, an owner.
pub fn is_id(text: &str) -> bool {
  !text.is_empty() && text.len() <= MAX_ID_BYTES && !text.chars().any(char::is_control)
}

/// An image reference as far as its characters go; the engine parses it.
pub fn is_image(text: &str) -> bool {
  is_plain(text, b"._-/:@+[]")
}

/// An OCI runtime, by name or as newer engines take it by path.
pub fn is_runtime(text: &str) -> bool {
  is_plain(text, b"._-/")
}

fn is_plain(text: &str, punctuation: &[u8]) -> bool {
  (1..=MAX_REFERENCE_BYTES).contains(&text.len())
    && !text.starts_with('-')
    && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || punctuation.contains(&byte))
}

/// A tool's name.
pub fn is_tool(text: &str) -> bool {
  (1..=MAX_TOOL_BYTES).contains(&text.len()) && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// A numeric user; one number is both user and group.
pub fn parse_user(text: &str) -> Option<User> {
  let (uid, gid) = text.split_once(':').unwrap_or((text, text));
  Some(User { uid: parse_id(uid)?, gid: parse_id(gid)? })
}

fn parse_id(text: &str) -> Option<u32> {
  // `parse` alone would take "+5" and "007".
  let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
  text.parse().ok().filter(|id| plain && (1..=MAX_ID).contains(id))
}
