//! What one connection has moved, and when it has had enough: bytes, idle time and lifetime.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::ledger::Ledger;
use super::quotas::Quotas;
use super::refusal::{Quota, Refusal};
use super::tls::HelloFault;

/// Why an allowed connection ends before client and server end it.
#[derive(Debug)]
pub(super) enum Cut {
  /// A quota, or a body or reply that is not passed on.
  Refused(Refusal),
  /// The first bytes of a tunnel.
  Hello(HelloFault),
  /// The client or the server broke off.
  Broken,
}

impl From<io::Error> for Cut {
  fn from(_: io::Error) -> Self {
    Self::Broken
  }
}

impl Cut {
  /// The reason, for an event.
  pub(super) fn reason(&self) -> String {
    match self {
      Self::Refused(refusal) => refusal.reason(),
      Self::Hello(fault) => format!("The connection was closed: {}.", fault.text()),
      Self::Broken => "The client or the server broke off.".to_owned(),
    }
  }
}

/// A direction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
  /// From the container.
  Up,
  /// To the container.
  Down,
}

/// The counters of one connection.
pub(super) struct Gauge<'a> {
  quotas: &'a Quotas,
  ledger: &'a Ledger,
  accepted: Instant,
  /// Microseconds after `accepted` at which the last byte moved.
  moved: AtomicU64,
  up: AtomicU64,
  down: AtomicU64,
}

impl<'a> Gauge<'a> {
  /// A gauge for a connection that begins to move bytes now.
  pub(super) fn new(quotas: &'a Quotas, ledger: &'a Ledger, accepted: Instant) -> Self {
    let zero = || AtomicU64::new(0);
    let gauge = Self { quotas, ledger, accepted, moved: zero(), up: zero(), down: zero() };
    gauge.touch();
    gauge
  }

  /// Bytes that went up and down.
  pub(super) fn moved(&self) -> (u64, u64) {
    (self.up.load(Ordering::Relaxed), self.down.load(Ordering::Relaxed))
  }

  /// Says that bytes were read.
  pub(super) fn touch(&self) {
    let micros = u64::try_from(self.accepted.elapsed().as_micros()).unwrap_or(u64::MAX);
    self.moved.store(micros, Ordering::Relaxed);
  }

  /// Writes what the quotas allow of `bytes` and counts it; an error if that was not all.
  pub(super) async fn send<W>(&self, to: &mut W, bytes: &[u8], way: Way) -> Result<(), Cut>
  where
    W: AsyncWrite + Unpin,
  {
    let (granted, refusal) = self.grant(bytes.len(), way);
    let mut rest = bytes.get(..granted).unwrap_or_default();
    while !rest.is_empty() {
      let written = to.write(rest).await?;
      if written == 0 {
        return Err(Cut::Broken);
      }
      self.touch();
      rest = rest.get(written..).unwrap_or_default();
    }
    to.flush().await?;
    refusal.map_or(Ok(()), |refusal| Err(Cut::Refused(refusal)))
  }

  /// Resolves once the connection was idle or open for too long.
  pub(super) async fn over(&self) -> Cut {
    let ends = self.accepted + self.quotas.tunnel_lifetime;
    loop {
      let moved = Duration::from_micros(self.moved.load(Ordering::Relaxed));
      let idle = self.accepted + moved + self.quotas.idle_timeout;
      let now = Instant::now();
      if now >= ends {
        return Cut::Refused(Refusal::Quota(Quota::Lifetime(self.quotas.tunnel_lifetime.as_millis())));
      }
      if now >= idle {
        return Cut::Refused(Refusal::Quota(Quota::Idle(self.quotas.idle_timeout.as_millis())));
      }
      sleep_until(idle.min(ends)).await;
    }
  }

  /// How many of so many bytes may go, and why not all.
  fn grant(&self, bytes: usize, way: Way) -> (usize, Option<Refusal>) {
    let (counter, max) = match way {
      Way::Up => (&self.up, self.quotas.max_bytes_up),
      Way::Down => (&self.down, self.quotas.max_bytes_down),
    };
    // Both directions of a connection run in one task, so nobody counts in between.
    let wanted = bytes as u64;
    let own = wanted.min(max.saturating_sub(counter.load(Ordering::Relaxed)));
    let granted = self.ledger.take_bytes(own, self.quotas);
    counter.fetch_add(granted, Ordering::Relaxed);
    let refusal = match way {
      _ if granted == wanted => None,
      _ if granted < own => Some(Refusal::Quota(Quota::RunBytes(self.quotas.max_network_bytes))),
      Way::Up => Some(Refusal::Quota(Quota::BytesUp(max))),
      Way::Down => Some(Refusal::Quota(Quota::BytesDown(max))),
    };
    (usize::try_from(granted).unwrap_or(bytes), refusal)
  }
}
