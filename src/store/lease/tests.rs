use super::*;

fn record(key: &str, fence: u64) -> LeaseRecord {
  LeaseRecord {
    key: key.to_owned(),
    run_id: "run".to_owned(),
    environment_id: "env".to_owned(),
    workspace_id: "ws".to_owned(),
    fingerprint: "sha256:0".to_owned(),
    owner_id: "owner".to_owned(),
    container_id: "c".to_owned(),
    container_name: "n".to_owned(),
    network_id: None,
    image_ids: Vec::new(),
    network_used: None,
    token: "t".to_owned(),
    fence,
    holder: None,
    expires_at: 1,
    status: "running".to_owned(),
    snapshot_state: SnapshotState::None,
    snapshot_at: None,
    extra: serde_json::Map::new(),
  }
}

fn scope(tenant: &str, user: Option<&str>, namespace: Option<&str>) -> Scope {
  Scope {
    tenant_id: tenant.to_owned(),
    user_id: user.map(str::to_owned),
    namespace: namespace.map(str::to_owned),
  }
}

#[test]
fn no_two_runs_share_a_key() {
  let key = |scope: Option<Scope>, run: &str| run_key(scope.as_ref(), run).unwrap();
  let keys = [
    key(None, "r"),
    key(Some(scope("", None, None)), "r"),
    key(Some(scope("a", None, None)), "r"),
    key(Some(scope("b", None, None)), "r"),
    key(Some(scope("a", Some(""), None)), "r"),
    key(Some(scope("a", None, Some(""))), "r"),
    key(Some(scope("a", Some("b"), None)), "r"),
    key(Some(scope("a", None, Some("b"))), "r"),
    key(Some(scope("ab", None, None)), "r"),
    key(Some(scope("a", None, None)), "br"),
  ];
  let distinct: std::collections::HashSet<_> = keys.iter().collect();
  assert_eq!(distinct.len(), keys.len());
  assert_eq!(key(None, "r"), key(None, "r"));
  assert_eq!(keys[0].len(), 64);
}

#[test]
fn ids_are_bounded() {
  assert!(run_key(None, &"r".repeat(MAX_ID_BYTES)).is_ok());
  assert!(run_key(None, &"r".repeat(MAX_ID_BYTES + 1)).is_err());
  assert!(run_key(None, "").is_err());
  for hostile in [".", "..", "a/b", "\0", "../../etc"] {
    assert_eq!(run_key(None, hostile).unwrap().len(), 64);
  }
}

#[tokio::test]
async fn save_and_remove_compare_the_fence() {
  let store = MemoryLeaseStore::default();
  assert!(!store.save(&record("k", 1), Some(0)).await.unwrap());
  assert!(store.save(&record("k", 1), None).await.unwrap());
  assert!(!store.save(&record("k", 1), None).await.unwrap());
  assert!(!store.save(&record("k", 3), Some(2)).await.unwrap());
  assert!(store.save(&record("k", 2), Some(1)).await.unwrap());
  assert_eq!(store.load("k").await.unwrap().unwrap().fence, 2);
  assert!(!store.remove("k", 1).await.unwrap());
  assert!(store.remove("k", 2).await.unwrap());
  assert!(!store.remove("k", 2).await.unwrap());
  assert_eq!(store.load("k").await.unwrap(), None);
}

#[tokio::test]
async fn an_owner_sees_its_own() {
  let store = MemoryLeaseStore::default();
  for key in ["b", "a"] {
    assert!(store.save(&record(key, 1), None).await.unwrap());
  }
  let other = LeaseRecord { owner_id: "other".to_owned(), ..record("c", 1) };
  assert!(store.save(&other, None).await.unwrap());
  let keys: Vec<_> = store.list("owner").await.unwrap().into_iter().map(|record| record.key).collect();
  assert_eq!(keys, ["a", "b"]);
}

#[test]
fn a_record_is_json_with_the_public_names() {
  let json = serde_json::to_value(record("k", 1)).unwrap();
  assert_eq!(json["snapshotState"], "none");
  assert_eq!(json["holder"], serde_json::Value::Null);
  assert_eq!(serde_json::from_value::<LeaseRecord>(json).unwrap(), record("k", 1));
}
