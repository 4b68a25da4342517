//! One container of the double. Its process 1 runs until it is killed, whatever the command is.

use std::collections::BTreeMap;
use std::time::Duration;

use super::image::Image;
use super::mount::Mount;
use super::tree::{Name, Node, Tree};
use crate::cancel::Cancel;
use crate::docker::model::{
  ContainerConfig, ContainerSpec, ContainerState, HostConfig, Inspection, ListedContainer,
};
use crate::error::{Result, fail};

/// Exit code of what SIGKILL ended.
pub const KILLED: i64 = 137;

/// Signals that end a process 1 which handles none of them, by name and number. The kernel spares a process 1 from all
/// but SIGKILL; under `docker-init` the command is no process 1.
const SIGNALS: &[(&str, i64)] =
  &[("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("USR1", 10), ("USR2", 12), ("TERM", 15)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
  Created,
  Running,
  Exited(i64),
}

/// A container.
pub struct Container {
  /// Full id.
  pub id: String,
  /// Name without slash.
  pub name: String,
  /// What it was created from.
  pub spec: ContainerSpec,
  /// Its files.
  pub tree: Tree,
  /// Cancelled once its process 1 ended; a new one for each start.
  pub ended: Cancel,
  image_id: String,
  config: ContainerConfig,
  created: Duration,
  phase: Phase,
}

impl Container {
  /// A container that has not started. `created` is the time since 1970.
  pub fn new(
    id: String,
    name: String,
    spec: ContainerSpec,
    image: &Image,
    created: Duration,
  ) -> Result<Self> {
    let mut tree = Tree::new(image.root.clone(), spec.readonly_rootfs);
    let refused = |what: &str, why| fail!(DockerApi, "Container {name} cannot have {what}: {why}.");
    for (path, options) in &spec.tmpfs {
      tree.mount(Mount::parse(path, options)?).map_err(|why| refused(path, why))?;
    }
    let directory: Vec<Name> = components(&spec.working_dir);
    tree.force_directory(&directory).map_err(|why| refused(&spec.working_dir, why))?;
    let config = ContainerConfig {
      labels: Some(image.config.labels.iter().chain([&spec.labels]).flatten().map(owned).collect()),
      env: Some(merge_env(image.config.env.as_deref().unwrap_or_default(), &spec.env)),
      volumes: image.config.volumes.clone(),
      user: spec.user.clone(),
    };
    let image_id = image.id.clone();
    Ok(Self { id, name, spec, tree, ended: Cancel::new(), image_id, config, created, phase: Phase::Created })
  }

  /// True between start and end.
  pub fn is_running(&self) -> bool {
    self.phase == Phase::Running
  }

  /// `created`, `running` or `exited`.
  pub const fn status(&self) -> &'static str {
    match self.phase {
      Phase::Created => "created",
      Phase::Running => "running",
      Phase::Exited(_) => "exited",
    }
  }

  /// Starts it, again where it has ended; what was on a tmpfs is gone then.
  pub fn start(&mut self) {
    if !self.is_running() {
      self.phase = Phase::Running;
      self.ended = Cancel::new();
    }
  }

  /// Sends a signal: `KILL`, `SIGKILL`, `9` or the like; empty is `KILL`.
  pub fn kill(&mut self, signal: &str) -> Result<()> {
    let bare = signal.strip_prefix("SIG").unwrap_or(signal);
    let wanted = if bare.is_empty() { "KILL" } else { bare };
    let found = SIGNALS.iter().find(|(name, number)| *name == wanted || number.to_string() == wanted);
    let Some((_, number)) = found else {
      return Err(fail!(
        DockerApi,
        "Invalid signal {signal:?} for container {}; use one such as KILL.",
        self.id
      ));
    };
    if self.is_running() && (*number == 9 || self.spec.init) {
      self.phase = Phase::Exited(128 + number);
      self.tree.lose_mounts();
      self.ended.cancel();
    }
    Ok(())
  }

  /// As the engine describes it.
  pub fn inspection(&self) -> Inspection {
    let spec = &self.spec;
    Inspection {
      id: self.id.clone(),
      name: format!("/{}", self.name),
      created: rfc3339(self.created),
      image: self.image_id.clone(),
      state: ContainerState {
        running: self.is_running(),
        status: self.status().to_owned(),
        exit_code: if let Phase::Exited(code) = self.phase { code } else { 0 },
        ..ContainerState::default()
      },
      host_config: HostConfig {
        nano_cpus: spec.nano_cpus,
        pids_limit: Some(spec.pids_limit),
        memory: i64::try_from(spec.memory_bytes).unwrap_or(i64::MAX),
        memory_swap: i64::try_from(spec.memory_bytes).unwrap_or(i64::MAX),
        network_mode: spec.network_mode.clone(),
        readonly_rootfs: spec.readonly_rootfs,
        tmpfs: Some(spec.tmpfs.clone()),
        ..HostConfig::default()
      },
      config: self.config.clone(),
    }
  }

  /// As a list shows it.
  pub fn listed(&self) -> ListedContainer {
    ListedContainer {
      id: self.id.clone(),
      names: vec![format!("/{}", self.name)],
      labels: self.config.labels.clone().unwrap_or_default(),
      created: i64::try_from(self.created.as_secs()).unwrap_or(i64::MAX),
      state: self.status().to_owned(),
    }
  }

  /// Files and configuration of the image that a commit makes.
  pub fn image(&self) -> (Node, ContainerConfig) {
    (self.tree.image(), self.config.clone())
  }

  /// The variables of a command.
  pub fn env(&self, more: &[String]) -> Vec<String> {
    merge_env(self.config.env.as_deref().unwrap_or_default(), more)
  }

  /// `uid` and `gid` of its user, for archives; 0 for a user by name.
  pub fn owner(&self) -> (u64, u64) {
    let (uid, gid) = self.spec.user.split_once(':').unwrap_or((&self.spec.user, "0"));
    (uid.parse().unwrap_or(0), gid.parse().unwrap_or(0))
  }
}

/// The components of an absolute path.
pub fn components(path: &str) -> Vec<Name> {
  path.split('/').filter(|part| !part.is_empty()).map(|part| part.as_bytes().to_vec()).collect()
}

fn owned((name, value): (&String, &String)) -> (String, String) {
  (name.clone(), value.clone())
}

/// Later variables replace earlier ones of the same name; a bare name removes it.
fn merge_env(base: &[String], more: &[String]) -> Vec<String> {
  let mut merged: BTreeMap<&str, &str> = BTreeMap::new();
  for line in base.iter().chain(more) {
    match line.split_once('=') {
      Some((name, _)) => drop(merged.insert(name, line)),
      None => drop(merged.remove(line.as_str())),
    }
  }
  merged.into_values().map(str::to_owned).collect()
}

/// A time since 1970 as `2026-11-29T14:07:44Z`. The date is counted as in Howard Hinnant's "chrono-compatible low-level
/// date algorithms" (`civil_from_days`).
fn rfc3339(since: Duration) -> String {
  let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
  let shifted = days + 719_468;
  let (era, of_era) = (shifted / 146_097, shifted % 146_097);
  let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
  let of_year = of_era - (365 * year + year / 4 - year / 100);
  let month_from_march = (5 * of_year + 2) / 153;
  let day = of_year - (153 * month_from_march + 2) / 5 + 1;
  let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
  let year = year + era * 400 + u64::from(month <= 2);
  let (hour, minute) = (second / 3_600, second / 60 % 60);
  format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn times_are_dates() {
    for (seconds, text) in [
      (0, "1970-01-01T00:00:00Z"),
      (951_782_399, "2000-02-28T23:59:59Z"),
      (951_782_400, "2000-02-29T00:00:00Z"),
      (1_709_251_200, "2024-03-01T00:00:00Z"),
      (4_107_542_399, "2100-02-28T23:59:59Z"),
    ] {
      assert_eq!(rfc3339(Duration::from_secs(seconds)), text);
    }
  }
}
