//! The proxy's decisions as events.

use crate::environment::event::{Events, Kind};
use crate::proxy::{ProxyEvent, ProxyEvents};

impl ProxyEvents for Events {
  fn record(&self, event: ProxyEvent) {
    match event {
      ProxyEvent::Allowed { run, host, port, rule } => {
        self.emit(Some(&run), || Kind::NetworkAllowed { host, port, rule });
      }
      ProxyEvent::Refused { run, host, port, status, reason } => {
        self.emit(Some(&run), || Kind::NetworkRefused { host, port, status, reason });
      }
      ProxyEvent::Closed { run, host, port, rule, bytes_up, bytes_down, reason } => {
        self.emit(Some(&run), || Kind::NetworkClosed { host, port, rule, bytes_up, bytes_down, reason });
      }
    }
  }
}
