//! The key of a run: scope and run id together, as a hash that is fit for names and files.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::error::{Result, fail};

/// Longest part of a run's identity, in bytes.
const MAX_PART_BYTES: usize = 512;
/// What is hashed begins with this, so that no other hash of ours can equal a key.
const DOMAIN: &[u8] = b"zhivex.sandbox run key 1\0";

/// Whose run it is: the runtime's `scope`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
  /// The tenant.
  pub tenant_id: String,
  /// A user of the tenant.
  pub user_id: Option<String>,
  /// A part of the tenant's or user's runs.
  pub namespace: Option<String>,
}

/// 64 hexadecimal digits that differ whenever any part differs; a part that is absent differs from an empty one. A part
/// of more than 512 bytes, a NUL, or an empty run id is `CONFIG_INVALID`.
pub fn run_key(scope: Option<&Scope>, run_id: &str) -> Result<String> {
  if run_id.is_empty() {
    return Err(fail!(ConfigInvalid, "The run id was an empty string; it must be a text of 1 to 512 bytes."));
  }
  let parts = [
    ("The scope's tenantId", scope.map(|scope| scope.tenant_id.as_str())),
    ("The scope's userId", scope.and_then(|scope| scope.user_id.as_deref())),
    ("The scope's namespace", scope.and_then(|scope| scope.namespace.as_deref())),
    ("The run id", Some(run_id)),
  ];
  let mut hash = Sha256::new_with_prefix(DOMAIN);
  for (name, part) in parts {
    match part {
      None => hash.update([0]),
      Some(text) => {
        check(name, text)?;
        // A length in front of each part: no two lists of parts have the same bytes.
        hash.update([1]);
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
      }
    }
  }
  Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn check(name: &str, text: &str) -> Result<()> {
  if text.len() > MAX_PART_BYTES {
    return Err(fail!(
      ConfigInvalid,
      "{name} was {} bytes; it must be at most {MAX_PART_BYTES}.",
      text.len()
    ));
  }
  if text.contains('\0') {
    return Err(fail!(ConfigInvalid, "{name} contains a NUL; it must be a text without."));
  }
  Ok(())
}

#[cfg(test)]
mod tests {
  use std::collections::BTreeSet;

  use super::*;
  use crate::error::ErrorCode;

  fn scope(tenant: &str, user: Option<&str>, namespace: Option<&str>) -> Option<Scope> {
    Some(Scope {
      tenant_id: tenant.into(),
      user_id: user.map(Into::into),
      namespace: namespace.map(Into::into),
    })
  }

  #[test]
  fn every_difference_counts() {
    let runs = [
      (None, "run"),
      (None, "run2"),
      (scope("", None, None), "run"),
      (scope("a", None, None), "run"),
      (scope("b", None, None), "run"),
      (scope("a", Some(""), None), "run"),
      (scope("a", None, Some("")), "run"),
      (scope("a", Some("u"), None), "run"),
      (scope("a", None, Some("u")), "run"),
      (scope("au", None, None), "run"),
      (scope("a", Some("u"), Some("n")), "run"),
      (scope("a", Some("un"), Some("")), "run"),
      (scope("a", Some("u"), Some("nr")), "un"),
      (scope("a", None, None), "Run"),
    ];
    let keys: BTreeSet<String> =
      runs.iter().map(|(scope, run)| run_key(scope.as_ref(), run).unwrap()).collect();
    assert_eq!(keys.len(), runs.len());
  }

  #[test]
  fn a_key_is_stable() {
    // From an independent implementation: sha256 of the domain, then 00, or 01 with an 8-byte length and the text.
    let key = run_key(scope("acme", Some("u1"), None).as_ref(), "run-1").unwrap();
    assert_eq!(key, "31c99f7d3b4bca929a1ab70afbc5dcf7a2f81786e8501775ec7bb90d3e1e0705");
  }

  #[test]
  fn bounds_its_parts() {
    let longest = "x".repeat(512);
    assert_eq!(
      run_key(scope(&longest, Some(&longest), Some(&longest)).as_ref(), &longest).unwrap().len(),
      64
    );
    let long = "x".repeat(513);
    let refused = |scope: Option<Scope>, run: &str, message: &str| {
      let error = run_key(scope.as_ref(), run).unwrap_err();
      assert_eq!((error.code(), error.message()), (ErrorCode::ConfigInvalid, message));
    };
    refused(None, "", "The run id was an empty string; it must be a text of 1 to 512 bytes.");
    refused(None, &long, "The run id was 513 bytes; it must be at most 512.");
    refused(None, "a\0", "The run id contains a NUL; it must be a text without.");
    refused(scope(&long, None, None), "r", "The scope's tenantId was 513 bytes; it must be at most 512.");
    refused(
      scope("t", Some("\0"), None),
      "r",
      "The scope's userId contains a NUL; it must be a text without.",
    );
    refused(
      scope("t", None, Some(&long)),
      "r",
      "The scope's namespace was 513 bytes; it must be at most 512.",
    );
  }
}
