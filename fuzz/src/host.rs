//! The host against a hostile container: process 1 says what the fuzzer says, before a right welcome and after it, in
//! answer to every kind of operation. Every operation ends, within its time, in an end that it can have; what broke the
//! rules is lost and stays lost; and nothing is cancelled or timed out that was not asked to be. Connections to the proxy
//! are served meanwhile, and end with the link at the latest.
//!
//! Time is virtual: the runtime has one thread and moves its clock when everybody waits.

mod ask;
mod peer;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use futures_util::FutureExt;
use sandbox_docker::cancel::Cancel;
use sandbox_docker::docker::client::Client;
use sandbox_docker::error::ErrorCode;
use sandbox_docker::sandbox::resident::{Container, ResidentSandbox};
use sandbox_docker::supervisor::link::{Identity, Link};
use sandbox_docker::supervisor::wire::Token;
use tokio::task::JoinHandle;

use super::replies::{reply, stream_head};
use super::scripted_engine::{Act, Gate, Script, ScriptedEngine, Talk};
use ask::{ASKS, Ask};
use peer::{Plan, Told};
use serve::Service;

/// A connection's buffers, the windows of the operations (two streams of 512 KiB each) and of the channels (8 MiB each
/// way), and what the engine records.
const MEMORY: usize = 40 * 1024 * 1024;
/// The longest of all deadlines is that of an archive, 120 s; then what ends it has its own.
const LONGEST: Duration = Duration::from_secs(200);
/// An operation that is cancelled has 10 s to end; then the container has 2 s to tell why it did.
const STOPPED: Duration = Duration::from_secs(15);

pub fn check(data: &[u8]) {
  let runtime =
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
  super::bounded(MEMORY, || {
    // An input that ends too early is none.
    let _ = runtime.block_on(run(data));
    drop(runtime);
  });
}

/// What this side does.
struct Course {
  first: Ask,
  second: Ask,
  /// Both at once.
  beside: bool,
  /// When the first is cancelled.
  cancel: Option<Duration>,
  /// Connections to the proxy are asked for, and served so.
  service: Option<Service>,
}

impl Course {
  fn read(u: &mut Unstructured<'_>) -> Result<Self> {
    let (first, second, beside) = (*u.choose(&ASKS)?, *u.choose(&ASKS)?, u.ratio(1, 4)?);
    let cancel = if u.ratio(1, 4)? { Some(Duration::from_millis(u.int_in_range(0..=40_000)?)) } else { None };
    let service = Service::read(u)?;
    Ok(Self { first, second, beside, cancel, service })
  }
}

async fn run(data: &[u8]) -> Result<()> {
  let mut u = Unstructured::new(data);
  let course = Course::read(&mut u)?;
  let plan = Plan::read(&mut u)?;
  let rest: Arc<[u8]> = u.take_rest().into();
  let (gate, told) = (Gate::new(), Arc::new(Told::default()));
  let talk = peer::talk(plan, rest, gate.clone(), Arc::clone(&told));
  let engine = engine(&gate, talk);
  let client = Client::new(Some(engine.socket().to_owned()), Some("1.41")).unwrap();
  let opened = tokio::time::timeout(LONGEST, sandbox(client)).await.expect("a link opens or not");
  match opened {
    Ok((sandbox, link)) => {
      let served = course.service.map(|service| tokio::spawn(service.run(link)));
      play(&course, &sandbox, &told, &engine, served).await;
    }
    Err(error) => {
      let codes = [
        ErrorCode::Conflict,
        ErrorCode::Internal,
        ErrorCode::Unsupported,
        ErrorCode::ContainerLost,
        ErrorCode::DockerApi,
      ];
      assert!(codes.contains(&error.code()), "{error}");
    }
  }
  Ok(())
}

async fn play(
  course: &Course,
  sandbox: &ResidentSandbox,
  told: &Told,
  engine: &ScriptedEngine,
  served: Option<JoinHandle<()>>,
) {
  let (cancel, never) = (Cancel::new(), Cancel::new());
  let canceller = course.cancel.map(|after| {
    let cancel = cancel.clone();
    tokio::spawn(async move {
      tokio::time::sleep(after).await;
      cancel.cancel();
    })
  });
  let first = ends(course.first, sandbox, &cancel);
  let second = ends(course.second, sandbox, &never);
  let (first, second) = if course.beside { tokio::join!(first, second) } else { (first.await, second.await) };
  for (code, cancel) in [(first, &cancel), (second, &never)] {
    assert!(code != Some(ErrorCode::Cancelled) || cancel.is_cancelled(), "cancelled, and nobody asked");
  }
  // What was heard by now was heard: a connection holds it, or this side took it.
  tokio::time::sleep(Duration::from_millis(1)).await;
  let was_lost = [first, second].contains(&Some(ErrorCode::ContainerLost));
  let must_be_lost = was_lost || told.is_foreign();
  let last = ends(Ask::Read, sandbox, &never).await;
  if must_be_lost {
    assert_eq!(last, Some(ErrorCode::ContainerLost), "after {first:?} and {second:?}");
    let ended = told.is_over() || engine.calls().iter().any(|call| call == "DELETE /containers/c1");
    assert!(ended, "a lost container is still there");
  }
  if let Some(served) = served {
    // Whatever this side waits for in it ends with the link.
    if must_be_lost {
      tokio::time::timeout(LONGEST, served).await.expect("connections end with their link").unwrap();
    } else if served.is_finished() {
      served.await.unwrap();
    } else {
      served.abort();
    }
  }
  if let Some(canceller) = canceller {
    canceller.abort();
  }
}

/// What an operation ends in; `None`: well, with a result that it can have.
async fn ends(ask: Ask, sandbox: &ResidentSandbox, cancel: &Cancel) -> Option<ErrorCode> {
  let cancelled = async {
    cancel.cancelled().await;
    tokio::time::sleep(STOPPED).await;
  };
  let ended = tokio::select! {
    biased;
    ended = tokio::time::timeout(LONGEST, ask.on(sandbox, cancel)) => ended,
    () = cancelled, if ask != Ask::KillAll => panic!("{ask:?} does not end though it was cancelled"),
  };
  let Err(error) = ended.unwrap_or_else(|_| panic!("{ask:?} does not end")) else { return None };
  let code = error.code();
  let fits = match code {
    ErrorCode::NotFound
    | ErrorCode::PathInvalid
    | ErrorCode::Denied
    | ErrorCode::Limit
    | ErrorCode::DockerApi
    | ErrorCode::Internal
    | ErrorCode::Unsupported
    | ErrorCode::ContainerLost
    | ErrorCode::Cancelled => true,
    ErrorCode::SnapshotInvalid => ask == Ask::Import,
    _ => false,
  };
  assert!(fits, "{ask:?}: {error}");
  Some(code)
}

async fn sandbox(client: Client) -> sandbox_docker::error::Result<(ResidentSandbox, Link)> {
  let ending = client.ending("c1").await.unwrap();
  let identity = Identity { token: Token([7; 32]), fence: 1, dead_man: Duration::from_secs(60) };
  let link = Link::open(&client, "c1", identity, async { Ok(()) }).await?;
  let held = Box::new(|| futures_util::future::ready(true).boxed());
  let container = Container::new(client, "c1".to_owned(), ending, 0, held);
  Ok((ResidentSandbox::new(container, link.clone(), [].into()), link))
}

fn engine(ended: &Gate, talk: Talk) -> ScriptedEngine {
  let code = br#"{"StatusCode":137}"#;
  let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", code.len());
  let waiting = vec![Act::Write(head.into_bytes()), Act::Wait(ended.clone()), Act::Write(code.to_vec())];
  let removal = [vec![Act::Open(ended.clone())], reply(204, "")].concat();
  Script::new()
    .on("GET", "/containers/c1/json", reply(200, r#"{"Id":"c1","State":{"Running":true}}"#))
    .on("POST", "/containers/c1/wait", waiting)
    .on("POST", "/containers/c1/attach", vec![Act::Write(stream_head(101)), Act::Talk(talk)])
    .on("GET", "/events", reply(200, ""))
    .on("DELETE", "/containers/c1", removal)
    .serve()
}
