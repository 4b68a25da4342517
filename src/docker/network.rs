//! Networks of runs.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::sleep;

use super::client::Client;
use super::container::has_label;
use super::model::{ListedNetwork, Network};
use super::request::{api_error, encode, segment};
use crate::error::Result;

/// First pause between two tries to remove a network; it doubles up to the slowest, after which no more is tried.
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);
const REMOVAL_SLOWEST_PAUSE: Duration = Duration::from_millis(800);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Created {
  id: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Found {
  #[serde(rename = "IPAM")]
  ipam: Option<Ipam>,
  /// By id; what is known of each does not matter.
  containers: Option<BTreeMap<String, IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Ipam {
  config: Option<Vec<IpamConfig>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct IpamConfig {
  subnet: Option<String>,
  gateway: Option<String>,
}

impl Client {
  pub(super) async fn make_network(&self, name: &str, labels: &BTreeMap<String, String>) -> Result<Network> {
    let mut labels = labels.clone();
    labels.insert("zhivex.sandbox".to_owned(), "1".to_owned());
    let body = json!({ "Name": name, "Internal": true, "EnableIPv6": false, "Labels": labels });
    let created: Created = self.json(Method::POST, "/networks/create", Some(&body)).await?;
    let found = match self.network(&created.id).await {
      Ok(found) => found,
      Err(error) => {
        // Nobody would know of it.
        self.delete_network(&created.id).await.ok();
        return Err(error);
      }
    };
    let first = found.ipam.and_then(|ipam| ipam.config).and_then(|config| config.into_iter().next());
    let IpamConfig { subnet, gateway } = first.unwrap_or_default();
    Ok(Network { id: created.id, gateway, subnet })
  }

  pub(super) async fn labelled_networks(&self, label: &str) -> Result<Vec<ListedNetwork>> {
    let filters = json!({ "label": [label] }).to_string();
    let path = format!("/networks?filters={}", encode(&filters));
    let listed: Vec<ListedNetwork> = self.json(Method::GET, &path, None).await?;
    Ok(listed.into_iter().filter(|network| has_label(&network.labels, label)).collect())
  }

  async fn network(&self, id: &str) -> Result<Found> {
    self.json(Method::GET, &format!("/networks/{}", segment(id)?), None).await
  }

  /// Removes a network. An engine may keep the endpoint of a container that is gone, and refuses while it does.
  pub(super) async fn delete_network(&self, id: &str) -> Result<()> {
    let path = format!("/networks/{}", segment(id)?);
    let mut pause = REMOVAL_PAUSE;
    loop {
      let reply = self.call(Method::DELETE, &path, None).await?;
      let refused = matches!(reply.meaning(), StatusCode::FORBIDDEN | StatusCode::CONFLICT);
      if reply.status.is_success() {
        return Ok(());
      }
      if !refused || pause > REMOVAL_SLOWEST_PAUSE || !self.disconnect_gone(id).await {
        return Err(api_error(&Method::DELETE, &path, &reply));
      }
      sleep(pause).await;
      pause *= 2;
    }
  }

  /// Takes containers that are gone or have ended off a network; false where others are still on it.
  async fn disconnect_gone(&self, id: &str) -> bool {
    let containers = match self.network(id).await {
      Ok(found) => found.containers.unwrap_or_default(),
      Err(_unknown) => return false,
    };
    let path = segment(id).map(|id| format!("/networks/{id}/disconnect"));
    let Ok(path) = path else { return false };
    for container in containers.keys() {
      match self.inspection(container).await {
        Ok(found) if found.state.running => return false,
        Err(error) if !error.is_not_found() => return false,
        _ => {}
      }
      let body = json!({ "Container": container, "Force": true });
      self.call(Method::POST, &path, Some(&body)).await.ok();
    }
    true
  }
}
