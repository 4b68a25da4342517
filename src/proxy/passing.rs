//! The two events of an allowed connection.

use std::sync::Arc;

use super::gauge::Gauge;
use super::session::Inner;
use super::{Authority, ProxyEvent};

/// An allowed connection under way. Its end is told however it comes about, also when the session is closed or the
/// carrier drops the connection.
pub(super) struct Passing<'a> {
  session: &'a Inner,
  authority: &'a Authority,
  rule: String,
  gauge: &'a Gauge<'a>,
  reason: Option<String>,
}

impl<'a> Passing<'a> {
  /// Tells that the connection is allowed and stands.
  pub(super) fn begin(
    session: &'a Inner,
    authority: &'a Authority,
    rule: String,
    gauge: &'a Gauge<'a>,
  ) -> Self {
    session.shared.events.record(ProxyEvent::Allowed {
      run: Arc::clone(&session.run),
      host: authority.host.to_string(),
      port: authority.port,
      rule: rule.clone(),
    });
    let reason = Some("The session was closed, or its carrier dropped the connection.".to_owned());
    Self { session, authority, rule, gauge, reason }
  }

  /// Tells that it ended, and why if before its time.
  pub(super) fn end(mut self, reason: Option<String>) {
    self.reason = reason;
  }
}

impl Drop for Passing<'_> {
  fn drop(&mut self) {
    // A sink that panicked would panic again, and a second panic ends the process.
    if std::thread::panicking() {
      return;
    }
    let (bytes_up, bytes_down) = self.gauge.moved();
    self.session.shared.events.record(ProxyEvent::Closed {
      run: Arc::clone(&self.session.run),
      host: self.authority.host.to_string(),
      port: self.authority.port,
      rule: std::mem::take(&mut self.rule),
      bytes_up,
      bytes_down,
      reason: self.reason.take(),
    });
  }
}
