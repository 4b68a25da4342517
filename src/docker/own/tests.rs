use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::FutureExt;

use super::*;
use crate::docker::engine::{ExecEnd, Permit, Stdin};
use crate::error::{Error, ErrorCode};

const ID: &str = "c0ffee";

/// Facts, standard output and standard error of a command.
type Ran = Result<(Value, &'static str, &'static str)>;

/// Answers with what a test put in, and remembers what it was asked.
#[derive(Default)]
struct Fake {
  double: bool,
  optional: Vec<&'static str>,
  answers: BTreeMap<&'static str, Value>,
  tar: Bytes,
  /// Of the first command; every later one is a script that ends with 0.
  exec: Mutex<Option<Ran>>,
  asked: Mutex<Vec<(String, Value)>>,
}

impl Fake {
  fn answering(answers: &[(&'static str, Value)]) -> Self {
    Self { answers: answers.iter().cloned().collect(), ..Self::default() }
  }

  fn note(&self, method: &str, arguments: Value) {
    self.asked.lock().unwrap().push((method.to_owned(), arguments));
  }
}

#[async_trait]
impl OwnClient for Fake {
  fn is_double(&self) -> bool {
    self.double
  }

  fn has(&self, method: &str) -> bool {
    self.optional.contains(&method)
  }

  async fn call(&self, method: &'static str, arguments: Value) -> Result<Value> {
    self.note(method, arguments);
    Ok(self.answers.get(method).cloned().unwrap_or(Value::Null))
  }

  async fn put_archive(&self, id: &str, path: &str, tar: Bytes) -> Result<()> {
    self.note("putArchive", json!([id, path, tar.len()]));
    Ok(())
  }

  async fn get_archive(&self, id: &str, path: &str, max_bytes: u64) -> Result<Bytes> {
    self.note("getArchive", json!([id, path, max_bytes]));
    Ok(self.tar.clone())
  }

  async fn exec(&self, id: &str, options: Value, _: Duration, cancel: &Cancel) -> Result<ExecAnswer> {
    self.note("exec", json!([id, options]));
    let first = self.exec.lock().unwrap().take();
    match first {
      Some(answer) => {
        let (facts, stdout, stderr) = answer?;
        if facts == "wait" {
          cancel.cancelled().await;
          return Err(crate::cancel::cancelled("The sandbox command"));
        }
        Ok(ExecAnswer { facts, stdout: stdout.into(), stderr: stderr.into() })
      }
      None => Ok(ExecAnswer { facts: facts(0, false, false), stdout: Bytes::new(), stderr: Bytes::new() }),
    }
  }
}

fn facts(code: i64, truncated: bool, timed_out: bool) -> Value {
  json!({ "exitCode": code, "truncated": truncated, "timedOut": timed_out })
}

fn engine(fake: Fake) -> (OwnEngine, Arc<Fake>) {
  let fake = Arc::new(fake);
  (OwnEngine::new(Arc::clone(&fake) as _), fake)
}

fn asked(fake: &Fake) -> Vec<String> {
  fake.asked.lock().unwrap().iter().map(|(method, _)| method.clone()).collect()
}

fn refusal<T>(result: Result<T>) -> (ErrorCode, String) {
  let error = result.err().unwrap();
  (error.code(), error.message().to_owned())
}

#[tokio::test]
async fn a_command_without_a_permit_is_not_asked_for() {
  let (engine, fake) = engine(Fake::default());
  let refused: Permit = Arc::new(|| async { Err(fail!(Conflict, "another holder has it")) }.boxed());
  let (code, _) = refusal(engine.exec(ID, ExecRequest { permit: Some(refused), ..request(None) }).await);
  assert_eq!((code, asked(&fake)), (ErrorCode::Conflict, vec![]));
}

fn request(mark: Option<&str>) -> ExecRequest {
  ExecRequest {
    cmd: vec!["true".to_owned()],
    user: "1:1".to_owned(),
    env: vec!["A=b".to_owned()],
    working_dir: "/w".to_owned(),
    timeout: Duration::from_secs(2),
    max_output_bytes: 4,
    stdin: Stdin::Empty,
    cancel: Cancel::new(),
    skip_terminate: false,
    marker: None,
    extra_stderr_bytes: 2,
    clean_mark: mark.map(str::to_owned),
    exclusive: true,
    tap: None,
    permit: None,
  }
}

#[tokio::test]
async fn a_client_of_the_plain_interface_is_asked_for_what_its_answers_leave_out() {
  let (engine, fake) = engine(Fake::answering(&[
    ("createContainer", json!({ "Id": ID })),
    ("inspectContainer", json!({ "Id": ID, "State": { "Running": true } })),
    ("listContainers", json!([{ "Id": ID, "Labels": { "zhivex.sandbox": "1", "a": "b" } }])),
  ]));
  let words = ["/bin/sh", "-c", "x"].map(str::to_owned).to_vec();
  let spec = ContainerSpec { entrypoint: Some(words.clone()), ..ContainerSpec::default() };
  assert_eq!(engine.create_container(&spec).await.unwrap(), ID);
  let (_, arguments) = fake.asked.lock().unwrap().remove(0);
  assert_eq!(arguments[0]["cmd"], json!(words), "a client that knows no entry point runs the command");

  let found = engine.inspect_container(ID).await.unwrap();
  assert_eq!(found.config.labels.unwrap()["a"], "b");
  let [listed] = engine.list_containers("a=b").await.unwrap().try_into().unwrap();
  assert_eq!((listed.names.len(), listed.created), (0, i64::MAX), "of unknown age is new");
  assert!(engine.list_containers("a=c").await.unwrap().is_empty(), "a filter that does not filter");
}

#[tokio::test]
async fn names_and_times_come_from_the_list_or_from_inspections() {
  let inspection = json!({ "Id": ID, "Name": "/n", "Created": "2024-02-29T12:30:15.5Z", "State": {} });
  let mut listed = json!([{ "Id": ID, "Labels": { "a": "b" } }]);
  let (one, _) =
    engine(Fake::answering(&[("inspectContainer", inspection.clone()), ("listContainers", listed.clone())]));
  let [found] = one.list_containers("a").await.unwrap().try_into().unwrap();
  assert_eq!((found.names.as_slice(), found.created), (["/n".to_owned()].as_slice(), 1_709_209_815));
  listed[0]["Names"] = json!(["/m"]);
  listed[0]["Created"] = json!(7);
  let (other, fake) =
    engine(Fake::answering(&[("inspectContainer", inspection), ("listContainers", listed)]));
  let [found] = other.list_containers("a").await.unwrap().try_into().unwrap();
  assert_eq!((found.names.as_slice(), found.created), (["/m".to_owned()].as_slice(), 7));
  assert_eq!(asked(&fake), ["listContainers"]);
}

#[test]
fn times_are_read_to_the_second() {
  for (time, seconds) in [
    ("1970-01-01T00:00:00Z", Some(0)),
    ("2000-02-29T23:59:59.999999999Z", Some(951_868_799)),
    ("2100-03-01T00:00:00Z", Some(4_107_542_400)),
    ("1969-12-31T23:59:59Z", Some(-1)),
    ("2024-13-01T00:00:00Z", None),
    ("2024-01-01T00:00:00+01:00", Some(1_704_063_600)),
    ("2024-01-01", None),
    ("äääääääääääääZ", None),
    ("", None),
  ] {
    assert_eq!(seconds_of(time), seconds, "{time}");
  }
}

#[tokio::test]
async fn what_is_no_answer_is_named() {
  for answer in [Value::Null, json!(5), json!("x"), json!({}), json!({ "Id": 5 }), json!({ "Id": "" })] {
    let (engine, _) = engine(Fake::answering(&[
      ("createContainer", answer.clone()),
      ("inspectContainer", answer.clone()),
      ("listContainers", json!([answer])),
      ("realpath", answer.clone()),
      ("commitContainer", answer.clone()),
      ("createNetwork", answer.clone()),
    ]));
    let spec = ContainerSpec::default();
    let all = [
      ("createContainer", refusal(engine.create_container(&spec).await)),
      ("inspectContainer", refusal(engine.inspect_container(ID).await)),
    ];
    for (method, (code, message)) in all {
      assert_eq!(code, ErrorCode::ConfigInvalid, "{method} {answer}: {message}");
      assert!(message.starts_with(&format!("client.{method}() answered what it may not: ")), "{message}");
    }
    assert!(engine.list_containers("").await.is_err() || answer != json!({ "Id": 5 }));
    assert!(engine.realpath(ID, "/w").await.is_err(), "{answer}");
  }
}

#[tokio::test]
async fn enforcement_needs_what_only_some_clients_can_tell() {
  for (optional, missing) in [(&[][..], "client.info()"), (&["info"][..], "client.inspectImage()")] {
    let (engine, _) = engine(Fake { optional: optional.to_vec(), ..Fake::default() });
    let (code, message) = refusal(engine.info().await);
    assert_eq!(code, ErrorCode::Unsupported);
    assert!(message.contains(missing), "{message}");
  }
  let (engine, _) = engine(Fake::default());
  assert_eq!(engine.inspect_image("i").await.unwrap().id, "");
  assert_eq!(
    refusal(engine.pull_image("i", &|_progress| (), &Cancel::new()).await).0,
    ErrorCode::Unsupported
  );
}

#[tokio::test]
async fn archives_are_bounded_both_ways() {
  let (engine, fake) = engine(Fake { tar: Bytes::from_static(b"12345"), ..Fake::default() });
  assert!(engine.get_archive(ID, "/w", 5).await.is_ok());
  assert_eq!(refusal(engine.get_archive(ID, "/w", 4).await).0, ErrorCode::Limit);
  let pieces = ["ab", "c"].map(|piece| Ok(Bytes::from_static(piece.as_bytes())));
  engine.put_archive(ID, "/w", ArchiveBody::Stream(stream::iter(pieces).boxed())).await.unwrap();
  assert_eq!(fake.asked.lock().unwrap().last().unwrap().1, json!([ID, "/w", 3]));
  let mebibyte = Bytes::from(vec![0; 1 << 20]);
  let endless = stream::repeat_with(move || Ok(mebibyte.clone()));
  let (code, _) = refusal(engine.put_archive(ID, "/w", ArchiveBody::Stream(endless.boxed())).await);
  assert_eq!(code, ErrorCode::Limit);
}

/// Runs one command; how it ended, and whether the killing script ran after it.
async fn run(answer: Ran, request: ExecRequest) -> (Result<ExecOutput>, bool) {
  let (engine, fake) = engine(Fake { exec: Mutex::new(Some(answer)), ..Fake::default() });
  let output = engine.exec(ID, request).await;
  let asked = fake.asked.lock().unwrap().clone();
  let options = &asked[0].1[1];
  assert_eq!(options["skipTerminate"], true);
  assert_eq!(options["maxOutputBytes"], 6);
  let mark = options["env"][1].as_str().unwrap().to_owned();
  let killed = asked.get(1).is_some_and(|(_, arguments)| arguments[1]["cmd"].to_string().contains(&mark));
  assert_eq!(asked.len() > 1, killed, "what else it ran has the command's mark");
  (output, killed)
}

#[tokio::test]
async fn what_did_not_say_that_it_left_nothing_is_killed() {
  let (output, killed) = run(Ok((facts(3, false, false), "out", "err")), request(None)).await;
  let output = output.unwrap();
  assert_eq!((output.exit_code, output.end), (Some(3), ExecEnd::Finished));
  assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out"[..], &b"err"[..]));
  assert!(killed);
  assert!(!run(Ok((facts(0, false, false), "", "end;")), request(Some("end;"))).await.1);
  assert!(!run(Ok((facts(0, false, false), "", "")), request(Some(""))).await.1);
  let (output, killed) = run(Ok((facts(137, false, true), "", "end;")), request(Some("end;"))).await;
  assert_eq!((output.unwrap().end, killed), (ExecEnd::TimedOut, true));
  let (output, killed) = run(Ok((facts(137, true, false), "", "end;")), request(Some("end;"))).await;
  assert_eq!((output.unwrap().end, killed), (ExecEnd::Truncated, true));
  let (output, killed) = run(Err(Error::new(ErrorCode::Timeout, "late")), request(None)).await;
  assert_eq!((refusal(output).0, killed), (ErrorCode::Timeout, true));
}

#[tokio::test]
async fn more_output_than_was_asked_for_is_cut_and_said() {
  let (output, _) = run(Ok((facts(0, false, false), "12345", "1234567")), request(None)).await;
  let output = output.unwrap();
  assert_eq!((output.stdout.len(), output.stderr.len(), output.end), (4, 6, ExecEnd::Truncated));
}

#[tokio::test]
async fn a_cancelled_command_is_killed() {
  let cancel = Cancel::new();
  let running = run(Ok((json!("wait"), "", "")), ExecRequest { cancel: cancel.clone(), ..request(None) });
  let ((output, killed), ()) = tokio::join!(running, async { cancel.cancel() });
  assert_eq!((refusal(output).0, killed), (ErrorCode::Cancelled, true));
}

#[tokio::test]
async fn rubbish_of_a_command_is_named_and_the_command_killed() {
  for rubbish in [Value::Null, json!({}), json!({ "exitCode": "0", "truncated": false, "timedOut": false })] {
    let (output, killed) = run(Ok((rubbish, "", "")), request(None)).await;
    let (code, message) = refusal(output);
    assert_eq!((code, killed), (ErrorCode::ConfigInvalid, true));
    assert!(message.starts_with("client.exec() answered what it may not: "), "{message}");
  }
}

#[tokio::test]
async fn input_is_refused_before_anything_runs() {
  let (engine, fake) = engine(Fake::default());
  let stdin = Stdin::Bytes(Bytes::from_static(b"x"));
  let (code, message) = refusal(engine.exec(ID, ExecRequest { stdin, ..request(None) }).await);
  assert_eq!(code, ErrorCode::Unsupported);
  assert!(message.contains("createNodeDockerClient"), "{message}");
  assert!(asked(&fake).is_empty());
}

#[tokio::test]
async fn a_double_has_nothing_to_kill() {
  let exec = Mutex::new(Some(Ok((facts(137, false, true), "", ""))));
  let (engine, fake) = engine(Fake { double: true, exec, ..Fake::default() });
  assert_eq!(engine.kind(), EngineKind::Memory);
  assert_eq!(engine.exec(ID, request(None)).await.unwrap().end, ExecEnd::TimedOut);
  assert_eq!(asked(&fake), ["exec"]);
}
