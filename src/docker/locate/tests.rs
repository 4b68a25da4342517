use std::fs;
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;
use crate::error::ErrorCode;

fn around(variables: &[(&str, &str)]) -> Surroundings {
  Surroundings(variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn text(path: &Path) -> &str {
  path.to_str().unwrap()
}

/// A home with Docker's own files: the current context, and contexts with their addresses.
fn home(current: Option<&str>, contexts: &[(&str, &str)]) -> TempDir {
  let home = TempDir::new().unwrap();
  let docker = home.path().join(".docker");
  fs::create_dir_all(&docker).unwrap();
  if let Some(current) = current {
    fs::write(docker.join("config.json"), format!(r#"{{"auths":{{}},"currentContext":"{current}"}}"#))
      .unwrap();
  }
  for (name, host) in contexts {
    let folder = docker.join("contexts/meta").join(hex::encode(Sha256::digest(name.as_bytes())));
    fs::create_dir_all(&folder).unwrap();
    let meta = format!(
      r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}","SkipTLSVerify":false}}}}}}"#
    );
    fs::write(folder.join("meta.json"), meta).unwrap();
  }
  home
}

async fn refused(surroundings: &Surroundings) -> (ErrorCode, String) {
  let error = find(surroundings).await.unwrap_err();
  (error.code(), error.message().to_owned())
}

#[tokio::test]
async fn an_address_is_a_unix_socket_or_refused_with_what_to_do() {
  for (address, path) in [
    ("unix:///p", "/p"),
    ("unix://p", "p"),
    ("/p", "/p"),
    ("unix:///with a space/d.sock", "/with a space/d.sock"),
  ] {
    assert_eq!(find(&around(&[("DOCKER_HOST", address)])).await.unwrap(), Path::new(path), "{address}");
  }
  for (address, code, words) in [
    ("tcp://10.0.0.1:2376", ErrorCode::Unsupported, "over TCP"),
    ("https://10.0.0.1:2376", ErrorCode::Unsupported, "over TCP"),
    ("ssh://me@host", ErrorCode::Unsupported, "ssh -nNT -L"),
    ("npipe:////./pipe/docker_engine", ErrorCode::Unsupported, "only unix sockets"),
    ("fd://", ErrorCode::Unsupported, "only unix sockets"),
    ("unix://", ErrorCode::ConfigInvalid, "DOCKER_HOST was \"unix://\""),
    ("docker.sock", ErrorCode::ConfigInvalid, "may be unix://"),
    ("gopher://x", ErrorCode::ConfigInvalid, "may be unix://"),
  ] {
    let (found, message) = refused(&around(&[("DOCKER_HOST", address)])).await;
    assert_eq!(found, code, "{address}");
    assert!(message.contains(words), "{message}");
  }
}

#[tokio::test]
async fn docker_host_comes_before_the_context_and_the_context_before_the_usual_places() {
  let home = home(Some("remote"), &[("remote", "unix:///of/the/context"), ("other", "unix:///of/other")]);
  fs::create_dir_all(home.path().join(".docker/run")).unwrap();
  let _usual = UnixListener::bind(home.path().join(".docker/run/docker.sock")).unwrap();
  let (at_home, config) = (("HOME", text(home.path())), home.path().join(".docker"));
  let cases: [(&[(&str, &str)], &str); 5] = [
    (&[at_home], "/of/the/context"),
    (&[at_home, ("DOCKER_CONTEXT", "other")], "/of/other"),
    (&[at_home, ("DOCKER_HOST", "unix:///of/host"), ("DOCKER_CONTEXT", "other")], "/of/host"),
    // Empty is not set.
    (&[at_home, ("DOCKER_HOST", ""), ("DOCKER_CONTEXT", "")], "/of/the/context"),
    (&[("DOCKER_CONFIG", text(&config))], "/of/the/context"),
  ];
  for (variables, path) in cases {
    assert_eq!(find(&around(variables)).await.unwrap(), Path::new(path), "{variables:?}");
  }
}

#[tokio::test]
async fn a_context_that_cannot_be_used_is_an_error_and_nothing_else_is_taken() {
  let home = home(Some("gone"), &[("far", "ssh://me@host"), ("bare", "")]);
  fs::create_dir_all(home.path().join(".docker/run")).unwrap();
  let _usual = UnixListener::bind(home.path().join(".docker/run/docker.sock")).unwrap();
  let at_home = ("HOME", text(home.path()));
  let (code, message) = refused(&around(&[at_home])).await;
  assert_eq!(code, ErrorCode::DockerUnavailable);
  assert!(message.contains("context \"gone\" (of ") && message.contains("config.json"), "{message}");
  let (code, message) = refused(&around(&[at_home, ("DOCKER_CONTEXT", "far")])).await;
  assert_eq!(code, ErrorCode::Unsupported);
  assert!(message.contains("context \"far\" (of DOCKER_CONTEXT)"), "{message}");
  let (code, _) = refused(&around(&[at_home, ("DOCKER_CONTEXT", "bare")])).await;
  assert_eq!(code, ErrorCode::ConfigInvalid);
  fs::write(home.path().join(".docker/config.json"), "{").unwrap();
  let (code, message) = refused(&around(&[at_home])).await;
  assert_eq!(code, ErrorCode::ConfigInvalid);
  assert!(message.contains("config.json cannot be read"), "{message}");
}

#[tokio::test]
async fn the_first_usual_place_that_listens_is_taken() {
  let home = home(Some(NO_CONTEXT), &[]);
  let runtime = TempDir::new().unwrap();
  let surroundings = around(&[("HOME", text(home.path())), ("XDG_RUNTIME_DIR", text(runtime.path()))]);
  // The machine's own engine, where there is one, comes first.
  if listens(Path::new(DEFAULT_SOCKET)).await.is_ok() {
    assert_eq!(find(&surroundings).await.unwrap(), Path::new(DEFAULT_SOCKET));
    return;
  }
  // A plain file, a socket that nobody listens on and a link that leads nowhere are passed over.
  fs::write(runtime.path().join("docker.sock"), "").unwrap();
  for folder in ["run", "desktop"] {
    fs::create_dir_all(home.path().join(".docker").join(folder)).unwrap();
  }
  drop(UnixListener::bind(home.path().join(".docker/run/docker.sock")).unwrap());
  std::os::unix::fs::symlink("nowhere", home.path().join(".docker/desktop/docker.sock")).unwrap();
  let (code, message) = refused(&surroundings).await;
  assert_eq!(code, ErrorCode::DockerUnavailable);
  for (place, why) in [
    (DEFAULT_SOCKET.to_owned(), "does not exist"),
    (text(&runtime.path().join("docker.sock")).to_owned(), "nothing listens on it"),
    (text(&home.path().join(".docker/run/docker.sock")).to_owned(), "nothing listens on it"),
    (text(&home.path().join(".docker/desktop/docker.sock")).to_owned(), "does not exist"),
    ("/run/podman/podman.sock".to_owned(), "does not exist"),
  ] {
    assert!(message.contains(&format!("{place} ({why})")), "{place}: {message}");
  }
  fs::create_dir_all(home.path().join(".config/colima/default")).unwrap();
  let colima = home.path().join(".config/colima/default/docker.sock");
  let _listening = UnixListener::bind(&colima).unwrap();
  assert_eq!(find(&surroundings).await.unwrap(), colima);
}
