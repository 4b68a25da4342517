use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::error::fail;

/// Events that are kept, and their end.
fn kept() -> (Events, Arc<Mutex<Vec<Value>>>) {
  let kept = Arc::new(Mutex::new(Vec::new()));
  let into = Arc::clone(&kept);
  let events = Events::to(move |event| {
    let mut json = json!(event);
    let at = json.as_object_mut().unwrap().remove("at").unwrap().as_u64().unwrap();
    assert!(at > 1_700_000_000_000, "{at} is no time in milliseconds");
    into.lock().unwrap().push(json);
  });
  (events, kept)
}

fn told(kind: Kind, run: Option<&str>) -> Value {
  let (events, kept) = kept();
  events.emit(run, || kind);
  kept.lock().unwrap().pop().unwrap()
}

#[test]
fn the_course_of_a_run_as_json() {
  let (r, duration_ms) = (Some("r"), 7);
  let table = [
    (
      told(
        Kind::Acquired {
          how: How::TakenOver,
          transport: "exec",
          fallback_reason: Some("Why.".to_owned()),
          duration_ms,
        },
        r,
      ),
      json!({ "type": "acquired", "how": "taken_over", "transport": "exec", "fallbackReason": "Why.", "durationMs": 7, "runId": "r", "message": "Acquired run r in 7 ms: the container of a holder that died or fell silent, transport exec." }),
    ),
    (
      told(
        Kind::Operation {
          operation: Operation::ReadFile,
          outcome: "failed",
          code: Some("LIMIT"),
          duration_ms,
          bytes_in: 0,
          bytes_out: 3,
        },
        r,
      ),
      json!({ "type": "operation", "operation": "read_file", "outcome": "failed", "code": "LIMIT", "durationMs": 7, "bytesIn": 0, "bytesOut": 3, "runId": "r", "message": "Reading a file in run r ended after 7 ms: failed (LIMIT)." }),
    ),
    (
      told(Kind::SnapshotSaved { bytes: 1024, duration_ms }, r),
      json!({ "type": "snapshot_saved", "bytes": 1024, "durationMs": 7, "runId": "r", "message": "The workspace of run r was saved in 7 ms: 1024 bytes." }),
    ),
    (
      told(
        Kind::Released { status: "suspended".to_owned(), kept: true, snapshot_bytes: Some(9), duration_ms },
        r,
      ),
      json!({ "type": "released", "status": "suspended", "kept": true, "snapshotBytes": 9, "durationMs": 7, "runId": "r", "message": "Released run r as suspended in 7 ms: it is kept for later." }),
    ),
  ];
  for (is, wanted) in table {
    assert_eq!(is, wanted);
  }
}

#[test]
fn the_troubles_of_a_run_as_json() {
  let (r, code, duration_ms) = (Some("r"), "DOCKER_API", 7);
  let table = [
    (
      told(Kind::TransportFallback { reason: "Why.".to_owned() }, r),
      json!({ "type": "transport_fallback", "reason": "Why.", "runId": "r", "message": "The resident transport failed for run r, docker exec takes its place: Why." }),
    ),
    (
      told(Kind::HeartbeatFailed { code }, r),
      json!({ "type": "heartbeat_failed", "code": "DOCKER_API", "runId": "r", "message": "The lease of run r could not be renewed (DOCKER_API). If that lasts, others may take the run over." }),
    ),
    (
      told(Kind::LeaseLost, r),
      json!({ "type": "lease_lost", "runId": "r", "message": "The lease of run r is lost: another holder has it, or its record is gone." }),
    ),
    (
      told(Kind::ContainerLost { code: "CONTAINER_LOST", reason: "it is gone".to_owned() }, r),
      json!({ "type": "container_lost", "code": "CONTAINER_LOST", "reason": "it is gone", "runId": "r", "message": "The container of run r is lost (CONTAINER_LOST): it is gone" }),
    ),
    (
      told(Kind::SnapshotFailed { code, duration_ms }, r),
      json!({ "type": "snapshot_failed", "code": "DOCKER_API", "durationMs": 7, "runId": "r", "message": "The workspace of run r could not be saved (DOCKER_API). If its container is lost, so is its work." }),
    ),
    (
      told(
        Kind::ReleaseFailed { status: "completed".to_owned(), undone: Undone::Removal, code, duration_ms },
        r,
      ),
      json!({ "type": "release_failed", "status": "completed", "undone": "removal", "code": "DOCKER_API", "durationMs": 7, "runId": "r", "message": "Releasing run r as completed failed (DOCKER_API): not all that it had could be removed; sweep() tries again." }),
    ),
  ];
  for (is, wanted) in table {
    assert_eq!(is, wanted);
  }
}

#[test]
fn what_is_of_no_run_as_json() {
  let (id, code, duration_ms) = ("abc".to_owned(), "DOCKER_API", 7);
  let table = [
    (
      told(Kind::ImagePulled { image: "i".to_owned(), bytes: None, duration_ms }, None),
      json!({ "type": "image_pulled", "image": "i", "durationMs": 7, "message": "Image i was pulled in 7 ms." }),
    ),
    (
      told(Kind::ImagePulled { image: "i".to_owned(), bytes: Some(9), duration_ms }, None),
      json!({ "type": "image_pulled", "image": "i", "bytes": 9, "durationMs": 7, "message": "Image i was pulled in 7 ms, 9 bytes." }),
    ),
    (
      told(Kind::ImageProgress { image: "i".to_owned(), bytes: 4, total_bytes: 9 }, None),
      json!({ "type": "image_progress", "image": "i", "bytes": 4, "totalBytes": 9, "message": "Image i is being pulled: 4 of 9 bytes that are known of by now." }),
    ),
    (
      told(
        Kind::CleanupFailed { resource: Resource::Container, id, code, reason: Some("Busy.".to_owned()) },
        None,
      ),
      json!({ "type": "cleanup_failed", "resource": "container", "id": "abc", "code": "DOCKER_API", "reason": "Busy.", "message": "Container abc of no run could not be removed (DOCKER_API): Busy." }),
    ),
    (
      told(
        Kind::Swept { expired_runs: 1, removed_containers: 2, removed_networks: 0, failures: 3, duration_ms },
        None,
      ),
      json!({ "type": "swept", "expiredRuns": 1, "removedContainers": 2, "failures": 3, "durationMs": 7, "message": "Swept in 7 ms: ended 1 expired runs, removed 2 containers without a lease, 3 failures." }),
    ),
    (
      told(
        Kind::Swept { expired_runs: 0, removed_containers: 0, removed_networks: 4, failures: 0, duration_ms },
        None,
      ),
      json!({ "type": "swept", "expiredRuns": 0, "removedContainers": 0, "removedNetworks": 4, "failures": 0, "durationMs": 7, "message": "Swept in 7 ms: ended 0 expired runs, removed 0 containers and 4 networks without a lease, 0 failures." }),
    ),
    (
      told(Kind::Closed { duration_ms }, None),
      json!({ "type": "closed", "durationMs": 7, "message": "The environment was closed in 7 ms." }),
    ),
  ];
  for (is, wanted) in table {
    assert_eq!(is, wanted);
  }
}

#[test]
fn nothing_is_made_where_nobody_listens() {
  Events::default().emit(Some("r"), || panic!("it was made"));
}

#[test]
fn what_found_no_room_is_counted_in_the_next_that_does() {
  let room = Arc::new(Mutex::new(vec![true, false, false, true, false, true, true]));
  let seen = Arc::new(Mutex::new(Vec::new()));
  let (rooms, into) = (Arc::clone(&room), Arc::clone(&seen));
  let events = Events::counted(move |event| {
    let taken = rooms.lock().unwrap().remove(0);
    if taken {
      into.lock().unwrap().push((event.run_id.clone().unwrap(), event.dropped));
    }
    taken
  });
  for run in ["1", "2", "3", "4", "5", "6", "7"] {
    events.emit(Some(run), || Kind::LeaseLost);
  }
  let wanted = [("1", 0), ("4", 2), ("6", 1), ("7", 0)].map(|(run, lost)| (run.to_owned(), lost));
  assert_eq!(*seen.lock().unwrap(), wanted);
  let json = json!(Event { kind: Kind::LeaseLost, at: 1, run_id: None, message: "m".to_owned(), dropped: 2 });
  assert_eq!(json, json!({ "type": "lease_lost", "at": 1, "message": "m", "dropped": 2 }));
}

#[test]
fn a_stores_words_are_not_passed_on_and_what_is_gone_was_not_left() {
  let (events, kept) = kept();
  let error = fail!(DockerApi, "quotes a token");
  events.left(Some("r"), Resource::Lease, "key", &error);
  events.left(Some("r"), Resource::Snapshot, "key", &error);
  events.left(Some("r"), Resource::Network, "n", &fail!(NotFound, "gone"));
  let message = |what, how| format!("{what} key of run r could not be removed{how} (DOCKER_API)");
  let event = |resource, message| {
    json!({
      "type": "cleanup_failed", "resource": resource, "id": "key", "code": "DOCKER_API", "runId": "r",
      "message": message,
    })
  };
  let wanted =
    [event("lease", message("Lease", " or brought up to date")), event("snapshot", message("Snapshot", ""))];
  assert_eq!(*kept.lock().unwrap(), wanted);
}

#[test]
fn what_the_proxy_decides_as_json() {
  let (r, host, rule) = (Some("r"), || "a.b.test".to_owned(), || "*.b.test".to_owned());
  let table = [
    (
      told(Kind::NetworkAllowed { host: host(), port: 443, rule: rule() }, r),
      json!({ "type": "network_allowed", "host": "a.b.test", "port": 443, "rule": "*.b.test", "runId": "r", "message": "The proxy let run r connect to a.b.test:443, by the rule *.b.test." }),
    ),
    (
      told(Kind::NetworkRefused { host: None, port: None, status: 400, reason: "No.".to_owned() }, r),
      json!({ "type": "network_refused", "status": 400, "reason": "No.", "runId": "r", "message": "The proxy refused a request of run r (400): No." }),
    ),
    (
      told(
        Kind::NetworkRefused { host: Some(host()), port: Some(80), status: 403, reason: "No.".to_owned() },
        r,
      ),
      json!({ "type": "network_refused", "host": "a.b.test", "port": 80, "status": 403, "reason": "No.", "runId": "r", "message": "The proxy refused a request of run r to a.b.test:80 (403): No." }),
    ),
    (
      told(
        Kind::NetworkClosed {
          host: host(),
          port: 443,
          rule: rule(),
          bytes_up: 1,
          bytes_down: 2,
          reason: Some("Why.".to_owned()),
        },
        r,
      ),
      json!({ "type": "network_closed", "host": "a.b.test", "port": 443, "rule": "*.b.test", "bytesUp": 1, "bytesDown": 2, "reason": "Why.", "runId": "r", "message": "A connection of run r to a.b.test:443 ended: 1 bytes there, 2 bytes back. Cut: Why." }),
    ),
  ];
  for (is, wanted) in table {
    assert_eq!(is, wanted);
  }
}
