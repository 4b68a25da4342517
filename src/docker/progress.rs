//! How far a pull is, by what the engine says of each layer.

use std::collections::BTreeMap;

use serde_json::Value;

/// No image has so many layers: the kernel's own bound of an overlay is 500.
const MAX_LAYERS: usize = 1_024;

/// How much of an image has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
  /// Bytes that were fetched, as they come: compressed.
  pub bytes: u64,
  /// Bytes of the layers whose size is known by now; more may follow.
  pub total: u64,
}

/// The layers of a pull.
#[derive(Default)]
pub struct Layers(BTreeMap<String, Progress>);

impl Layers {
  /// Takes what the engine said. Whether anything came.
  pub fn take(&mut self, said: &Value) -> bool {
    let text = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
    let (id, status) = (text("id"), text("status"));
    let number = |name: &str| said.pointer(&format!("/progressDetail/{name}")).and_then(Value::as_u64);
    let before = self.0.get(id).copied().unwrap_or_default();
    let now = match status {
      // A size that is not known is -1 or absent.
      "Downloading" => {
        let bytes = number("current").unwrap_or(before.bytes);
        Progress { bytes, total: number("total").unwrap_or(before.total).max(bytes) }
      }
      "Download complete" | "Pull complete" => Progress { bytes: before.total, total: before.total },
      _ => return false,
    };
    if now == before || (self.0.len() >= MAX_LAYERS && !self.0.contains_key(id)) {
      return false;
    }
    self.0.insert(id.to_owned(), now);
    true
  }

  /// All of them together.
  pub fn sum(&self) -> Progress {
    self.0.values().fold(Progress::default(), |sum, layer| Progress {
      bytes: sum.bytes.saturating_add(layer.bytes),
      total: sum.total.saturating_add(layer.total),
    })
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use serde_json::json;

  #[test]
  fn layers_add_up_whatever_their_order() {
    let mut layers = Layers::default();
    let say = |layers: &mut Layers, id: &str, status: &str, detail: Value| {
      layers.take(&json!({ "id": id, "status": status, "progressDetail": detail }))
    };
    assert!(!say(&mut layers, "3.21", "Pulling from library/alpine", json!(null)));
    assert!(!say(&mut layers, "a", "Already exists", json!({})));
    assert!(say(&mut layers, "b", "Downloading", json!({ "current": 10, "total": 100 })));
    assert!(say(&mut layers, "c", "Downloading", json!({ "current": 5, "total": 7 })));
    assert_eq!(layers.sum(), Progress { bytes: 15, total: 107 });
    assert!(say(&mut layers, "b", "Download complete", json!({})));
    assert!(!say(&mut layers, "b", "Extracting", json!({ "current": 1, "total": 100 })));
    assert!(!say(&mut layers, "b", "Pull complete", json!({})));
    assert_eq!(layers.sum(), Progress { bytes: 105, total: 107 });
    // A registry that tells no size.
    assert!(say(&mut layers, "d", "Downloading", json!({ "current": 3, "total": -1 })));
    assert_eq!(layers.sum(), Progress { bytes: 108, total: 110 });
    assert!(!layers.take(&json!("rubbish")));
  }

  #[test]
  fn an_engine_cannot_have_it_grow() {
    let mut layers = Layers::default();
    for id in 0..2 * MAX_LAYERS {
      layers
        .take(&json!({ "id": id.to_string(), "status": "Downloading", "progressDetail": { "current": 1 } }));
    }
    assert_eq!(layers.sum().bytes, MAX_LAYERS as u64);
  }
}
