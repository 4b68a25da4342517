//! A resolver that the application wrote, as the proxy sees it. Its answers are checked like those of any other.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use napi_derive::napi;
use serde_json::json;

use super::own_calls::{Answer, Callbacks, Dispatch, Question, at_most};
use crate::limits::PROXY_RESOLVE_TIMEOUT;
use crate::proxy::{Host, Resolver};

/// The option, and the one method of what it is called through.
const NAME: &str = "resolveHost";

/// A resolver.
#[napi]
pub struct ResolverHandle {
  resolver: Arc<dyn Resolver>,
}

/// A resolver that the application wrote.
#[napi(catch_unwind, ts_args_type = "dispatch: (call: OwnCall) => void")]
pub fn js_resolver(dispatch: Dispatch) -> ResolverHandle {
  ResolverHandle { resolver: Arc::new(JsResolver { calls: Callbacks::new(dispatch, NAME, "function") }) }
}

impl ResolverHandle {
  pub(super) fn resolver(&self) -> Arc<dyn Resolver> {
    Arc::clone(&self.resolver)
  }
}

struct JsResolver {
  calls: Callbacks,
}

#[async_trait]
impl Resolver for JsResolver {
  async fn lookup(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
    let question =
      Question { method: NAME, stream: 0, arguments: json!([host.to_string()]).to_string(), tar: None };
    // Whoever asked has a deadline of his own; this one lets go of the place.
    let answer = self.calls.ask(question, at_most(PROXY_RESOLVE_TIMEOUT)).await.map_err(io::Error::other)?;
    let Answer::Json(json) = answer else { return Err(io::ErrorKind::InvalidData.into()) };
    let texts: Vec<String> = serde_json::from_str(&json).map_err(io::Error::other)?;
    // One that is no address makes the whole answer none: what is left of it may not be what was meant.
    texts.iter().map(|text| text.parse().map_err(io::Error::other)).collect()
  }
}
