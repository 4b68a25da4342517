//! Networks of runs.

use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::Client;
use super::model::Network;
use super::request::segment;
use crate::error::Result;

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
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Ipam {
  config: Option<Vec<IpamConfig>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct IpamConfig {
  gateway: Option<String>,
}

impl Client {
  pub(super) async fn make_network(&self, name: &str) -> Result<Network> {
    let body = json!({
      "Name": name, "Internal": true, "CheckDuplicate": true, "Labels": { "zhivex.sandbox": "1" },
    });
    let created: Created = self.json(Method::POST, "/networks/create", Some(&body)).await?;
    let found: Found = self.json(Method::GET, &format!("/networks/{}", segment(&created.id)?), None).await?;
    let first = found.ipam.and_then(|ipam| ipam.config).and_then(|config| config.into_iter().next());
    Ok(Network { id: created.id, gateway: first.and_then(|config| config.gateway) })
  }

  pub(super) async fn delete_network(&self, id: &str) -> Result<()> {
    self.expect(Method::DELETE, &format!("/networks/{}", segment(id)?), None).await.map(drop)
  }
}
