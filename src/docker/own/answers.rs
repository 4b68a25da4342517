//! What the application's client answered, checked. Whatever is wrong is told with the method's name.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result, fail, shown};

/// What `createContainer` and `commitContainer` resolve to.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Created {
  /// Full id.
  pub id: String,
}

/// What `createNetwork` resolves to.
#[derive(Deserialize)]
pub struct MadeNetwork {
  /// Full id.
  #[serde(rename = "Id")]
  pub id: String,
  /// Address of the engine's end, where it has one.
  #[serde(default)]
  pub gateway: Option<String>,
}

/// An answer in its shape; `CONFIG_INVALID` for any other.
pub fn parsed<T: DeserializeOwned>(method: &str, answer: Value) -> Result<T> {
  serde_json::from_value(answer).map_err(|error| rubbish(method, &error.to_string()))
}

/// The error for an answer that is none of the method's.
pub fn rubbish(method: &str, why: &str) -> Error {
  fail!(ConfigInvalid, "client.{method}() answered what it may not: {}.", shown(why))
}
