//! Stores that the application wrote, as the core sees stores. Their answers are checked field by field.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::archive::ArchiveDownload;
use super::own_calls::{Answer, Callbacks, Question, at_most};
use super::watched_tar::Watched;
use crate::error::Result;
use crate::limits::{LEASE_CALL_TIMEOUT, SNAPSHOT_CALL_TIMEOUT};
use crate::store::lease::{LeaseRecord, LeaseStore};
use crate::store::record::{lease_record, snapshot_meta};
use crate::store::snapshot::{Snapshot, SnapshotMeta, SnapshotStore};
use crate::stream::ByteStream;

/// A lease store of the application's own.
pub struct JsLeaseStore {
  calls: Callbacks,
}

impl JsLeaseStore {
  /// A lease store behind a dispatcher.
  pub const fn new(calls: Callbacks) -> Self {
    Self { calls }
  }

  async fn ask(&self, method: &'static str, arguments: Value) -> Result<Value> {
    let question = Question { method, stream: 0, arguments: arguments.to_string(), tar: None };
    value(&self.calls, method, self.calls.ask(question, at_most(LEASE_CALL_TIMEOUT)).await?)
  }

  async fn decide(&self, method: &'static str, arguments: Value) -> Result<bool> {
    let answer = self.ask(method, arguments).await?;
    answer.as_bool().ok_or_else(|| self.calls.rubbish(method, "it must resolve to true or false"))
  }

  fn record(&self, method: &str, value: Value) -> Result<LeaseRecord> {
    lease_record(value).map_err(|why| self.calls.rubbish(method, &why))
  }
}

#[async_trait]
impl LeaseStore for JsLeaseStore {
  async fn load(&self, key: &str) -> Result<Option<LeaseRecord>> {
    let answer = self.ask("load", json!([key])).await?;
    if answer.is_null() {
      return Ok(None);
    }
    let record = self.record("load", answer)?;
    if record.key == key {
      return Ok(Some(record));
    }
    Err(self.calls.rubbish("load", "the record's key is not the one that was asked for"))
  }

  async fn save(&self, record: &LeaseRecord, expected: Option<u64>) -> Result<bool> {
    self.decide("save", json!([record, expected])).await
  }

  async fn remove(&self, key: &str, expected: u64) -> Result<bool> {
    self.decide("remove", json!([key, expected])).await
  }

  async fn list(&self, owner_id: &str) -> Result<Vec<LeaseRecord>> {
    let Value::Array(records) = self.ask("list", json!([owner_id])).await? else {
      return Err(self.calls.rubbish("list", "it must resolve to an array of records"));
    };
    let records: Vec<_> =
      records.into_iter().map(|record| self.record("list", record)).collect::<Result<_>>()?;
    if records.iter().all(|record| record.owner_id == owner_id) {
      return Ok(records);
    }
    Err(self.calls.rubbish("list", "a record's ownerId is not the one that was asked for"))
  }
}

fn value(calls: &Callbacks, method: &str, answer: Answer) -> Result<Value> {
  let Answer::Json(json) = answer else { return Err(calls.rubbish(method, "it was no value")) };
  serde_json::from_str(&json).map_err(|error| calls.rubbish(method, &error.to_string()))
}

/// A snapshot store of the application's own.
pub struct JsSnapshotStore {
  calls: Arc<Callbacks>,
  streams: AtomicU32,
}

impl JsSnapshotStore {
  /// A snapshot store behind a dispatcher.
  pub fn new(calls: Callbacks) -> Self {
    Self { calls: Arc::new(calls), streams: AtomicU32::new(0) }
  }

  fn question(&self, method: &'static str, arguments: Value, tar: Option<ArchiveDownload>) -> Question {
    let stream = self.streams.fetch_add(1, Ordering::Relaxed);
    Question { method, stream, arguments: arguments.to_string(), tar }
  }
}

#[async_trait]
impl SnapshotStore for JsSnapshotStore {
  async fn load(&self, key: &str) -> Result<Option<Snapshot>> {
    let question = self.question("load", json!([key]), None);
    // Before the answer: once it has come, JavaScript keeps the iterator until it is told that nobody reads it.
    let mut tar = JsTar { calls: Arc::clone(&self.calls), stream: question.stream, open: true };
    let answer = self.calls.ask(question, at_most(SNAPSHOT_CALL_TIMEOUT)).await?;
    let meta = value(&self.calls, "load", answer)?;
    if meta.is_null() {
      tar.open = false;
      return Ok(None);
    }
    let meta = snapshot_meta(meta).map_err(|why| self.calls.rubbish("load", &format!("meta: {why}")))?;
    Ok(Some(Snapshot { meta, tar: tar.stream() }))
  }

  async fn save(&self, key: &str, meta: SnapshotMeta, tar: ByteStream) -> Result<()> {
    let (watched, tar) = Watched::new(tar);
    let download = ArchiveDownload::of(tar);
    let question = self.question("save", json!([key, meta]), Some(download.clone()));
    let answer = self.calls.ask(question, watched.stalled(SNAPSHOT_CALL_TIMEOUT)).await;
    // Whoever still reads it gets its error or nothing, but no end.
    download.cancel();
    watched.failure()?;
    answer?;
    if watched.is_read() {
      return Ok(());
    }
    Err(self.calls.rubbish("save", "it resolved before it had read the tar to its end"))
  }

  async fn remove(&self, key: &str) -> Result<()> {
    let question = self.question("remove", json!([key]), None);
    self.calls.ask(question, at_most(SNAPSHOT_CALL_TIMEOUT)).await.map(drop)
  }
}

/// A tar that JavaScript reads from the application's store, a piece each time one is asked for.
struct JsTar {
  calls: Arc<Callbacks>,
  stream: u32,
  open: bool,
}

impl JsTar {
  fn stream(self) -> ByteStream {
    let pieces = futures_util::stream::unfold(Some(self), |tar| async {
      let mut tar = tar?;
      match tar.next().await {
        Ok(Answer::Piece(piece)) => Some((Ok(piece), Some(tar))),
        Ok(_) => {
          tar.open = false;
          None
        }
        Err(error) => Some((Err(error), None)),
      }
    });
    pieces.boxed()
  }

  async fn next(&self) -> Result<Answer> {
    self.calls.ask(self.question("next"), at_most(SNAPSHOT_CALL_TIMEOUT)).await
  }

  const fn question(&self, method: &'static str) -> Question {
    Question { method, stream: self.stream, arguments: String::new(), tar: None }
  }
}

impl Drop for JsTar {
  fn drop(&mut self) {
    if self.open {
      self.calls.tell(self.question("return"));
    }
  }
}
