//! Names of images (the grammar of github.com/distribution/reference, as far as it matters here).

/// What Docker Hub is called where credentials are kept, the usual one first.
const HUB: [&str; 4] =
  ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"];

/// An image's name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
  /// Without tag and digest.
  pub name: &'a str,
  /// Which of that name: what a registry calls it today.
  pub tag: Option<&'a str>,
  /// Which of that name: what it is (`sha256:…`).
  pub digest: Option<&'a str>,
}

impl<'a> Reference<'a> {
  /// Takes a name apart. Whether it is one is for the engine to say.
  pub fn read(image: &'a str) -> Self {
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    match rest.rsplit_once(':') {
      // A colon before a slash parts host and port.
      Some((name, tag)) if !tag.contains('/') => Self { name, tag: Some(tag), digest },
      _ => Self { name: rest, tag: None, digest },
    }
  }

  /// What an engine wants to have as the tag of a pull: a digest takes its place (Engine API, `POST /images/create`).
  pub fn wanted(&self) -> &'a str {
    self.digest.or(self.tag).unwrap_or("latest")
  }

  /// The registry that it comes from.
  pub fn registry(&self) -> Registry<'a> {
    match self.name.split_once('/') {
      Some((host, _)) if !HUB.contains(&host) && (host.contains(['.', ':']) || host == "localhost") => {
        Registry::Host(host)
      }
      _ => Registry::Hub,
    }
  }
}

/// Where images come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry<'a> {
  /// Docker Hub: the one without a name.
  Hub,
  /// A host, perhaps with a port.
  Host(&'a str),
}

impl<'a> Registry<'a> {
  /// What credentials for it are kept under, the usual name first.
  pub fn keys(&self) -> Vec<&'a str> {
    match self {
      Self::Hub => HUB.to_vec(),
      Self::Host(host) => vec![host],
    }
  }

  /// What a credential helper is asked for, and the engine told.
  pub const fn address(&self) -> &'a str {
    match self {
      Self::Hub => HUB[0],
      Self::Host(host) => host,
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn references_come_apart() {
    for (image, name, wanted) in [
      ("alpine", "alpine", "latest"),
      ("alpine:3.21", "alpine", "3.21"),
      ("localhost:5000/a/b", "localhost:5000/a/b", "latest"),
      ("localhost:5000/a/b:t", "localhost:5000/a/b", "t"),
      ("a@sha256:00", "a", "sha256:00"),
      ("h:1/a:t@sha256:00", "h:1/a", "sha256:00"),
    ] {
      let found = Reference::read(image);
      assert_eq!((found.name, found.wanted()), (name, wanted), "{image}");
    }
  }

  #[test]
  fn the_registry_is_the_host_in_front() {
    for (image, registry) in [
      ("alpine", Registry::Hub),
      ("library/alpine:3", Registry::Hub),
      ("docker.io/library/alpine", Registry::Hub),
      ("ghcr.io/a/b", Registry::Host("ghcr.io")),
      ("localhost/a", Registry::Host("localhost")),
      ("localhost:5000/a", Registry::Host("localhost:5000")),
    ] {
      assert_eq!(Reference::read(image).registry(), registry, "{image}");
    }
    assert_eq!(Registry::Hub.address(), "https://index.docker.io/v1/");
  }
}
