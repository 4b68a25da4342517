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

/// A unix socket's path, or a TCP address with what is spoken there.
async fn found(surroundings: &Surroundings) -> String {
  match find(surroundings).await.unwrap() {
    Endpoint::Unix(path) => text(&path).to_owned(),
    Endpoint::Tcp(address, None) => format!("{address} plain"),
    Endpoint::Tcp(address, Some(_)) => format!("{address} TLS"),
  }
}

async fn refused(surroundings: &Surroundings) -> (ErrorCode, String) {
  let error = find(surroundings).await.unwrap_err();
  (error.code(), error.message().to_owned())
}

#[tokio::test]
async fn an_address_is_an_engines_or_refused_with_what_to_do() {
  for (address, path) in [
    ("unix:///p", "/p"),
    ("unix://p", "p"),
    ("/p", "/p"),
    ("unix:///with a space/d.sock", "/with a space/d.sock"),
    // Named like this, it is without TLS.
    ("tcp://10.0.0.1:2375", "tcp://10.0.0.1:2375 plain"),
  ] {
    assert_eq!(found(&around(&[("DOCKER_HOST", address)])).await, path, "{address}");
  }
  for (address, code, words) in [
    ("https://10.0.0.1:2376", ErrorCode::Unsupported, "Use that, and DOCKER_TLS_VERIFY=1"),
    ("tcp://10.0.0.1:2376/path", ErrorCode::ConfigInvalid, "nothing behind it"),
    ("ssh://me@host", ErrorCode::Unsupported, "ssh -nNT -L"),
    ("npipe:////./pipe/docker_engine", ErrorCode::Unsupported, "only unix sockets and TCP ports"),
    ("fd://", ErrorCode::Unsupported, "only unix sockets and TCP ports"),
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
    assert_eq!(found(&around(variables)).await, path, "{variables:?}");
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

/// A folder with one certificate that is nobody's (made by `openssl req -x509 -newkey ed25519 -days 36500`).
fn certificates(at: &Path) {
  fs::create_dir_all(at).unwrap();
  fs::write(at.join("ca.pem"), CA).unwrap();
}

const CA: &str = include_str!("ca.pem");

#[tokio::test]
async fn tls_is_asked_for_as_dockers_command_line_has_it() {
  let home = home(None, &[]);
  let folder = home.path().join("certificates");
  let (host, verify) = (("DOCKER_HOST", "tcp://h:1"), ("DOCKER_TLS_VERIFY", "1"));
  let path = ("DOCKER_CERT_PATH", text(&folder));
  let (code, message) = refused(&around(&[host, verify, path])).await;
  assert_eq!(code, ErrorCode::ConfigInvalid);
  assert!(message.contains("certificates/ca.pem") && message.contains("DOCKER_CERT_PATH"), "{message}");
  certificates(&folder);
  assert_eq!(found(&around(&[host, verify, path])).await, "tcp://h:1 TLS");
  // Docker's own folder where none is named.
  let at_home = ("HOME", text(home.path()));
  assert!(refused(&around(&[host, verify, at_home])).await.1.contains(".docker/ca.pem"));
  certificates(&home.path().join(".docker"));
  assert_eq!(found(&around(&[host, verify, at_home])).await, "tcp://h:1 TLS");
  // Of a socket nothing is asked.
  assert_eq!(found(&around(&[("DOCKER_HOST", "unix:///p"), verify])).await, "/p");
  // What is between with and without.
  let (code, message) = refused(&around(&[host, ("DOCKER_TLS", "1"), path])).await;
  assert_eq!(
    (code, message.contains("Set DOCKER_TLS_VERIFY=1")),
    (ErrorCode::Unsupported, true),
    "{message}"
  );
  let (code, message) = refused(&around(&[host, path])).await;
  assert_eq!(
    (code, message.contains("or unset DOCKER_CERT_PATH")),
    (ErrorCode::ConfigInvalid, true),
    "{message}"
  );
}

#[tokio::test]
async fn a_file_of_tls_that_cannot_be_used_is_named() {
  let folder = TempDir::new().unwrap();
  certificates(folder.path());
  let variables =
    [("DOCKER_HOST", "tcp://h:1"), ("DOCKER_TLS_VERIFY", "1"), ("DOCKER_CERT_PATH", text(folder.path()))];
  let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
  let cases: [(&[(&str, &str)], &str); 6] = [
    (&[("cert.pem", CA)], "There is no"),
    (&[("key.pem", key)], "There is no"),
    (&[("cert.pem", CA), ("key.pem", "")], "key.pem cannot be used"),
    (&[("cert.pem", CA), ("key.pem", key)], "key.pem cannot be used"),
    (&[("cert.pem", "nothing"), ("key.pem", key)], "cert.pem cannot be used"),
    (&[("ca.pem", "nothing")], "ca.pem cannot be used"),
  ];
  for (files, words) in cases {
    for name in ["cert.pem", "key.pem"] {
      fs::remove_file(folder.path().join(name)).ok();
    }
    for (name, contents) in files {
      fs::write(folder.path().join(name), contents).unwrap();
    }
    let (code, message) = refused(&around(&variables)).await;
    assert_eq!(code, ErrorCode::ConfigInvalid, "{message}");
    assert!(message.contains(words) && message.contains("DOCKER_CERT_PATH"), "{message}");
  }
}

#[tokio::test]
async fn a_context_at_a_tcp_port_needs_its_certificates() {
  let home = home(Some("far"), &[("far", "tcp://h:2376")]);
  let at_home = around(&[("HOME", text(home.path()))]);
  let (code, message) = refused(&at_home).await;
  assert_eq!(code, ErrorCode::Unsupported);
  assert!(message.contains("set DOCKER_HOST=tcp://h:2376 if you mean it"), "{message}");
  let contexts = home.path().join(".docker/contexts");
  let hash = hex::encode(Sha256::digest(b"far"));
  certificates(&contexts.join("tls").join(&hash).join("docker"));
  assert_eq!(found(&at_home).await, "tcp://h:2376 TLS");
  let meta = contexts.join("meta").join(&hash).join("meta.json");
  let skipping = fs::read_to_string(&meta).unwrap().replace("false", "true");
  fs::write(&meta, skipping).unwrap();
  let (code, message) = refused(&at_home).await;
  assert_eq!(code, ErrorCode::Unsupported);
  assert!(message.contains("docker context update far --docker"), "{message}");
}

/// The usual places of a machine whose folders are all in one.
fn roots_in(machine: &Path) -> [PathBuf; 5] {
  ["docker.sock", "podman.sock", "runtime", "home", "temporary"].map(|name| machine.join(name))
}

fn roots([docker, podman, runtime, home, temporary]: &[PathBuf; 5]) -> Roots<'_> {
  Roots { docker, podman, runtime: Some(runtime), home: Some(home), temporary: Some(temporary) }
}

#[test]
fn the_usual_places_are_these_in_this_order() {
  let machine = Path::new("/m");
  let all = usual_places(&roots(&roots_in(machine)));
  let places: Vec<&str> = all.iter().map(|place| text(place.strip_prefix(machine).unwrap())).collect();
  assert_eq!(
    places,
    [
      "docker.sock",
      "runtime/docker.sock",
      "home/.docker/run/docker.sock",
      "home/.docker/desktop/docker.sock",
      "home/.colima/default/docker.sock",
      "home/.config/colima/default/docker.sock",
      "home/.orbstack/run/docker.sock",
      "runtime/podman/podman.sock",
      "podman.sock",
      "home/.local/share/containers/podman/machine/podman.sock",
      "temporary/podman/podman-machine-default-api.sock",
    ]
  );
}

#[test]
fn the_folders_are_those_of_the_variables_where_they_are_set() {
  let own = |place: &str| place.starts_with("/r/") || place.starts_with("/h/") || place.starts_with("/t/");
  let places = |variables: &[(&str, &str)]| -> Vec<String> {
    usual_places(&Roots::of(&around(variables))).iter().map(|place| text(place).to_owned()).collect()
  };
  assert_eq!(places(&[("HOME", ""), ("TMPDIR", "")]), [DEFAULT_SOCKET, "/run/podman/podman.sock"]);
  let all = places(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/r"), ("TMPDIR", "/t")]);
  assert_eq!(all.first().map(String::as_str), Some(DEFAULT_SOCKET));
  // A folder for temporary files is everybody's but on macOS.
  let temporary = all.iter().any(|place| place.starts_with("/t/"));
  assert_eq!((temporary, all.len()), if cfg!(target_os = "macos") { (true, 11) } else { (false, 10) });
  assert_eq!(all.iter().filter(|place| own(place)).count(), all.len() - 2);
}

#[tokio::test]
async fn each_usual_place_is_taken_where_somebody_listens_and_nobody_does_before_it() {
  let machine = TempDir::new().unwrap();
  let folders = roots_in(machine.path());
  let places = usual_places(&roots(&folders));
  // From the last on: those before it do not exist, and those behind it listen too.
  let mut listening = Vec::new();
  for place in places.iter().rev() {
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    listening.push(UnixListener::bind(place).unwrap());
    assert_eq!(&first_that_listens(places.clone()).await.unwrap(), place);
  }
  // And with sockets before it that nobody listens on any more.
  for pair in places.windows(2) {
    let [gone, next] = pair else { panic!("{pair:?}") };
    drop(listening.pop());
    assert!(gone.exists());
    assert_eq!(&first_that_listens(places.clone()).await.unwrap(), next);
  }
}

#[tokio::test]
async fn where_nobody_listens_each_place_is_told_with_the_reason() {
  let machine = TempDir::new().unwrap();
  let folders = roots_in(machine.path());
  let places = usual_places(&roots(&folders));
  for place in &places {
    fs::create_dir_all(place.parent().unwrap()).unwrap();
  }
  // A plain file, a socket that nobody listens on and a link that leads nowhere are passed over.
  let [first, second, third, ..] = places.as_slice() else { panic!("{places:?}") };
  fs::write(first, "").unwrap();
  drop(UnixListener::bind(second).unwrap());
  std::os::unix::fs::symlink("nowhere", third).unwrap();
  let error = first_that_listens(places.clone()).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::DockerUnavailable);
  for (index, place) in places.iter().enumerate() {
    let why = if index < 2 { "nothing listens on it" } else { "does not exist" };
    let told = format!("{} ({why})", place.display());
    assert!(error.message().contains(&told), "{told}: {}", error.message());
  }
}

#[tokio::test]
async fn a_place_is_looked_for_where_nothing_was_named() {
  // With the context that is no context it is not an error, whatever listens on this machine.
  let home = home(Some(NO_CONTEXT), &[]);
  let surroundings = around(&[("HOME", text(home.path()))]);
  let places = usual_places(&Roots::of(&surroundings));
  match first_that_listens(places).await {
    Ok(path) => assert_eq!(found(&surroundings).await, text(&path)),
    Err(error) => assert_eq!(refused(&surroundings).await, (error.code(), error.message().to_owned())),
  }
}
