//! All that the double knows. Its operations are plain functions; whoever calls them holds the lock for that long.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::container::Container;
use super::image::{Image, normal};
use super::options::{Fault, MemoryOptions};
use crate::clock::since_1970;
use crate::docker::container::has_label;
use crate::docker::image::is_tag_of;
use crate::docker::model::{ContainerSpec, ListedContainer, ListedImage, Network};
use crate::error::{Error, Result, fail};

/// Networks that every engine has.
const BUILT_IN_NETWORKS: &[&str] = &["", "none", "default", "bridge", "host"];

/// Lower-case hexadecimal SHA-256.
pub fn digest(text: &str) -> String {
  hex::encode(Sha256::digest(text))
}

struct NamedNetwork {
  id: String,
  name: String,
}

/// The state of a double.
pub struct State {
  containers: Vec<Container>,
  images: Vec<Image>,
  networks: Vec<NamedNetwork>,
  made: u64,
  faults: Vec<Fault>,
  calls: BTreeMap<&'static str, u32>,
}

impl State {
  /// As the options say.
  pub fn new(options: MemoryOptions) -> Self {
    let images = options.images.iter().map(|reference| Image::of_registry(reference)).collect();
    Self {
      containers: Vec::new(),
      images,
      networks: Vec::new(),
      made: 0,
      faults: options.fail,
      calls: BTreeMap::new(),
    }
  }

  /// Counts a call and fails it where a fault says so.
  pub fn count(&mut self, method: &'static str) -> Result<()> {
    let calls = self.calls.entry(method).or_default();
    *calls = calls.saturating_add(1);
    match self.faults.iter().find(|fault| fault.method == method && fault.nth == *calls) {
      Some(fault) => Err(Error::from(fault)),
      None => Ok(()),
    }
  }

  /// The next id of a kind, the same in every double that did the same.
  fn next_id(&mut self, kind: &str) -> String {
    self.made += 1;
    digest(&format!("{kind} {}", self.made))
  }

  /// Makes a container and returns its id.
  pub fn create(&mut self, spec: &ContainerSpec) -> Result<String> {
    let image = self.images.iter().find(|image| image.is(&spec.image)).cloned().ok_or_else(|| {
      fail!(
        ImageMissing,
        "Image {} is not on the in-memory engine. Pull it, or pass one of its images: {}.",
        spec.image,
        self.images.iter().flat_map(|image| image.references.clone()).collect::<Vec<_>>().join(", ")
      )
    })?;
    if let Some(name) = &spec.name {
      self.check_name(name)?;
    }
    let id = self.next_id("container");
    let name = spec.name.clone().unwrap_or_else(|| format!("memory_{}", self.made));
    self.containers.push(Container::new(id.clone(), name, spec.clone(), &image, since_1970())?);
    Ok(id)
  }

  fn check_name(&self, name: &str) -> Result<()> {
    // The rule of the engine (moby, `daemon/names`).
    let valid = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '-');
    if name.len() < 2
      || !name.starts_with(|char: char| char.is_ascii_alphanumeric())
      || !name.chars().all(valid)
    {
      return Err(fail!(
        DockerApi,
        "Invalid container name {name:?}; it must match [a-zA-Z0-9][a-zA-Z0-9_.-]+."
      ));
    }
    match self.containers.iter().find(|container| container.name == name) {
      Some(holder) => Err(fail!(
        Conflict,
        "A container named {name} exists already: container {}. Remove or rename it.",
        holder.id
      )),
      None => Ok(()),
    }
  }

  fn is(container: &Container, asked: &str) -> bool {
    let asked_name = asked.strip_prefix('/').unwrap_or(asked);
    !asked.is_empty() && (container.id.starts_with(asked) || container.name == asked_name)
  }

  /// A container by id, its beginning, or name.
  pub fn container(&mut self, id: &str) -> Result<&mut Container> {
    self.containers.iter_mut().find(|container| Self::is(container, id)).ok_or_else(|| no_container(id))
  }

  /// One that runs, as commands and archives need it.
  pub fn running(&mut self, id: &str) -> Result<&mut Container> {
    let container = self.container(id)?;
    if container.is_running() {
      return Ok(container);
    }
    Err(fail!(
      DockerApi,
      "Container {id} is not running (its state is {}); start it first.",
      container.status()
    ))
  }

  /// Starts a container.
  pub fn start(&mut self, id: &str) -> Result<()> {
    let mode = self.container(id)?.spec.network_mode.clone();
    let known = BUILT_IN_NETWORKS.contains(&mode.as_str())
      || self.networks.iter().any(|network| network.name == mode || network.id == mode);
    if !known {
      return Err(fail!(NotFound, "Container {id} cannot start: its network {mode} was not found."));
    }
    self.container(id)?.start();
    Ok(())
  }

  /// Removes a container; commands that run in it end.
  pub fn remove(&mut self, id: &str) -> Result<()> {
    let at = self.containers.iter().position(|container| Self::is(container, id));
    let removed = at.map(|at| self.containers.remove(at)).ok_or_else(|| no_container(id))?;
    removed.ended.cancel();
    Ok(())
  }

  /// Containers with a label, the newest first.
  pub fn list(&self, label: &str) -> Vec<ListedContainer> {
    self
      .containers
      .iter()
      .rev()
      .map(Container::listed)
      .filter(|listed| has_label(&listed.labels, label))
      .collect()
  }

  /// Makes an image of a container.
  pub fn commit(
    &mut self,
    id: &str,
    reference: &str,
    labels: Option<&BTreeMap<String, String>>,
  ) -> Result<String> {
    let (root, mut config) = self.container(id)?.image();
    config.labels.get_or_insert_default().extend(labels.cloned().unwrap_or_default());
    let reference = normal(reference);
    let id = format!("sha256:{}", self.next_id("image"));
    for image in &mut self.images {
      image.references.retain(|taken| *taken != reference);
    }
    self.images.push(Image { id: id.clone(), references: vec![reference], config, root });
    Ok(id)
  }

  /// An image by name or id.
  pub fn image(&self, asked: &str) -> Result<&Image> {
    self.images.iter().find(|image| image.is(asked)).ok_or_else(|| no_image(asked))
  }

  /// Adds the image of a reference, unless it is there.
  pub fn pull(&mut self, reference: &str) {
    if self.image(reference).is_err() {
      self.images.push(Image::of_registry(reference));
    }
  }

  /// Images with a tag in this repository.
  pub fn list_images(&self, repository: &str) -> Vec<ListedImage> {
    let is_of = |image: &&Image| image.references.iter().any(|name| is_tag_of(name, repository));
    let listed = |image: &Image| ListedImage {
      id: image.id.clone(),
      repo_tags: image.references.clone(),
      labels: image.config.labels.clone().unwrap_or_default(),
      created: 0,
    };
    self.images.iter().filter(is_of).map(listed).collect()
  }

  /// Removes an image with all its names.
  pub fn remove_image(&mut self, asked: &str) -> Result<()> {
    let at = self.images.iter().position(|image| image.is(asked)).ok_or_else(|| no_image(asked))?;
    self.images.remove(at);
    Ok(())
  }

  /// Makes a network. Its gateway is the loopback address: what listens there for a container can be reached.
  pub fn create_network(&mut self, name: &str) -> Result<Network> {
    if self.networks.iter().any(|network| network.name == name) || BUILT_IN_NETWORKS.contains(&name) {
      return Err(fail!(Conflict, "A network named {name} exists already; remove it or take another name."));
    }
    let id = self.next_id("network");
    self.networks.push(NamedNetwork { id: id.clone(), name: name.to_owned() });
    Ok(Network { id, gateway: Some("127.0.0.1".to_owned()), subnet: None })
  }

  /// Removes a network that no running container is on.
  pub fn remove_network(&mut self, asked: &str) -> Result<()> {
    let at = self.networks.iter().position(|network| network.id == asked || network.name == asked);
    let found = at.and_then(|at| self.networks.get(at));
    let found =
      found.ok_or_else(|| fail!(NotFound, "Network {asked} was not found on the in-memory engine."))?;
    let on = |container: &&Container| {
      let mode = &container.spec.network_mode;
      container.is_running() && (*mode == found.id || *mode == found.name)
    };
    if let Some(container) = self.containers.iter().find(on) {
      return Err(fail!(
        DockerApi,
        "Network {asked} is still used by container {}; remove that first.",
        container.id
      ));
    }
    self.networks.retain(|network| network.id != asked && network.name != asked);
    Ok(())
  }
}

fn no_container(id: &str) -> Error {
  fail!(NotFound, "Container {id:?} was not found on the in-memory engine.")
}

fn no_image(asked: &str) -> Error {
  fail!(NotFound, "Image {asked:?} was not found on the in-memory engine; pull it first.")
}
