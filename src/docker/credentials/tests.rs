use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

fn around(folder: &TempDir) -> Surroundings {
  let path = folder.path().to_str().unwrap();
  serde_json::from_value(json!({ "DOCKER_CONFIG": path, "PATH": format!("{path}:/usr/bin:/bin") })).unwrap()
}

/// A folder with Docker's `config.json`, and a helper that is this shell script.
fn folder(config: &str, helper: &str) -> TempDir {
  let folder = TempDir::new().unwrap();
  fs::write(folder.path().join("config.json"), config).unwrap();
  let program = folder.path().join("docker-credential-test");
  fs::write(&program, format!("#!/bin/sh\n{helper}\n")).unwrap();
  fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
  folder
}

async fn found(folder: &TempDir, registry: Registry<'_>) -> Result<Value, String> {
  match find(&around(folder), registry).await {
    Credentials::None => Ok(Value::Null),
    Credentials::Header(text) => Ok(serde_json::from_slice(&URL_SAFE.decode(text).unwrap()).unwrap()),
    Credentials::Unreadable(why) => Err(why),
  }
}

#[tokio::test]
async fn what_docker_login_wrote_is_found_by_each_name_of_a_registry() {
  let auth = STANDARD.encode("me:se:cret");
  let config = json!({ "auths": {
    "https://index.docker.io/v1/": { "auth": auth },
    "https://old.example/v1/": { "auth": auth },
    "port.example:5000": { "auth": auth },
    "token.example": { "identitytoken": "t" },
    "empty.example": {},
    "broken.example": { "auth": "%" },
  }});
  let folder = folder(&config.to_string(), "exit 1");
  let login = |address: &str| json!({ "username": "me", "password": "se:cret", "serveraddress": address });
  for (registry, expected) in [
    (Registry::Hub, login("https://index.docker.io/v1/")),
    (Registry::Host("old.example"), login("old.example")),
    (Registry::Host("port.example:5000"), login("port.example:5000")),
    (Registry::Host("token.example"), json!({ "identitytoken": "t", "serveraddress": "token.example" })),
    (Registry::Host("port.example"), Value::Null),
    (Registry::Host("empty.example"), Value::Null),
    (Registry::Host("broken.example"), Value::Null),
    (Registry::Host("ample"), Value::Null),
  ] {
    assert_eq!(found(&folder, registry).await, Ok(expected), "{registry:?}");
  }
}

#[tokio::test]
async fn a_helper_is_asked_for_the_registrys_address() {
  let answer = r#"[ "$1" = get ] || exit 9; read server
    case "$server" in
      token) echo '{"ServerURL":"token","Username":"<token>","Secret":"t"}' ;;
      none) echo credentials not found in native keychain; exit 1 ;;
      bad) echo secret words; exit 3 ;;
      rubbish) echo secret words ;;
      *) echo "{\"ServerURL\":\"$server\",\"Username\":\"me\",\"Secret\":\"of $server\"}" ;;
    esac"#;
  let folder = folder(r#"{"credsStore":"test","credHelpers":{"other.example":"nowhere"}}"#, answer);
  let hub = "https://index.docker.io/v1/";
  assert_eq!(
    found(&folder, Registry::Hub).await,
    Ok(json!({ "username": "me", "password": format!("of {hub}"), "serveraddress": hub }))
  );
  assert_eq!(
    found(&folder, Registry::Host("token")).await,
    Ok(json!({ "identitytoken": "t", "serveraddress": "token" }))
  );
  assert_eq!(found(&folder, Registry::Host("none")).await, Ok(Value::Null));
  for (registry, words) in [
    ("bad", "exit code 3"),
    ("rubbish", "no credentials as JSON"),
    ("other.example", "docker-credential-nowhere is not on PATH"),
  ] {
    let why = found(&folder, Registry::Host(registry)).await.unwrap_err();
    assert!(why.contains(words) && !why.contains("secret words"), "{why}");
  }
}

#[tokio::test]
async fn a_helper_of_one_registry_comes_before_the_store() {
  let folder = folder(
    r#"{"credsStore":"nowhere","credHelpers":{"one.example":"test"}}"#,
    r#"echo '{"Username":"u","Secret":"s"}'"#,
  );
  let expected = json!({ "username": "u", "password": "s", "serveraddress": "one.example" });
  assert_eq!(found(&folder, Registry::Host("one.example")).await, Ok(expected));
  // A name is a part of a program's, and never a path.
  let config = folder.path().join("config.json");
  fs::write(config, r#"{"credsStore":"x/../../docker-credential-test"}"#).unwrap();
  assert!(found(&folder, Registry::Hub).await.unwrap_err().contains("no name of a helper"));
}

#[tokio::test]
async fn a_helper_that_says_nothing_is_given_up_and_ends() {
  let folder = folder("{}", r#"echo $$ >"$DOCKER_CONFIG/pid"; exec sleep 600"#);
  let asked = credential_helper::ask("test", "h", &around(&folder), Duration::from_millis(500)).await;
  assert!(asked.err().unwrap().contains("said nothing for 0.5 s"));
  let process = format!("/proc/{}", fs::read_to_string(folder.path().join("pid")).unwrap().trim());
  tokio::time::timeout(Duration::from_secs(10), async {
    while fs::exists(&process).unwrap() {
      tokio::time::sleep(Duration::from_millis(10)).await;
    }
  })
  .await
  .unwrap();
}
