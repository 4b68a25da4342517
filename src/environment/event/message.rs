//! An event in a sentence, made of its fields.

use super::{How, Kind, Operation, Resource, Undone};
use crate::error::shown;

/// What a log shows.
pub fn sentence(kind: &Kind, run: Option<&str>) -> String {
  // A container that is swept may be of no run that is on record.
  let run = run.map_or_else(|| "no run".to_owned(), |run| format!("run {}", shown(run)));
  match kind {
    Kind::ImagePulled { image, bytes, duration_ms } => {
      let bytes = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
      format!("Image {image} was pulled in {duration_ms} ms{bytes}.")
    }
    Kind::ImageProgress { image, bytes, total_bytes } => {
      format!("Image {image} is being pulled: {bytes} of {total_bytes} bytes that are known of by now.")
    }
    Kind::TransportFallback { reason } => {
      format!("The resident transport failed for {run}, docker exec takes its place: {reason}")
    }
    Kind::Pooled { duration_ms } => format!("A container for the pool was started in {duration_ms} ms."),
    Kind::PoolFailed { code, reason } => {
      format!("A container for the pool could not be started ({code}): {reason}")
    }
    Kind::Acquired { how, transport, duration_ms, .. } => {
      format!("Acquired {run} in {duration_ms} ms: {}, transport {transport}.", origin(*how))
    }
    Kind::Operation { operation, outcome, code, duration_ms, .. } => {
      let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
      format!("{} in {run} ended after {duration_ms} ms: {outcome}{code}.", act(*operation))
    }
    Kind::NetworkAllowed { host, port, rule } => {
      format!("The proxy let {run} connect to {host}:{port}, by the rule {rule}.")
    }
    Kind::NetworkRefused { host, port, status, reason } => {
      format!("The proxy refused a request of {run}{} ({status}): {reason}", target(host.as_deref(), *port))
    }
    Kind::NetworkClosed { host, port, bytes_up, bytes_down, reason, .. } => {
      let reason = reason.as_ref().map(|reason| format!(" Cut: {reason}")).unwrap_or_default();
      format!(
        "A connection of {run} to {host}:{port} ended: {bytes_up} bytes there, {bytes_down} bytes back.{reason}"
      )
    }
    Kind::HeartbeatFailed { code } => {
      format!(
        "The lease of {run} could not be renewed ({code}). If that lasts, others may take the run over."
      )
    }
    Kind::LeaseLost => format!("The lease of {run} is lost: another holder has it, or its record is gone."),
    Kind::ContainerLost { code, reason } => format!("The container of {run} is lost ({code}): {reason}"),
    Kind::SnapshotSaved { bytes, duration_ms } => {
      format!("The workspace of {run} was saved in {duration_ms} ms: {bytes} bytes.")
    }
    Kind::SnapshotFailed { code, .. } => {
      format!("The workspace of {run} could not be saved ({code}). If its container is lost, so is its work.")
    }
    Kind::Released { status, kept, duration_ms, .. } => {
      let what = if *kept { "it is kept for later" } else { "all that it had is removed" };
      format!("Released {run} as {status} in {duration_ms} ms: {what}.")
    }
    Kind::ReleaseFailed { status, undone, code, .. } => {
      format!("Releasing {run} as {status} failed ({code}): {}.", left_undone(*undone))
    }
    Kind::CleanupFailed { resource, id, code, reason } => {
      let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
      format!("{} {id} of {run} {} ({code}){reason}", noun(*resource), failing(*resource))
    }
    Kind::Swept { expired_runs, removed_containers, removed_networks, failures, duration_ms } => {
      let networks = match removed_networks {
        0 => String::new(),
        count => format!(" and {count} networks"),
      };
      format!(
        "Swept in {duration_ms} ms: ended {expired_runs} expired runs, removed {removed_containers} containers{networks} without a lease, {failures} failures."
      )
    }
    Kind::Closed { duration_ms } => format!("The environment was closed in {duration_ms} ms."),
  }
}

fn target(host: Option<&str>, port: Option<u16>) -> String {
  match (host, port) {
    (Some(host), Some(port)) => format!(" to {host}:{port}"),
    _ => String::new(),
  }
}

const fn origin(how: How) -> &'static str {
  match how {
    How::Started => "a new container",
    How::Pooled => "a container of the pool",
    How::Resumed => "the container that waited for it",
    How::TakenOver => "the container of a holder that died or fell silent",
    How::Restored => "a new container with the workspace of its snapshot",
  }
}

const fn act(operation: Operation) -> &'static str {
  match operation {
    Operation::Exec => "A command",
    Operation::ReadFile => "Reading a file",
    Operation::WriteFile => "Writing a file",
    Operation::List => "Listing a directory",
  }
}

const fn left_undone(undone: Undone) -> &'static str {
  match undone {
    Undone::Lease => "its lease could not be read or written",
    Undone::Snapshot => "its workspace could not be saved",
    Undone::Removal => "not all that it had could be removed; sweep() tries again",
  }
}

const fn noun(resource: Resource) -> &'static str {
  match resource {
    Resource::Volume => "Volume",
    Resource::Container => "Container",
    Resource::Network => "Network",
    Resource::Image => "Image",
    Resource::Snapshot => "Snapshot",
    Resource::Lease => "Lease",
  }
}

const fn failing(resource: Resource) -> &'static str {
  match resource {
    Resource::Lease => "could not be removed or brought up to date",
    _ => "could not be removed",
  }
}
