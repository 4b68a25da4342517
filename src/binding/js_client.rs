//! A Docker client that the application wrote, as the core sees it. What its calls answer is checked by the core.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::archive::ArchiveDownload;
use super::own_calls::{Answer, Callbacks, Question, at_most};
use crate::cancel::{Cancel, cancelled};
use crate::docker::own::{ExecAnswer, OwnClient};
use crate::error::Result;
use crate::limits::{ARCHIVE_TIMEOUT, ENGINE_REQUEST_TIMEOUT, OWN_EXEC_ABORT_TIMEOUT, OWN_PULL_TIMEOUT};

/// A Docker client of the application's own.
pub struct JsClient {
  calls: Callbacks,
  double: bool,
  optional: Vec<String>,
  execs: AtomicU32,
}

impl JsClient {
  /// A client behind a dispatcher.
  pub const fn new(calls: Callbacks, double: bool, optional: Vec<String>) -> Self {
    Self { calls, double, optional, execs: AtomicU32::new(0) }
  }

  fn value(&self, method: &str, json: &str) -> Result<Value> {
    serde_json::from_str(json).map_err(|error| self.calls.rubbish(method, &error.to_string()))
  }

  /// The value and the one or two byte strings beside it.
  fn parts(&self, method: &str, answer: Answer) -> Result<(Value, Bytes, Bytes)> {
    let Answer::Parts(json, parts) = answer else {
      return Err(self.calls.rubbish(method, "it was no value"));
    };
    let mut parts = parts.into_iter();
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    Ok((self.value(method, &json)?, first, second))
  }
}

const fn question(method: &'static str, arguments: String) -> Question {
  Question { method, stream: 0, arguments, tar: None }
}

#[async_trait]
impl OwnClient for JsClient {
  fn is_double(&self) -> bool {
    self.double
  }

  fn has(&self, method: &str) -> bool {
    self.optional.iter().any(|known| known == method)
  }

  async fn call(&self, method: &'static str, arguments: Value) -> Result<Value> {
    let limit = if method == "pullImage" { OWN_PULL_TIMEOUT } else { ENGINE_REQUEST_TIMEOUT };
    match self.calls.ask(question(method, arguments.to_string()), at_most(limit)).await? {
      Answer::Json(json) => self.value(method, &json),
      _ => Err(self.calls.rubbish(method, "it was no value")),
    }
  }

  async fn put_archive(&self, id: &str, path: &str, tar: Bytes) -> Result<()> {
    let tar = ArchiveDownload::of(futures_util::stream::iter([Ok(tar)]).boxed());
    let question = Question { tar: Some(tar), ..question("putArchive", json!([id, path]).to_string()) };
    self.calls.ask(question, at_most(ARCHIVE_TIMEOUT)).await.map(drop)
  }

  async fn get_archive(&self, id: &str, path: &str, max_bytes: u64) -> Result<Bytes> {
    let question = question("getArchive", json!([id, path, max_bytes]).to_string());
    let answer = self.calls.ask(question, at_most(ARCHIVE_TIMEOUT)).await?;
    self.parts("getArchive", answer).map(|(_, tar, _)| tar)
  }

  async fn exec(&self, id: &str, options: Value, limit: Duration, cancel: &Cancel) -> Result<ExecAnswer> {
    let stream = self.execs.fetch_add(1, Ordering::Relaxed);
    let question = Question { stream, ..question("exec", json!([id, options]).to_string()) };
    let asked = self.calls.ask(question, at_most(limit));
    tokio::pin!(asked);
    let answer = tokio::select! {
      biased;
      () = cancel.cancelled() => {
        self.calls.tell(Question { stream, ..question_of_abort() });
        // The command is to be killed by whoever started it; where that takes too long, others do it.
        return match timeout(OWN_EXEC_ABORT_TIMEOUT, asked).await {
          Ok(Ok(_)) | Err(_) => Err(cancelled("The sandbox command")),
          Ok(Err(error)) => Err(error),
        };
      }
      answer = &mut asked => answer,
    };
    if answer.is_err() {
      // It may have taken too long, and go on.
      self.calls.tell(Question { stream, ..question_of_abort() });
    }
    let (facts, stdout, stderr) = self.parts("exec", answer?)?;
    Ok(ExecAnswer { facts, stdout, stderr })
  }
}

const fn question_of_abort() -> Question {
  question("abort", String::new())
}
