use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tar::{Archive, Builder, EntryType, Header};
use tokio::time::Instant;

use super::*;
use crate::docker::engine::{ExecEnd, Stdin};
use crate::error::{Error, ErrorCode};

fn spec() -> ContainerSpec {
  ContainerSpec {
    image: "alpine:3.21".to_owned(),
    user: "65534:65533".to_owned(),
    working_dir: "/workspace".to_owned(),
    env: vec!["HOME=/workspace".to_owned()],
    network_mode: "none".to_owned(),
    readonly_rootfs: true,
    memory_bytes: 1 << 28,
    nano_cpus: 500_000_000,
    pids_limit: 64,
    tmpfs: BTreeMap::from([(
      "/workspace".to_owned(),
      "rw,noexec,size=64k,mode=0700,nr_inodes=100".to_owned(),
    )]),
    labels: BTreeMap::from([("run".to_owned(), "run-1".to_owned())]),
    ..ContainerSpec::default()
  }
}

async fn started() -> (MemoryEngine, String) {
  let engine = MemoryEngine::default();
  let id = engine.create_container(&spec()).await.unwrap();
  engine.start_container(&id).await.unwrap();
  (engine, id)
}

fn request(cmd: &[&str]) -> ExecRequest {
  ExecRequest {
    cmd: cmd.iter().map(|&word| word.to_owned()).collect(),
    user: String::new(),
    env: Vec::new(),
    working_dir: String::new(),
    timeout: Duration::from_secs(10),
    max_output_bytes: 1000,
    stdin: Stdin::Empty,
    cancel: Cancel::new(),
    skip_terminate: false,
    marker: None,
    extra_stderr_bytes: 0,
    clean_mark: Some(String::new()),
    exclusive: false,
    tap: None,
    permit: None,
  }
}

async fn run(engine: &MemoryEngine, id: &str, cmd: &[&str]) -> (i64, String, String) {
  let output = engine.exec(id, request(cmd)).await.unwrap();
  assert_eq!(output.end, ExecEnd::Finished);
  let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
  (output.exit_code.unwrap(), text(output.stdout), text(output.stderr))
}

fn file_tar(files: &[(&str, &[u8], u32)]) -> Bytes {
  let mut builder = Builder::new(Vec::new());
  for (name, data, mode) in files {
    let mut header = Header::new_gnu();
    header.set_mode(*mode);
    header.set_size(data.len() as u64);
    builder.append_data(&mut header, name, *data).unwrap();
  }
  builder.into_inner().unwrap().into()
}

fn special_tar(name: &[u8], kind: EntryType, link: &[u8]) -> Bytes {
  let mut header = Header::new_gnu();
  header.as_mut_bytes()[..name.len()].copy_from_slice(name);
  header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link);
  header.set_entry_type(kind);
  header.set_mode(0o755);
  header.set_size(0);
  header.set_cksum();
  let mut builder = Builder::new(Vec::new());
  builder.append(&header, std::io::empty()).unwrap();
  builder.into_inner().unwrap().into()
}

async fn put(engine: &MemoryEngine, id: &str, path: &str, tar: Bytes) -> Result<()> {
  engine.put_archive(id, path, ArchiveBody::Bytes(tar)).await
}

async fn get(engine: &MemoryEngine, id: &str, path: &str, max: u64) -> Result<Vec<u8>> {
  let mut stream = engine.get_archive(id, path, max).await?;
  let mut tar = Vec::new();
  while let Some(piece) = stream.next().await {
    tar.extend_from_slice(&piece?);
  }
  Ok(tar)
}

/// Name, type byte, mode, size, link target of each entry.
fn entries(tar: &[u8]) -> Vec<(String, u8, u32, u64, String)> {
  let mut archive = Archive::new(tar);
  let read = |bytes: Option<std::borrow::Cow<'_, [u8]>>| {
    String::from_utf8(bytes.unwrap_or_default().into_owned()).unwrap()
  };
  let each = archive.entries().unwrap().map(|entry| {
    let entry = entry.unwrap();
    let header = entry.header();
    assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (65534, 65533));
    (
      read(Some(entry.path_bytes())),
      header.entry_type().as_byte(),
      header.mode().unwrap(),
      entry.size(),
      read(entry.link_name_bytes()),
    )
  });
  each.collect()
}

fn code(result: Result<impl std::fmt::Debug>) -> ErrorCode {
  result.unwrap_err().code()
}

#[tokio::test]
async fn ids_are_the_same_every_time() {
  for _ in 0..2 {
    let engine = MemoryEngine::default();
    let first = engine.create_container(&spec()).await.unwrap();
    assert_eq!(first, state::digest("container 1"));
    assert_eq!(first.len(), 64);
    assert_eq!(engine.create_network("n").await.unwrap().id, state::digest("network 2"));
  }
  assert_eq!(state::digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[tokio::test]
async fn creating_refuses_what_an_engine_refuses() {
  let engine = MemoryEngine::default();
  let named = |name: &str| ContainerSpec { name: Some(name.to_owned()), ..spec() };
  engine.create_container(&named("run-1")).await.unwrap();
  assert_eq!(code(engine.create_container(&named("run-1")).await), ErrorCode::Conflict);
  assert_eq!(code(engine.create_container(&named("-x")).await), ErrorCode::DockerApi);
  assert_eq!(code(engine.create_container(&named("x")).await), ErrorCode::DockerApi);
  let image = ContainerSpec { image: "nope:1".to_owned(), ..spec() };
  let error = engine.create_container(&image).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::ImageMissing);
  assert!(error.message().starts_with("Image nope:1 is not on the in-memory engine."), "{error}");
  for option in ["size=x", "U", "mode=9", "uid=-1", "notmpcopyup"] {
    let tmpfs = BTreeMap::from([("/workspace".to_owned(), option.to_owned())]);
    assert_eq!(code(engine.create_container(&ContainerSpec { tmpfs, ..spec() }).await), ErrorCode::DockerApi);
  }
  engine.remove_container("run-1").await.unwrap();
  engine.create_container(&named("run-1")).await.unwrap();
}

#[tokio::test]
async fn a_container_lives_and_ends() {
  let engine = MemoryEngine::default();
  let id = engine.create_container(&ContainerSpec { name: Some("box".to_owned()), ..spec() }).await.unwrap();
  assert_eq!(engine.inspect_container(&id).await.unwrap().state.status, "created");
  let error = engine.exec(&id, request(&["true"])).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::DockerApi);
  assert!(error.message().contains("is not running (its state is created)"), "{error}");
  engine.start_container("box").await.unwrap();
  engine.start_container(&id).await.unwrap();
  let found = engine.inspect_container(&id[..12]).await.unwrap();
  assert_eq!((found.id.as_str(), found.name.as_str()), (id.as_str(), "/box"));
  assert_eq!((found.state.running, found.state.status.as_str()), (true, "running"));
  let host = &found.host_config;
  assert_eq!(
    (host.memory, host.memory_swap, host.nano_cpus, host.pids_limit),
    (1 << 28, 1 << 28, 500_000_000, Some(64))
  );
  assert!(host.readonly_rootfs);
  let json: serde_json::Value =
    serde_json::from_str(&engine.inspect_container_json(&id).await.unwrap()).unwrap();
  assert_eq!((&json["Id"], &json["State"]["Running"]), (&id.clone().into(), &true.into()));

  // Process 1 handles no signal, so only SIGKILL ends it.
  engine.kill_container(&id, "TERM").await.unwrap();
  assert!(engine.inspect_container(&id).await.unwrap().state.running);
  assert_eq!(code(engine.kill_container(&id, "NOPE").await), ErrorCode::DockerApi);
  engine.kill_container(&id, "SIGKILL").await.unwrap();
  engine.kill_container(&id, "9").await.unwrap();
  let state = engine.inspect_container(&id).await.unwrap().state;
  assert_eq!((state.running, state.status.as_str(), state.exit_code), (false, "exited", 137));
  let init = engine.create_container(&ContainerSpec { init: true, ..spec() }).await.unwrap();
  engine.start_container(&init).await.unwrap();
  engine.kill_container(&init, "SIGTERM").await.unwrap();
  assert_eq!(engine.inspect_container(&init).await.unwrap().state.exit_code, 143);
  engine.remove_container(&id).await.unwrap();
  assert_eq!(code(engine.remove_container(&id).await), ErrorCode::NotFound);
  assert_eq!(code(engine.inspect_container(&id).await), ErrorCode::NotFound);
  assert_eq!(code(engine.inspect_container("").await), ErrorCode::NotFound);
}

#[tokio::test]
async fn a_stop_loses_the_tmpfs_and_a_commit_leaves_it_out() {
  let engine = MemoryEngine::default();
  let id = engine.create_container(&ContainerSpec { readonly_rootfs: false, ..spec() }).await.unwrap();
  engine.start_container(&id).await.unwrap();
  put(&engine, &id, "/workspace", file_tar(&[("a", b"tmpfs", 0o644)])).await.unwrap();
  put(&engine, &id, "/etc", file_tar(&[("b", b"layer", 0o644)])).await.unwrap();
  let more = BTreeMap::from([("owner".to_owned(), "me".to_owned()), ("run".to_owned(), String::new())]);
  let image = engine.commit_container(&id, "saved", "1", Some(&more)).await.unwrap();
  let found = engine.inspect_image("saved:1").await.unwrap();
  assert_eq!((found.id.as_str(), found.config.labels), (image.as_str(), Some(more)));

  engine.kill_container(&id, "").await.unwrap();
  engine.start_container(&id).await.unwrap();
  assert_eq!(run(&engine, &id, &["ls", "/workspace"]).await, (0, String::new(), String::new()));
  // The space is free again: 64 KiB fit.
  put(&engine, &id, "/workspace", file_tar(&[("full", &[7; 65536], 0o644)])).await.unwrap();

  let copy =
    engine.create_container(&ContainerSpec { image, tmpfs: BTreeMap::new(), ..spec() }).await.unwrap();
  engine.start_container(&copy).await.unwrap();
  assert_eq!(run(&engine, &copy, &["cat", "/etc/b"]).await.1, "layer");
  assert_eq!(run(&engine, &copy, &["ls", "-a", "/workspace"]).await, (0, String::new(), String::new()));
}

#[tokio::test]
async fn lists_match_labels_whole_and_newest_first() {
  let engine = MemoryEngine::default();
  for value in ["run-1", "run-10", "a=b", ""] {
    let labels = BTreeMap::from([("run".to_owned(), value.to_owned())]);
    engine.create_container(&ContainerSpec { labels, ..spec() }).await.unwrap();
  }
  let values = async |label: &str| {
    let listed = engine.list_containers(label).await.unwrap();
    listed.into_iter().map(|container| container.labels["run"].clone()).collect::<Vec<_>>()
  };
  assert_eq!(values("run").await, ["", "a=b", "run-10", "run-1"]);
  assert_eq!(values("run=run-1").await, ["run-1"]);
  assert_eq!(values("run=a=b").await, ["a=b"]);
  assert_eq!(values("run=").await, [""]);
  assert_eq!(values("ru").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_archive_comes_out_as_it_went_in() {
  let (engine, id) = started().await;
  let long = format!("{}/{}", "ü".repeat(60), "漢".repeat(70));
  put(
    &engine,
    &id,
    "/workspace",
    file_tar(&[("src/naïve 漢字.txt", b"x", 0o640), (&long, b"yy", 0o755), ("./src/-rf", b"", 0o600)]),
  )
  .await
  .unwrap();
  put(&engine, &id, "/workspace/src", special_tar(b"link", EntryType::Symlink, b"../nowhere")).await.unwrap();
  put(&engine, &id, "/workspace/src", special_tar(b"pipe", EntryType::Fifo, b"")).await.unwrap();
  put(&engine, &id, "/workspace/src", special_tar(b"hard", EntryType::Link, b"-rf")).await.unwrap();
  let tar = get(&engine, &id, "/workspace", 1 << 20).await.unwrap();
  let row = |name: &str, kind, mode, size, link: &str| (name.to_owned(), kind, mode, size, link.to_owned());
  assert_eq!(
    entries(&tar),
    [
      row("workspace/", b'5', 0o700, 0, ""),
      row("workspace/src/", b'5', 0o755, 0, ""),
      row("workspace/src/-rf", b'0', 0o600, 0, ""),
      row("workspace/src/hard", b'0', 0o600, 0, ""),
      row("workspace/src/link", b'2', 0o777, 0, "../nowhere"),
      row("workspace/src/naïve 漢字.txt", b'0', 0o640, 1, ""),
      row("workspace/src/pipe", b'6', 0o755, 0, ""),
      row(&format!("workspace/{}/", "ü".repeat(60)), b'5', 0o755, 0, ""),
      row(&format!("workspace/{long}"), b'0', 0o755, 2, ""),
    ]
  );
  let one = get(&engine, &id, "/workspace/src/naïve 漢字.txt", 1 << 20).await.unwrap();
  assert_eq!(entries(&one), [row("naïve 漢字.txt", b'0', 0o640, 1, "")]);

  // Exactly as long as it is, and one byte less.
  assert_eq!(get(&engine, &id, "/workspace", tar.len() as u64).await.unwrap(), tar);
  assert_eq!(code(get(&engine, &id, "/workspace", tar.len() as u64 - 1).await), ErrorCode::Limit);
  assert_eq!(code(get(&engine, &id, "/workspace/nope", 1 << 20).await), ErrorCode::NotFound);
  for path in ["", "/", "/workspace/", "/workspace/..", "workspace", "/a\0b"] {
    assert_eq!(code(get(&engine, &id, path, 1 << 20).await), ErrorCode::PathInvalid, "{path:?}");
  }
}

#[tokio::test]
async fn a_stream_in_is_the_same_as_bytes_in() {
  let (engine, id) = started().await;
  let tar = file_tar(&[("a", b"contents", 0o644)]);
  let bytes: Vec<_> = tar.iter().map(|byte| Ok(Bytes::copy_from_slice(&[*byte]))).collect();
  engine.put_archive(&id, "/workspace", ArchiveBody::Stream(stream::iter(bytes).boxed())).await.unwrap();
  assert_eq!(run(&engine, &id, &["cat", "a"]).await.1, "contents");
  let broken: Vec<Result<Bytes>> = vec![Ok(tar.slice(..100)), Err(Error::new(ErrorCode::Internal, "broken"))];
  let sent = engine.put_archive(&id, "/workspace", ArchiveBody::Stream(stream::iter(broken).boxed())).await;
  assert_eq!(code(sent), ErrorCode::Internal);
}

#[tokio::test]
async fn a_tmpfs_holds_what_it_says_and_no_more() {
  let (engine, id) = started().await;
  put(&engine, &id, "/workspace", file_tar(&[("a", &[1; 65536], 0o644)])).await.unwrap();
  put(&engine, &id, "/workspace", file_tar(&[("a", &[2; 65536], 0o644)])).await.unwrap();
  let error = put(&engine, &id, "/workspace", file_tar(&[("a", &[3; 65537], 0o644)])).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::DockerApi);
  assert!(error.message().ends_with("tar: write error: No space left on device"), "{error}");
  // As with a real tar, what fitted is there.
  assert_eq!(entries(&get(&engine, &id, "/workspace/a", 1 << 20).await.unwrap())[0].3, 65536);
  assert_eq!(run(&engine, &id, &["rm", "a"]).await.0, 0);

  // 100 inodes.
  let many = |count: usize| {
    let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
    file_tar(&names.iter().map(|name| (name.as_str(), b"".as_slice(), 0o644)).collect::<Vec<_>>())
  };
  put(&engine, &id, "/workspace", many(100)).await.unwrap();
  let error = put(&engine, &id, "/workspace", many(101)).await.unwrap_err();
  assert!(error.message().ends_with("No space left on device"), "{error}");
  assert_eq!(run(&engine, &id, &["ls"]).await.1.lines().count(), 100);

  let error = put(&engine, &id, "/etc", file_tar(&[("a", b"x", 0o644)])).await.unwrap_err();
  assert!(error.message().ends_with("Read-only file system"), "{error}");
}

#[tokio::test]
async fn hostile_archives_are_errors() {
  let (engine, id) = started().await;
  let good = file_tar(&[("a", &[1; 600], 0o644)]);
  let mut bad = vec![
    special_tar(b"../up", EntryType::Regular, b""),
    special_tar(b"a/../../up", EntryType::Directory, b""),
    special_tar(b"h", EntryType::Link, b"../../etc/passwd"),
    special_tar(b"s", EntryType::Symlink, b""),
    special_tar(b"dev", EntryType::Char, b""),
    special_tar(b"sparse", EntryType::GNUSparse, b""),
    Bytes::from_static(&[b'x'; 1024]),
  ];
  bad.extend([1, 511, 513, 1023].map(|cut| good.slice(..cut)));
  for tar in bad {
    let error = put(&engine, &id, "/workspace", tar.clone()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::DockerApi, "{error}");
  }
  for path in ["/workspace/nope", "/workspace/a"] {
    let error = put(&engine, &id, path, good.clone()).await.unwrap_err();
    assert!(error.message().contains("can't change directory"), "{error}");
    put(&engine, &id, "/workspace", good.clone()).await.unwrap();
  }
  let error = put(&engine, &id, "/", file_tar(&[("workspace", b"", 0o644)])).await.unwrap_err();
  assert!(error.message().ends_with("can't remove old file workspace: Is a directory"), "{error}");
  let deep = "d/".repeat(600) + "f";
  assert!(put(&engine, &id, "/workspace", file_tar(&[(&deep, b"", 0o644)])).await.is_err());
}

#[tokio::test]
async fn paths_resolve_as_in_a_real_container() {
  let (engine, id) = started().await;
  put(&engine, &id, "/workspace", file_tar(&[("a/b/c", b"", 0o644)])).await.unwrap();
  for (name, target) in [("up", "../a"), ("abs", "/workspace/a/b"), ("loop", "loop"), ("dangling", "x")] {
    put(&engine, &id, "/workspace/a", special_tar(name.as_bytes(), EntryType::Symlink, target.as_bytes()))
      .await
      .unwrap();
  }
  for (path, resolved) in [
    ("/", "/"),
    ("/workspace/", "/workspace"),
    ("/workspace//a/./b/c", "/workspace/a/b/c"),
    ("/workspace/a/up/up/b/..", "/workspace/a"),
    ("/workspace/a/abs/c", "/workspace/a/b/c"),
    ("/../..", "/"),
  ] {
    assert_eq!(engine.realpath(&id, path).await.unwrap(), resolved, "{path}");
  }
  for path in
    ["/nope", "/workspace/a/b/c/", "/workspace/a/b/c/.", "/workspace/a/loop", "/workspace/a/dangling"]
  {
    assert_eq!(code(engine.realpath(&id, path).await), ErrorCode::NotFound, "{path}");
  }
  assert_eq!(code(engine.realpath(&id, "workspace").await), ErrorCode::PathInvalid);
}

#[tokio::test]
async fn commands_say_what_busybox_says() {
  let (engine, id) = started().await;
  put(
    &engine,
    &id,
    "/workspace",
    file_tar(&[("d/f", b"one\n", 0o644), (".h", b"", 0o644), ("x", b"#!", 0o755)]),
  )
  .await
  .unwrap();
  let not_found = "OCI runtime exec failed: exec failed: unable to start container process: exec: \"nope\": executable file not found in $PATH: unknown\r\n";
  let cases: &[(&[&str], i64, &str, &str)] = &[
    (&["echo", "a", " b"], 0, "a  b\n", ""),
    (&["/bin/echo", "-n", "ü"], 0, "ü", ""),
    (&["/usr/bin/printf", "%s=%d\\n", "a", "1", "b", "2"], 0, "a=1\nb=2\n", ""),
    (&["printf", "100%%\\t\\x"], 0, "100%\t\\x", ""),
    (&["printf", "plain", "unused"], 0, "plain", ""),
    (&["true"], 0, "", ""),
    (&["false"], 1, "", ""),
    (&["pwd"], 0, "/workspace\n", ""),
    (&["env"], 0, "HOME=/workspace\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", ""),
    (&["ls"], 0, "d\nx\n", ""),
    (&["ls", "-A", "d", "x"], 0, "d:\nf\nx\n", ""),
    (&["ls", "nope"], 1, "", "ls: nope: No such file or directory\n"),
    (&["cat", "d/f", "/workspace/d/f"], 0, "one\none\n", ""),
    (&["cat", "d"], 1, "", "cat: read error: Is a directory\n"),
    (&["cat", "x/y"], 1, "", "cat: can't open 'x/y': Not a directory\n"),
    (&["cat", "nope", "x"], 1, "#!", "cat: can't open 'nope': No such file or directory\n"),
    (&["sleep", "x"], 1, "", "sleep: invalid number 'x'\n"),
    (&["sleep", "0"], 0, "", ""),
    (&["mkdir", "d"], 1, "", "mkdir: can't create directory 'd': File exists\n"),
    (&["mkdir", "-p", "d/e/g"], 0, "", ""),
    (&["mv", "x", "d/e/g"], 0, "", ""),
    (&["mv", "-f", "-T", "--", "d/e/g/x", "d"], 1, "", "mv: can't rename 'd/e/g/x': Is a directory\n"),
    (&["mv", "d", "d/e"], 1, "", "mv: can't rename 'd': Invalid argument\n"),
    (&["mv", "d/f", "/etc"], 1, "", "mv: can't rename 'd/f': Invalid cross-device link\n"),
    (&["rm", "d"], 1, "", "rm: can't remove 'd': Is a directory\n"),
    (&["rm", "-f", "nope"], 0, "", ""),
    (&["rm", "-r", "d"], 0, "", ""),
    (&["rm", "-rf", "/workspace"], 1, "", "rm: can't remove '/workspace': Device or resource busy\n"),
    (&["ls", "-a"], 0, ".h\n", ""),
    (&["nope"], 127, not_found, ""),
  ];
  for (cmd, code, stdout, stderr) in cases {
    let wanted = (*code, (*stdout).to_owned(), (*stderr).to_owned());
    assert_eq!(run(&engine, &id, cmd).await, wanted, "{cmd:?}");
  }
  let ends = async |cmd: &[&str]| run(&engine, &id, cmd).await.0;
  assert_eq!(ends(&["sh", "-c", "true"]).await, 127);
  assert_eq!(ends(&["/workspace/nope"]).await, 127);
  assert_eq!(ends(&["/workspace/.h"]).await, 126);
  let mut nowhere = request(&["true"]);
  nowhere.working_dir = "/nope".to_owned();
  let output = engine.exec(&id, nowhere).await.unwrap();
  assert_eq!(output.exit_code, Some(126));
  assert!(String::from_utf8_lossy(&output.stdout).contains("chdir to cwd (\"/nope\")"));
  assert_eq!(code(engine.exec(&id, request(&[])).await), ErrorCode::DockerApi);
}

#[tokio::test]
async fn cat_reads_what_it_is_given() {
  let (engine, id) = started().await;
  let pieces = |pieces: Vec<Result<Bytes>>| Stdin::Stream(stream::iter(pieces).boxed());
  let cases = [
    (Stdin::Empty, ""),
    (Stdin::Bytes(Bytes::from_static(b"abc")), "abc"),
    (pieces(vec![Ok(Bytes::from_static(b"a")), Ok(Bytes::from_static(b"bc"))]), "abc"),
  ];
  for (stdin, wanted) in cases {
    let output = engine.exec(&id, ExecRequest { stdin, ..request(&["cat"]) }).await.unwrap();
    assert_eq!((output.exit_code, output.stdout.as_slice()), (Some(0), wanted.as_bytes()));
  }
  let broken = pieces(vec![Ok(Bytes::from_static(b"a")), Err(Error::new(ErrorCode::Internal, "broken"))]);
  assert_eq!(
    code(engine.exec(&id, ExecRequest { stdin: broken, ..request(&["cat"]) }).await),
    ErrorCode::Internal
  );
}

#[tokio::test]
async fn output_is_cut_one_past_the_cap() {
  let (engine, id) = started().await;
  let mut outputs = Vec::new();
  for size in [1000, 1001] {
    let stdin = Stdin::Bytes(vec![b'x'; size].into());
    outputs.push(engine.exec(&id, ExecRequest { stdin, ..request(&["cat"]) }).await.unwrap());
  }
  let endless = Stdin::Stream(stream::repeat_with(|| Ok(Bytes::from_static(&[b'y'; 300]))).boxed());
  outputs.push(engine.exec(&id, ExecRequest { stdin: endless, ..request(&["cat"]) }).await.unwrap());
  let seen: Vec<_> =
    outputs.iter().map(|output| (output.end, output.exit_code, output.stdout.len())).collect();
  assert_eq!(
    seen,
    [
      (ExecEnd::Finished, Some(0), 1000),
      (ExecEnd::Truncated, Some(137), 1000),
      (ExecEnd::Truncated, Some(137), 1000)
    ]
  );
}

#[tokio::test(start_paused = true)]
async fn a_sleep_ends_by_itself_by_time_limit_by_cancellation_and_with_its_container() {
  let (engine, id) = started().await;
  let start = Instant::now();
  assert_eq!(run(&engine, &id, &["sleep", "0.5", "0.1m"]).await.0, 0);
  assert_eq!(start.elapsed().as_millis(), 6500);
  let output = engine.exec(&id, request(&["sleep", "1d"])).await.unwrap();
  assert_eq!((output.end, output.exit_code), (ExecEnd::TimedOut, Some(137)));
  assert_eq!(start.elapsed().as_millis(), 16_500);

  let long = request(&["sleep", "9"]);
  let cancel = long.cancel.clone();
  let after = async {
    tokio::time::sleep(Duration::from_secs(1)).await;
    cancel.cancel();
  };
  let (ended, ()) = tokio::join!(engine.exec(&id, long), after);
  assert_eq!(code(ended), ErrorCode::Cancelled);
  assert_eq!(start.elapsed().as_millis(), 17_500);
  let mut before = request(&["true"]);
  before.cancel = cancel.clone();
  assert_eq!(code(engine.exec(&id, before).await), ErrorCode::Cancelled);

  for (remove, wanted) in [(false, Ok(Some(137))), (true, Err(ErrorCode::NotFound))] {
    engine.start_container(&id).await.unwrap();
    let end = async {
      tokio::time::sleep(Duration::from_secs(1)).await;
      if remove { engine.remove_container(&id).await } else { engine.kill_container(&id, "KILL").await }
    };
    let (ended, killed) = tokio::join!(engine.exec(&id, request(&["sleep", "9"])), end);
    killed.unwrap();
    assert_eq!(ended.map(|output| output.exit_code).map_err(|error| error.code()), wanted);
  }
}

#[tokio::test]
async fn images_come_and_go() {
  let engine = MemoryEngine::default();
  let alpine = engine.inspect_image("alpine:3.21").await.unwrap();
  assert_eq!(alpine.id, format!("sha256:{}", state::digest("image alpine:3.21")));
  assert_eq!(alpine.repo_digests, Some(vec![format!("alpine@{}", alpine.id)]));
  for name in ["docker.io/library/alpine:3.21", "docker.io/alpine:3.21", &alpine.id, &alpine.id[7..19]] {
    assert_eq!(engine.inspect_image(name).await.unwrap().id, alpine.id, "{name}");
  }
  assert_eq!(code(engine.inspect_image("localhost:5000/mine").await), ErrorCode::NotFound);
  engine.pull_image("localhost:5000/mine", &|_progress| (), &Cancel::new()).await.unwrap();
  let mine = engine.inspect_image("localhost:5000/mine:latest").await.unwrap();
  engine.remove_image(&mine.id).await.unwrap();
  assert_eq!(code(engine.remove_image(&mine.id).await), ErrorCode::NotFound);
  let cancelled = Cancel::new();
  cancelled.cancel();
  assert_eq!(code(engine.pull_image("other", &|_progress| (), &cancelled).await), ErrorCode::Cancelled);
  assert_eq!(code(engine.inspect_image("other").await), ErrorCode::NotFound);
}

#[tokio::test]
async fn networks_come_and_go() {
  let engine = MemoryEngine::default();
  let network = engine.create_network("run-net").await.unwrap();
  assert_eq!(network.gateway.as_deref(), Some("127.0.0.1"));
  assert_eq!(code(engine.create_network("run-net").await), ErrorCode::Conflict);
  let on = |network_mode: &str| ContainerSpec { network_mode: network_mode.to_owned(), ..spec() };
  let lost = engine.create_container(&on("other")).await.unwrap();
  assert_eq!(code(engine.start_container(&lost).await), ErrorCode::NotFound);
  let id = engine.create_container(&on("run-net")).await.unwrap();
  engine.start_container(&id).await.unwrap();
  assert_eq!(code(engine.remove_network(&network.id).await), ErrorCode::DockerApi);
  engine.remove_container(&id).await.unwrap();
  engine.remove_network(&network.id).await.unwrap();
  assert_eq!(code(engine.remove_network("run-net").await), ErrorCode::NotFound);
}

#[tokio::test]
async fn the_nth_call_fails_and_changes_nothing() {
  let json = r#"{"images":["tiny"],"fail":[
    {"method":"createContainer","nth":2,"code":"CONFLICT","message":"taken"},
    {"method":"inspectContainer","nth":1}]}"#;
  let engine = MemoryEngine::new(MemoryOptions::from_json(json).unwrap());
  let tiny = ContainerSpec { image: "tiny:latest".to_owned(), ..spec() };
  assert_eq!(code(engine.create_container(&spec()).await), ErrorCode::ImageMissing);
  let error = engine.create_container(&tiny).await.unwrap_err();
  assert_eq!((error.code(), error.message()), (ErrorCode::Conflict, "taken"));
  assert_eq!(engine.list_containers("run").await.unwrap(), []);
  let id = engine.create_container(&tiny).await.unwrap();
  let error = engine.inspect_container_json(&id).await.unwrap_err();
  assert_eq!(error.code(), ErrorCode::DockerApi);
  assert_eq!(error.message(), "The in-memory client was told to fail call 1 of inspectContainer.");
  engine.inspect_container(&id).await.unwrap();
}

#[test]
fn options_are_checked() {
  assert_eq!(MemoryOptions::from_json("{}").unwrap(), MemoryOptions::default());
  for (json, named) in [
    ("", "options of the in-memory client"),
    ("[1]", "options of the in-memory client"),
    (r#"{"image":[]}"#, "unknown field `image`"),
    (r#"{"images":[""]}"#, "Option images"),
    (r#"{"fail":[{"method":"exec","nth":1,"often":2}]}"#, "unknown field `often`"),
    (r#"{"fail":[{"method":"exec","nth":1.5}]}"#, "expected u32"),
    (r#"{"fail":[{"method":"exec","nth":-1}]}"#, "expected u32"),
    (r#"{"fail":[{"method":"exec","nth":0}]}"#, "Option fail[0].nth is 0"),
    (
      r#"{"fail":[{"method":"exec","nth":1},{"method":"Exec","nth":1}]}"#,
      "Option fail[1].method is \"Exec\"",
    ),
    (r#"{"fail":[{"method":"exec","nth":1,"code":"NO"}]}"#, "Option fail[0].code is \"NO\""),
  ] {
    let error = MemoryOptions::from_json(json).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConfigInvalid);
    assert!(error.message().contains(named), "{json}: {error}");
  }
}

#[tokio::test]
async fn nothing_is_enforced() {
  let engine = MemoryEngine::default();
  let info = engine.info().await.unwrap();
  assert_eq!(engine.kind(), EngineKind::Memory);
  assert_eq!(
    (info.memory_limit, info.swap_limit, info.pids_limit, info.cpu_cfs_quota),
    (false, false, false, false)
  );
  assert_eq!(info.security_options, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_share_one_engine() {
  let engine = Arc::new(MemoryEngine::default());
  let tasks: Vec<_> = (0..32)
    .map(|number| {
      let engine = Arc::clone(&engine);
      tokio::spawn(async move {
        let id = engine.create_container(&spec()).await.unwrap();
        engine.start_container(&id).await.unwrap();
        let name = format!("f{number}");
        put(&engine, &id, "/workspace", file_tar(&[(&name, b"x", 0o644)])).await.unwrap();
        assert_eq!(run(&engine, &id, &["ls"]).await.1, format!("{name}\n"));
        id
      })
    })
    .collect();
  let mut ids = BTreeSet::new();
  for task in tasks {
    ids.insert(task.await.unwrap());
  }
  assert_eq!(ids.len(), 32);
  assert_eq!(engine.list_containers("run=run-1").await.unwrap().len(), 32);
}
