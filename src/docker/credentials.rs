//! Credentials for registries, as `docker login` keeps them: in Docker's `config.json`, or with a credential helper that it
//! names. They go to the engine with a pull (Engine API, `X-Registry-Auth`), and into no message.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::credential_helper;
use super::files::read_json;
use super::locate::{Surroundings, config_folder};
use super::reference::Registry;

/// Some helpers ask a person for a finger or a passphrase.
const HELPER_PATIENCE: Duration = Duration::from_secs(30);
/// What a helper says in place of a name where its secret is a token.
const TOKEN: &str = "<token>";

/// What is known of a registry.
pub enum Credentials {
  /// The value of the header.
  Header(String),
  /// Nothing: whoever asks is nobody.
  None,
  /// They could not be read; why. The registry may not want any.
  Unreadable(String),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
  auths: BTreeMap<String, Entry>,
  creds_store: Option<String>,
  cred_helpers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
  auth: String,
  username: String,
  password: String,
  identitytoken: String,
  registrytoken: String,
}

/// Looks for the credentials of a registry.
pub async fn find(surroundings: &Surroundings, registry: Registry<'_>) -> Credentials {
  let Some(path) = config_folder(surroundings).map(|folder| folder.join("config.json")) else {
    return Credentials::None;
  };
  let config = match read_json::<Config>(&path).await {
    Ok(Some(config)) => config,
    Ok(None) => return Credentials::None,
    Err(error) => return Credentials::Unreadable(error.message().to_owned()),
  };
  let helper = of(&config.cred_helpers, registry).or(config.creds_store.as_ref());
  if let Some(name) = helper.filter(|name| !name.is_empty()) {
    return match credential_helper::ask(name, registry.address(), surroundings, HELPER_PATIENCE).await {
      Ok(Some(login)) if login.username == TOKEN => {
        header(&json!({ "identitytoken": login.secret }), registry)
      }
      Ok(Some(login)) => header(&json!({ "username": login.username, "password": login.secret }), registry),
      Ok(None) => Credentials::None,
      Err(why) => Credentials::Unreadable(why),
    };
  }
  of(&config.auths, registry)
    .and_then(Entry::fields)
    .map_or(Credentials::None, |fields| header(&fields, registry))
}

/// What is kept for a registry: under one of its names, or under an address with its host.
fn of<'a, T>(kept: &'a BTreeMap<String, T>, registry: Registry<'_>) -> Option<&'a T> {
  let keys = registry.keys();
  keys
    .iter()
    .find_map(|key| kept.get(*key))
    .or_else(|| kept.iter().find(|(address, _)| keys.contains(&host_of(address))).map(|(_, value)| value))
}

/// `https://host/v1/` is what `docker login` wrote long ago.
fn host_of(address: &str) -> &str {
  let bare = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")).unwrap_or(address);
  bare.split('/').next().unwrap_or(bare)
}

impl Entry {
  fn fields(&self) -> Option<Value> {
    if !self.identitytoken.is_empty() {
      return Some(json!({ "identitytoken": self.identitytoken }));
    }
    if !self.registrytoken.is_empty() {
      return Some(json!({ "registrytoken": self.registrytoken }));
    }
    let decoded = STANDARD.decode(&self.auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let both = decoded.as_deref().and_then(|text| text.split_once(':'));
    let (username, password) = both.unwrap_or((&self.username, &self.password));
    let password = password.trim_end_matches('\0');
    (!username.is_empty()).then(|| json!({ "username": username, "password": password }))
  }
}

fn header(fields: &Value, registry: Registry<'_>) -> Credentials {
  let mut fields = fields.clone();
  if let Some(object) = fields.as_object_mut() {
    object.insert("serveraddress".to_owned(), registry.address().into());
  }
  Credentials::Header(URL_SAFE.encode(fields.to_string()))
}

#[cfg(test)]
mod tests;
