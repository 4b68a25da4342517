//! The Docker client against an engine that speaks bytes: sockets, versions, errors, and what each call makes of the
//! answers that engines give.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::client::Client;
use sandbox_docker::docker::model::ContainerSpec;
use sandbox_docker::docker::{Engine, EngineKind};
use sandbox_docker::error::{Error, ErrorCode};
use serde_json::json;

use support::replies::*;
use support::scripted_engine::{Act, Gate, Script};
use support::{client, must_end};

const LIST: &str = "/containers/json";
const CREATE: &str = "/containers/create";
const PULL: &str = "/images/create";
const DELETE: &str = "/containers/c1";
const KILL: &str = "/containers/c1/kill";
const NETWORK: &str = "/networks/n1";

async fn connect_error(socket: &Path) -> Error {
  let client = Client::new(Some(socket.to_owned()), None).unwrap();
  let error = must_end(client.inspect_container(CONTAINER)).await.unwrap_err();
  // A hijacked connection is opened otherwise; its errors are the same.
  let client = Client::new(Some(socket.to_owned()), Some("1.41")).unwrap();
  let exec = must_end(client.exec(CONTAINER, support::command(&["true"]))).await.unwrap_err();
  assert_eq!((exec.code(), exec.message()), (error.code(), error.message()));
  error
}

#[track_caller]
fn assert_error(error: &Error, code: ErrorCode, parts: &[&str]) {
  assert_eq!(error.code(), code, "{error}");
  for part in parts {
    assert!(error.message().contains(part), "{part:?} is not in: {error}");
  }
}

#[tokio::test]
async fn a_socket_that_cannot_be_used_is_named_with_the_reason() {
  let home = tempfile::tempdir().unwrap();
  let at = |name: &str| home.path().join(name);
  std::fs::write(at("file"), "").unwrap();
  std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
  drop(std::os::unix::net::UnixListener::bind(at("dead")).unwrap());
  let cases = [
    ("absent", "does not exist"),
    ("dangling", "does not exist"),
    ("file", "refuses connections"),
    ("dead", "refuses connections"),
    ("with space", "does not exist"),
  ];
  for (name, part) in cases {
    let error = connect_error(&at(name)).await;
    assert_error(&error, ErrorCode::DockerUnavailable, &[part, at(name).to_str().unwrap()]);
  }
  // `sun_path` of a unix address holds 108 bytes (unix(7)).
  let long = at(&"x".repeat(120));
  assert_error(&connect_error(&long).await, ErrorCode::DockerUnavailable, &["xxx", "is not available"]);
  assert_error(&connect_error(home.path()).await, ErrorCode::DockerUnavailable, &["refuses connections"]);
}

/// Set for the child that connects as somebody else.
const AS_NOBODY: &str = "SANDBOX_TEST_AS_NOBODY";

#[tokio::test]
async fn a_socket_that_may_not_be_opened_is_named_with_the_group_to_join() {
  if let Ok(socket) = std::env::var(AS_NOBODY) {
    let error = connect_error(Path::new(&socket)).await;
    assert_error(&error, ErrorCode::DockerUnavailable, &[&socket, "may not be opened", "\"docker\""]);
    return;
  }
  let home = tempfile::tempdir().unwrap();
  std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
  let socket = home.path().join("private.sock");
  let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
  std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).unwrap();
  // Permissions do not hold for root: a copy of this very test does it as nobody.
  let program = home.path().join("test");
  std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
  let mut child = std::process::Command::new(&program);
  child.args(["--exact", "a_socket_that_may_not_be_opened_is_named_with_the_group_to_join", "--nocapture"]);
  child.env(AS_NOBODY, &socket);
  if std::fs::metadata("/proc/self/environ").is_ok() && is_root() {
    child.uid(65534).gid(65534);
  }
  let output = child.output().unwrap();
  assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
  assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

fn is_root() -> bool {
  use std::os::unix::fs::MetadataExt;
  std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[tokio::test]
async fn an_engine_that_closes_at_once_is_no_engine() {
  let home = tempfile::tempdir().unwrap();
  let socket = home.path().join("engine.sock");
  let listener = tokio::net::UnixListener::bind(&socket).unwrap();
  let closing = tokio::spawn(async move {
    while let Ok(connection) = listener.accept().await {
      drop(connection);
    }
  });
  let client = Client::new(Some(socket.clone()), Some("1.41")).unwrap();
  let error = must_end(client.inspect_container(CONTAINER)).await.unwrap_err();
  assert_error(&error, ErrorCode::DockerApi, &["broke off GET", "/containers/c1/json"]);
  let error = must_end(client.exec(CONTAINER, support::command(&["true"]))).await.unwrap_err();
  assert_error(&error, ErrorCode::DockerApi, &["broke off POST"]);
  closing.abort();
}

#[test]
fn options_that_cannot_be_are_refused() {
  let refused = |socket: Option<&str>, version| Client::new(socket.map(Into::into), version).err().unwrap();
  assert_error(&refused(Some(""), None), ErrorCode::ConfigInvalid, &["socketPath was empty"]);
  for version in ["", "latest", "1", "v1.x", "1.41 "] {
    assert_error(&refused(None, Some(version)), ErrorCode::ConfigInvalid, &["apiVersion was", "1.41"]);
  }
  assert_eq!(Client::new(None, Some("v1.41")).unwrap().kind(), EngineKind::Node);
}

/// The versions that an inspection is asked in, after what the engine says of itself.
async fn version_used(ping: Vec<Act>, version: Vec<Act>) -> Result<String, Error> {
  let engine = Script::new()
    .on("GET", "/_ping", ping)
    .on("GET", "/version", version)
    .on("GET", INSPECT, container("running"))
    .serve();
  let client = Client::new(Some(engine.socket().to_owned()), None).unwrap();
  must_end(client.inspect_container(CONTAINER)).await?;
  Ok(engine.request("GET", INSPECT).version)
}

#[tokio::test]
async fn the_newest_version_that_both_speak_is_used() {
  let none = || error(404, "page not found");
  for (engine, used) in
    [("1.52", "v1.51"), ("1.51", "v1.51"), ("1.44", "v1.44"), ("1.41", "v1.41"), ("2.0", "v1.51")]
  {
    assert_eq!(version_used(ping(engine), none()).await.unwrap(), used);
  }
  let body = || reply(200, r#"{"ApiVersion":"1.43","MinAPIVersion":"1.24"}"#);
  for silent in [reply(200, "OK"), ping("what?"), error(500, "oops")] {
    assert_eq!(version_used(silent, body()).await.unwrap(), "v1.43");
  }
  let error = version_used(ping("1.40"), none()).await.unwrap_err();
  assert_error(&error, ErrorCode::DockerUnavailable, &["API 1.40", "1.41"]);
  for nothing in [reply(200, "{}"), reply(200, "no JSON"), reply(200, r#"{"ApiVersion":7}"#)] {
    let error = version_used(reply(200, "OK"), nothing).await.unwrap_err();
    assert_error(&error, ErrorCode::DockerApi, &["/version named no API version"]);
  }
}

#[tokio::test]
async fn a_version_that_the_engine_refuses_is_told_in_the_engines_words() {
  let words = "client version 1.43 is too old. Minimum supported API version is 1.44";
  let engine = Script::new().on("GET", INSPECT, error(400, words)).serve();
  let client = Client::new(Some(engine.socket().to_owned()), Some("v1.43")).unwrap();
  let error = must_end(client.inspect_container(CONTAINER)).await.unwrap_err();
  assert_error(&error, ErrorCode::DockerApi, &["GET /containers/c1/json returned 400", words]);
  assert_eq!(engine.request("GET", INSPECT).version, "v1.43");
}

#[tokio::test]
async fn first_calls_share_one_negotiation_and_a_failed_one_is_tried_again() {
  let engine = Script::new()
    .on_each("GET", "/_ping", vec![vec![Act::Close], ping("1.41")])
    .on("GET", INSPECT, container("running"))
    .serve();
  let client = Client::new(Some(engine.socket().to_owned()), None).unwrap();
  let error = must_end(client.inspect_container(CONTAINER)).await.unwrap_err();
  assert_error(&error, ErrorCode::DockerApi, &["broke off GET /_ping"]);
  let calls: Vec<_> = (0..20).map(|_| client.inspect_container(CONTAINER)).collect();
  let states = must_end(futures_util::future::join_all(calls)).await;
  assert!(states.iter().all(|state| state.as_ref().unwrap().state.running));
  let pings = engine.calls().iter().filter(|call| *call == "GET /_ping").count();
  assert_eq!(pings, 2);
}

#[tokio::test]
async fn an_error_keeps_what_the_engine_says_however_it_says_it() {
  let raw = |text: String| vec![Act::Write(text.into_bytes()), Act::Close];
  let cases = [
    (error(500, "driver failed"), "driver failed"),
    (reply(500, "plain words\n"), "plain words"),
    (reply(500, ""), "gave no reason"),
    (reply(500, "{}"), "gave no reason"),
    (reply(500, r#"{"message":null}"#), "gave no reason"),
    (
      raw("HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nchunk\r\n2\r\ned\r\n0\r\n\r\n".into()),
      "chunked",
    ),
    (raw("HTTP/1.1 500 X\r\n\r\nuntil the end".into()), "until the end"),
    (raw("HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\ncut half way".into()), "cut half way"),
    (raw(format!("HTTP/1.1 500 X\r\n\r\n{}", "x".repeat(4 << 20))), "xxxx"),
  ];
  for (answer, part) in cases {
    let engine = Script::new().on("GET", INSPECT, answer).serve();
    let error = must_end(client(&engine).inspect_container(CONTAINER)).await.unwrap_err();
    assert_error(&error, ErrorCode::DockerApi, &["GET /containers/c1/json returned 500", part]);
    assert!(error.message().chars().count() < 1_200);
  }
  let engine = Script::new().on("GET", INSPECT, error(404, "No such container: c1")).serve();
  let error = must_end(client(&engine).inspect_container(CONTAINER)).await.unwrap_err();
  assert_error(&error, ErrorCode::NotFound, &["returned 404: No such container: c1"]);
}

#[tokio::test]
async fn a_reply_that_is_cut_too_long_or_no_json_is_an_error() {
  let cut = vec![Act::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"Id\":".to_vec()), Act::Close];
  let no_head = vec![Act::Write(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec()), Act::Close];
  let no_http = vec![Act::Write(b"hello\r\n\r\n".to_vec()), Act::Close];
  let cases = [
    (cut, ErrorCode::DockerApi, "broke off its reply to GET /containers/c1/json half way"),
    (no_head, ErrorCode::DockerApi, "it may or may not have acted on it"),
    (no_http, ErrorCode::DockerApi, "it may or may not have acted on it"),
    (reply(200, "<html>"), ErrorCode::DockerApi, "JSON that is not as documented"),
    (reply(200, "[1]"), ErrorCode::DockerApi, "JSON that is not as documented"),
    (reply(200, ""), ErrorCode::DockerApi, "JSON that is not as documented"),
    (reply(200, &" ".repeat((16 << 20) + 1)), ErrorCode::Limit, "longer than 16777216 bytes"),
  ];
  for (answer, code, part) in cases {
    let engine = Script::new().on("GET", INSPECT, answer).serve();
    let error = must_end(client(&engine).inspect_container(CONTAINER)).await.unwrap_err();
    assert_error(&error, code, &[part]);
  }
}

#[tokio::test]
async fn a_length_that_is_only_announced_reserves_nothing() {
  let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{}}", u64::MAX / 4);
  let engine = Script::new().on("GET", INSPECT, vec![Act::Write(head.into_bytes()), Act::Close]).serve();
  let error = must_end(client(&engine).inspect_container(CONTAINER)).await.unwrap_err();
  assert_error(&error, ErrorCode::DockerApi, &["half way"]);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_does_not_answer_is_given_up_after_a_minute() {
  for path in ["/_ping", INSPECT] {
    let engine = Script::new()
      .on("GET", "/_ping", if path == INSPECT { ping("1.41") } else { vec![Act::Hang] })
      .on("GET", INSPECT, vec![Act::Hang])
      .serve();
    let client = Client::new(Some(engine.socket().to_owned()), None).unwrap();
    let error = client.inspect_container(CONTAINER).await.unwrap_err();
    assert_error(&error, ErrorCode::DockerApi, &["did not answer GET /containers/c1/json within 60 s"]);
  }
}

#[tokio::test]
async fn connections_are_kept_and_replaced_when_the_engine_closes_them() {
  let closing = [container("running"), vec![Act::Close]].concat();
  let engine = Script::new()
    .on_each("GET", INSPECT, vec![container("running"), container("running"), closing, container("exited")])
    .serve();
  let client = client(&engine);
  for running in [true, true, true, false] {
    assert_eq!(must_end(client.inspect_container(CONTAINER)).await.unwrap().state.running, running);
    // The engine's end of the connection is seen before the next call.
    for _ in 0..8 {
      tokio::task::yield_now().await;
    }
  }
  let used: Vec<_> = engine.requests().iter().map(|seen| seen.connection).collect();
  assert_eq!(used, [0, 0, 0, 1]);
}

#[tokio::test]
async fn an_id_never_reaches_another_resource() {
  let engine = Script::new().on("GET", "/containers/a%2Fb%3Fc%20%C3%A4/json", container("running")).serve();
  let client = client(&engine);
  for id in ["", ".", "..", "a\0b"] {
    let error = must_end(client.inspect_container(id)).await.unwrap_err();
    assert_error(&error, ErrorCode::NotFound, &["is not an id or name"]);
  }
  assert_eq!(engine.requests().len(), 0);
  assert!(must_end(client.inspect_container("a/b?c ä")).await.unwrap().state.running);
}

#[tokio::test]
async fn a_container_that_is_not_created_says_which_thing_is_missing() {
  let spec = |name: Option<&str>| ContainerSpec {
    image: "img:1".to_owned(),
    name: name.map(str::to_owned),
    ..ContainerSpec::default()
  };
  let image = "/images/img%3A1/json";
  let missing = error(404, "No such image: img:1");
  let engine = Script::new().on("POST", CREATE, missing.clone()).on("GET", image, missing).serve();
  let refused = must_end(client(&engine).create_container(&spec(None))).await.unwrap_err();
  assert_error(
    &refused,
    ErrorCode::ImageMissing,
    &["Image img:1 is not on the Docker engine", "docker pull img:1"],
  );

  let engine = Script::new()
    .on("POST", CREATE, error(404, "network run-1 not found"))
    .on("GET", image, reply(200, r#"{"Id":"sha256:1","RepoDigests":null}"#))
    .serve();
  let refused = must_end(client(&engine).create_container(&spec(None))).await.unwrap_err();
  assert_error(&refused, ErrorCode::NotFound, &["network run-1 not found"]);

  let engine = Script::new().on("POST", CREATE, error(409, "name is in use by container 12")).serve();
  let refused = must_end(client(&engine).create_container(&spec(Some("run 1")))).await.unwrap_err();
  assert_error(&refused, ErrorCode::Conflict, &["run 1 exists already", "in use by container 12"]);
  assert_eq!(engine.requests()[0].path, "/containers/create?name=run%201");
  let refused = must_end(client(&engine).create_container(&spec(None))).await.unwrap_err();
  assert_error(&refused, ErrorCode::DockerApi, &["returned 409"]);

  let engine = Script::new().on("POST", CREATE, reply(201, r#"{"Warnings":[]}"#)).serve();
  let refused = must_end(client(&engine).create_container(&spec(None))).await.unwrap_err();
  assert_error(&refused, ErrorCode::DockerApi, &["told no id"]);
}

#[tokio::test]
async fn starting_twice_is_fine_and_a_refusal_is_told() {
  let engine = Script::new()
    .on_each(
      "POST",
      "/containers/c1/start",
      vec![
        vec![Act::Write(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())],
        vec![Act::Write(b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec())],
        error(404, "No such container: c1"),
        error(500, "OCI runtime create failed"),
      ],
    )
    .serve();
  let client = client(&engine);
  must_end(client.start_container(CONTAINER)).await.unwrap();
  must_end(client.start_container(CONTAINER)).await.unwrap();
  let gone = must_end(client.start_container(CONTAINER)).await.unwrap_err();
  assert_error(&gone, ErrorCode::NotFound, &["No such container"]);
  let failed = must_end(client.start_container(CONTAINER)).await.unwrap_err();
  assert_error(&failed, ErrorCode::DockerApi, &["OCI runtime create failed"]);
}

#[tokio::test]
async fn a_removal_under_way_is_waited_for() {
  let engine = Script::new()
    .on("DELETE", DELETE, error(409, "removal of container c1 is already in progress"))
    .on_each(
      "GET",
      INSPECT,
      vec![container("removing"), container("removing"), error(404, "No such container")],
    )
    .serve();
  must_end(client(&engine).remove_container(CONTAINER)).await.unwrap();
  assert_eq!(engine.calls().len(), 4);
  assert_eq!(engine.requests()[0].path, "/containers/c1?force=true&v=true");
}

#[tokio::test]
async fn a_removal_that_is_refused_is_told() {
  for (status, code) in [(500, ErrorCode::DockerApi), (404, ErrorCode::NotFound)] {
    let engine = Script::new().on("DELETE", DELETE, error(status, "it is what it is")).serve();
    let refused = must_end(client(&engine).remove_container(CONTAINER)).await.unwrap_err();
    assert_error(&refused, code, &["DELETE /containers/c1", "it is what it is"]);
  }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_never_ends_is_given_up() {
  let engine = Script::new()
    .on("DELETE", DELETE, error(409, "removal is already in progress"))
    .on("GET", INSPECT, container("removing"))
    .serve();
  let stuck = client(&engine).remove_container(CONTAINER).await.unwrap_err();
  assert_error(&stuck, ErrorCode::DockerApi, &["removal is already in progress"]);
}

#[tokio::test]
async fn killing_what_has_ended_is_fine_and_the_state_decides() {
  for status in [409, 500] {
    for (inspect, fine) in [
      (container("exited"), true),
      (error(404, "No such container"), true),
      (container("running"), false),
      (error(500, "who knows"), false),
    ] {
      let engine =
        Script::new().on("POST", KILL, error(status, "cannot kill")).on("GET", INSPECT, inspect).serve();
      let killed = must_end(client(&engine).kill_container(CONTAINER, "SIGKILL")).await;
      assert_eq!(killed.is_ok(), fine, "{status}");
      assert_eq!(engine.requests()[0].path, "/containers/c1/kill?signal=SIGKILL");
      if let Err(refused) = killed {
        assert_error(&refused, ErrorCode::DockerApi, &["cannot kill"]);
      }
    }
  }
  let engine = Script::new().on("POST", KILL, error(404, "No such container")).serve();
  let gone = must_end(client(&engine).kill_container(CONTAINER, "SIGTERM")).await.unwrap_err();
  assert_error(&gone, ErrorCode::NotFound, &["No such container"]);
}

#[tokio::test]
async fn a_list_holds_only_what_was_asked_for() {
  let listed = json!([
    { "Id": "1", "Names": ["/run-1"], "Labels": { "run": "a" } },
    { "Id": "2", "Names": ["/run-10"], "Labels": { "run": "a=b" } },
    { "Id": "3", "Names": ["/x-run-1"], "Labels": { "run": "" } },
    { "Id": "4", "Names": ["/stranger"], "Labels": null },
    { "Id": "5", "Labels": { "runner": "a" } },
    { "Id": "6" },
  ]);
  let engine = Script::new().on("GET", LIST, reply(200, &listed.to_string())).serve();
  let client = client(&engine);
  for (label, ids) in
    [("run=a", &["1"][..]), ("run=a=b", &["2"]), ("run=", &["3"]), ("run", &["1", "2", "3"]), ("ru", &[])]
  {
    let found = must_end(client.list_containers(label)).await.unwrap();
    assert_eq!(found.iter().map(|container| container.id.as_str()).collect::<Vec<_>>(), ids, "{label}");
  }
  let asked = &engine.requests()[1].path;
  assert_eq!(asked, "/containers/json?all=true&filters=%7B%22label%22%3A%5B%22run%3Da%3Db%22%5D%7D");
}

/// A pull's reply: 200, chunked as engines do it, each piece a chunk.
fn progress(pieces: &[&str]) -> Vec<u8> {
  let chunks: String = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
  format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn the_progress_of_a_pull_is_read_however_it_is_cut() {
  let pieces = ["{\"status\":\"Pulling\"}", "\r\n", "\r\n{\"status\":", "\"Done\"}", "{\"id\":\"}{\"}\n\n"];
  let whole = progress(&pieces);
  for length in [1, 3, whole.len()] {
    let engine = Script::new().on("POST", PULL, vec![Act::Cut(whole.clone(), length)]).serve();
    must_end(client(&engine).pull_image("reg:5000/a:1", &|_| (), &Cancel::new())).await.unwrap();
    assert_eq!(engine.requests()[0].path, "/images/create?fromImage=reg%3A5000%2Fa&tag=1");
  }
}

#[tokio::test]
async fn a_pull_that_fails_says_why() {
  let pull = |answer: Vec<Act>| async {
    let engine = Script::new().on("POST", PULL, answer).serve();
    must_end(client(&engine).pull_image("a@sha256:00", &|_| (), &Cancel::new())).await.unwrap_err()
  };
  let inside =
    progress(&["{\"status\":\"x\"}\r\n", "{\"errorDetail\":{},\"error\":\"manifest unknown\"}\r\n"]);
  let failed = pull(vec![Act::Write(inside)]).await;
  assert_error(&failed, ErrorCode::ImageMissing, &["a@sha256:00 could not be pulled: manifest unknown"]);
  let failed = pull(error(404, "repository does not exist")).await;
  assert_error(&failed, ErrorCode::ImageMissing, &["repository does not exist"]);
  let failed = pull(vec![Act::Write(progress(&["{\"status\":\"x\"}", "{\"sta"]))]).await;
  assert_error(&failed, ErrorCode::DockerApi, &["middle of a JSON value"]);
  let failed = pull(vec![Act::Write(progress(&["<html>"]))]).await;
  assert_error(&failed, ErrorCode::DockerApi, &["JSON object was due"]);
  let cut = [&progress(&["{\"status\":\"x\"}"])[..60], b""].concat();
  let failed = pull(vec![Act::Write(cut), Act::Close]).await;
  assert_error(&failed, ErrorCode::DockerApi, &["broke off the pull of image a@sha256:00"]);
}

#[tokio::test]
async fn a_pull_ends_with_its_cancellation() {
  let (begun, cancel) = (Gate::new(), Cancel::new());
  let hang = vec![Act::Write(progress(&["{}"])[..30].to_vec()), Act::Open(begun.clone()), Act::Hang];
  let engine = Script::new().on("POST", PULL, hang).serve();
  let client = client(&engine);
  let pulling = must_end(client.pull_image("a", &|_| (), &cancel));
  let (pulled, ()) = tokio::join!(pulling, async {
    begun.passed().await;
    cancel.cancel();
  });
  assert_error(&pulled.unwrap_err(), ErrorCode::Cancelled, &["Pulling image a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_falls_silent_is_given_up() {
  for answer in [vec![Act::Hang], vec![Act::Write(progress(&["{}"])[..50].to_vec()), Act::Hang]] {
    let engine = Script::new().on("POST", PULL, answer).serve();
    let silent = client(&engine).pull_image("a", &|_| (), &Cancel::new()).await.unwrap_err();
    assert!(silent.message().contains("said nothing of the pull of image a for 300 s"), "{silent}");
  }
}

#[tokio::test]
async fn an_image_without_digests_is_read() {
  let id = format!("sha256:{}", "a".repeat(64));
  let body = json!({ "Id": id, "RepoDigests": null, "Config": { "Volumes": null }, "Os": "linux" });
  let path = format!("/images/{}/json", id.replace(':', "%3A"));
  let engine = Script::new().on("GET", &path, reply(200, &body.to_string())).serve();
  let image = must_end(client(&engine).inspect_image(&id)).await.unwrap();
  assert_eq!((image.id, image.repo_digests), (id, None));
}

#[tokio::test]
async fn a_network_is_internal_and_its_gateway_is_told() {
  let created = || reply(201, r#"{"Id":"n1"}"#);
  let inspected = |ipam: &str| reply(200, &format!(r#"{{"Id":"n1","IPAM":{ipam}}}"#));
  for (ipam, gateway) in [
    (r#"{"Config":[{"Gateway":"172.18.0.1"},{}]}"#, Some("172.18.0.1")),
    (r#"{"Config":[{}]}"#, None),
    (r#"{"Config":null}"#, None),
    ("null", None),
  ] {
    let engine =
      Script::new().on("POST", "/networks/create", created()).on("GET", NETWORK, inspected(ipam)).serve();
    let network = must_end(client(&engine).create_network("run-1")).await.unwrap();
    assert_eq!((network.id.as_str(), network.gateway.as_deref()), ("n1", gateway));
    let body = engine.requests()[0].json();
    assert_eq!((&body["Name"], &body["Internal"]), (&json!("run-1"), &json!(true)));
  }
}

#[tokio::test]
async fn a_network_that_cannot_be_looked_at_is_not_left_behind() {
  let engine = Script::new()
    .on("POST", "/networks/create", reply(201, r#"{"Id":"n1"}"#))
    .on("GET", NETWORK, error(500, "oops"))
    .on("DELETE", NETWORK, vec![Act::Write(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())])
    .serve();
  let failed = must_end(client(&engine).create_network("run-1")).await.unwrap_err();
  assert_error(&failed, ErrorCode::DockerApi, &["oops"]);
  assert_eq!(engine.calls(), ["POST /networks/create", "GET /networks/n1", "DELETE /networks/n1"]);
}

#[tokio::test]
async fn a_network_held_by_a_container_that_is_gone_is_freed_and_removed() {
  let held = || reply(200, r#"{"Id":"n1","Containers":{"c1":{"Name":"x"}}}"#);
  for status in [403, 409] {
    let engine = Script::new()
      .on_each(
        "DELETE",
        NETWORK,
        vec![
          error(status, "network has active endpoints"),
          vec![Act::Write(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())],
        ],
      )
      .on("GET", NETWORK, held())
      .on("GET", INSPECT, error(404, "No such container"))
      .on("POST", "/networks/n1/disconnect", reply(200, ""))
      .serve();
    must_end(client(&engine).remove_network("n1")).await.unwrap();
    let body = engine.request("POST", "/networks/n1/disconnect").json();
    assert_eq!(body, json!({ "Container": "c1", "Force": true }));
  }
  let engine = Script::new()
    .on("DELETE", NETWORK, error(403, "network has active endpoints"))
    .on("GET", NETWORK, held())
    .on("GET", INSPECT, container("running"))
    .serve();
  let refused = must_end(client(&engine).remove_network("n1")).await.unwrap_err();
  assert_error(&refused, ErrorCode::DockerApi, &["active endpoints"]);
  assert_eq!(engine.calls().iter().filter(|call| call.starts_with("DELETE")).count(), 1);
  let engine = Script::new().on("DELETE", NETWORK, error(404, "network n1 not found")).serve();
  let gone = must_end(client(&engine).remove_network("n1")).await.unwrap_err();
  assert_error(&gone, ErrorCode::NotFound, &["network n1 not found"]);
}

#[tokio::test]
async fn a_commit_and_an_image_removal_name_exactly_what_they_mean() {
  let engine = Script::new()
    .on("GET", "/_ping", ping("1.41"))
    .on("POST", "/commit", reply(201, r#"{"Id":"sha256:1"}"#))
    .on("DELETE", "/images/a%2Fb%3A1", reply(200, "[]"))
    .serve();
  let client = client(&engine);
  let labels = [("zhivex".to_owned(), String::new())].into();
  let id = must_end(client.commit_container("c1", "a/b", "1&x=y", Some(&labels))).await.unwrap();
  assert_eq!(id, "sha256:1");
  // The first one asks whose API it is.
  let seen = engine.requests()[1].clone();
  assert_eq!(seen.path, "/commit?container=c1&repo=a%2Fb&tag=1%26x%3Dy");
  assert_eq!(seen.json(), json!({ "Labels": { "zhivex": "" } }));
  must_end(client.remove_image("a/b:1")).await.unwrap();
  assert_eq!(engine.requests()[2].path, "/images/a%2Fb%3A1?force=true");
}

#[tokio::test]
async fn podman_is_known_by_its_ping_and_understood() {
  let podman =
    "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\nContent-Length: 2\r\n\r\nOK";
  let taken = json!({ "cause": "that name is already in use", "message": "taken", "response": 500 });
  let gone = json!({ "cause": "no such container", "message": "gone", "response": 500 });
  let engine = Script::new()
    .on("GET", "/_ping", vec![Act::Write(podman.as_bytes().to_vec())])
    .on("POST", "/commit", reply(201, r#"{"Id":"1f"}"#))
    .on("GET", "/images/json", reply(200, r#"[{"Id":"sha256:1f","RepoTags":["docker.io/a/b:1"]}]"#))
    .on("POST", "/containers/c1/rename", reply(500, &taken.to_string()))
    .on("GET", INSPECT, reply(500, &gone.to_string()))
    .on("DELETE", "/images/a%2Fb%3A1", reply(200, "[]"))
    .serve();
  let client = client(&engine);
  let labels = [("zhivex".to_owned(), String::new())].into();
  assert_eq!(must_end(client.commit_container("c1", "a/b", "1", Some(&labels))).await.unwrap(), "sha256:1f");
  assert!(engine.requests()[1].path.ends_with("&tag=1&changes=LABEL%20zhivex%3D"));
  let line = [("x".to_owned(), "a\nUSER 0".to_owned())].into();
  let refused = must_end(client.commit_container("c1", "a/b", "1", Some(&line))).await.unwrap_err();
  assert_error(&refused, ErrorCode::Unsupported, &["control characters"]);
  assert_eq!(must_end(client.list_images("a/b")).await.unwrap()[0].repo_tags, ["a/b:1"]);
  let error = must_end(client.rename_container("c1", "n")).await.unwrap_err();
  assert_error(&error, ErrorCode::Conflict, &["taken"]);
  let error = must_end(client.inspect_container("c1")).await.unwrap_err();
  assert_error(&error, ErrorCode::NotFound, &["returned 500: gone"]);
  must_end(client.remove_image("a/b:1")).await.unwrap();
  assert_eq!(engine.requests().last().unwrap().path, "/images/a%2Fb%3A1?force=false");
}

#[tokio::test]
async fn a_burst_of_calls_is_answered_each_with_its_own() {
  let engine = Script::new()
    .on_seen("GET", INSPECT, |_seen| container("running"))
    .on_seen("GET", "/containers/c2/json", |_seen| container("exited"))
    .serve();
  let client = client(&engine);
  let calls = (0..100).map(|number| {
    let client = client.clone();
    async move {
      let id = if number % 2 == 0 { "c1" } else { "c2" };
      client.inspect_container(id).await.unwrap().state.running == (number % 2 == 0)
    }
  });
  let right = must_end(futures_util::future::join_all(calls)).await;
  assert!(right.into_iter().all(|right| right));
  // The rest of the test would hang on a connection that was left half read.
  let last = tokio::time::timeout(Duration::from_secs(5), client.inspect_container("c1")).await;
  assert!(last.unwrap().unwrap().state.running);
}
