use serde_json::{Value, json};

use super::*;
use crate::docker::EngineKind;
use crate::error::{Error, ErrorCode};

/// The smallest options, with these added or replaced.
fn with(extra: Value) -> Value {
  let mut options = json!({ "workspace": { "id": "repo" } });
  let (Value::Object(options_map), Value::Object(extra)) = (&mut options, extra) else {
    panic!("not objects")
  };
  options_map.extend(extra);
  options
}

fn read(options: &Value) -> Result<Options, Error> {
  Options::from_json(options, &[Bytes::from_static(b"# title\n")], EngineKind::Node)
}

#[track_caller]
fn good(extra: Value) -> Options {
  read(&with(extra)).unwrap()
}

#[track_caller]
fn bad(extra: Value, message: &str) {
  let error = read(&with(extra)).unwrap_err();
  assert_eq!((error.code(), error.message()), (ErrorCode::ConfigInvalid, message));
}

#[track_caller]
fn later(extra: Value, message: &str) {
  let error = read(&with(extra)).unwrap_err();
  assert_eq!((error.code(), error.message()), (ErrorCode::Unsupported, message));
}

fn files(paths: &[&str]) -> Value {
  paths.iter().map(|path| json!({ "path": path, "contents": "x" })).collect()
}

#[test]
fn defaults_are_the_reference_profile() {
  let options = good(json!({}));
  assert_eq!(options.id, "docker-sandbox");
  assert_eq!(options.version, None);
  assert_eq!(options.image, "alpine:3.21");
  assert_eq!(options.pull, Pull::Missing);
  assert_eq!(options.runtime, None);
  assert_eq!(options.user.to_string(), "65534:65534");
  assert_eq!(options.workspace.id, "repo");
  assert!(!options.workspace.exec);
  assert_eq!(options.socket_path, None);
}

#[test]
fn default_bounds_and_permissions_are_the_reference_profile() {
  let options = good(json!({}));
  assert_eq!(options.tmp_mb, None);
  assert_eq!(options.shell, ShellPolicy::Deny);
  assert_eq!(options.network, NetworkPolicy::Deny);
  assert_eq!(
    options.limits,
    Limits {
      memory_mb: 256,
      cpus: 0.5,
      pids: 64,
      command_timeout: Duration::from_secs(10),
      max_output_bytes: 1_048_576,
      max_file_bytes: 1_048_576,
      max_workspace_bytes: 67_108_864,
      max_concurrent_processes: 8,
    }
  );
  assert!(options.env.is_empty());
  assert_eq!(options.lease, Duration::from_secs(900));
  assert_eq!(options.assurance, Assurance::Enforced);
  assert_eq!(options.undeclared_tools, UndeclaredTools::Deny);
  assert!(options.declared_tools.is_empty());
  assert_eq!(options.owner_id, None);
  assert_eq!(options.transport, Transport::Auto);
}

/// Every option with a value that is not its default.
fn everything() -> Options {
  read(&json!({
    "id": "env", "version": "2", "image": "ghcr.io/a/b@sha256:00", "pull": "never", "runtime": "runsc", "user": "1000:100",
    "workspace": {
      "id": "w", "directories": ["src/./deep", "out/"], "exec": true,
      "files": [{ "path": "./README.md", "contents": { "$blob": 0 }, "mode": 384 }, { "path": "src/a", "contents": "" }],
      "source": { "root": "/host/repo", "include": ["src/**/*.ts", "package.json"] },
    },
    "tmp": { "sizeMb": 16 }, "shell": { "allow": ["ls", "echo", "ls"] }, "network": { "mode": "deny" },
    "limits": {
      "memoryMb": 512, "cpus": 2, "pids": 128, "commandTimeoutMs": 1, "maxOutputBytes": 2, "maxFileBytes": 8,
      "maxWorkspaceBytes": 8192, "maxConcurrentProcesses": 3,
    },
    "env": { "PATH": "/usr/bin:/bin", "EMPTY": "" }, "leaseMs": 1000.0, "snapshot": "tar", "assurance": "best-effort",
    "undeclaredTools": "allow", "declaredTools": ["b", "a"], "ownerId": "me", "socketPath": "/run/d.sock",
    "transport": "exec",
  }))
  .unwrap()
}

#[test]
fn identity_options_are_read() {
  let options = everything();
  assert_eq!((options.id.as_str(), options.version.as_deref()), ("env", Some("2")));
  assert_eq!((options.image.as_str(), options.pull), ("ghcr.io/a/b@sha256:00", Pull::Never));
  assert_eq!((options.runtime.as_deref(), options.user), (Some("runsc"), User { uid: 1000, gid: 100 }));
  assert_eq!(options.owner_id.as_deref(), Some("me"));
  assert_eq!(options.socket_path, Some(PathBuf::from("/run/d.sock")));
}

#[test]
fn the_workspace_is_read() {
  let workspace = everything().workspace;
  let directories: Vec<&str> = workspace.directories.iter().map(WorkspacePath::as_str).collect();
  assert_eq!(directories, ["src/deep", "out"]);
  assert!(workspace.exec);
  assert_eq!(workspace.files[0].path.as_str(), "README.md");
  assert_eq!((&workspace.files[0].contents[..], workspace.files[0].mode), (&b"# title\n"[..], 0o600));
  assert_eq!((workspace.files[1].contents.len(), workspace.files[1].mode), (0, 0o644));
  let source = workspace.source.as_ref().unwrap();
  assert_eq!(source.root, PathBuf::from("/host/repo"));
  assert_eq!(source.include, ["src/**/*.ts", "package.json"]);
}

#[test]
fn bounds_and_permissions_are_read() {
  let options = everything();
  assert_eq!(options.tmp_mb, Some(16));
  assert_eq!(options.shell, ShellPolicy::List(vec!["echo".into(), "ls".into()]));
  assert_eq!(
    options.limits,
    Limits {
      memory_mb: 512,
      cpus: 2.0,
      pids: 128,
      command_timeout: Duration::from_millis(1),
      max_output_bytes: 2,
      max_file_bytes: 8,
      max_workspace_bytes: 8192,
      max_concurrent_processes: 3,
    }
  );
  assert_eq!(
    options.env,
    BTreeMap::from([("EMPTY".into(), String::new()), ("PATH".into(), "/usr/bin:/bin".into())])
  );
  assert_eq!(options.lease, Duration::from_secs(1));
  assert_eq!(options.assurance, Assurance::BestEffort);
  assert_eq!(options.undeclared_tools, UndeclaredTools::Allow);
  assert_eq!(options.declared_tools, ["a", "b"]);
  assert_eq!(options.transport, Transport::Exec);
}

#[test]
fn unknown_keys_are_named_with_what_was_meant() {
  bad(
    json!({ "limits": { "memoryMB": 1 } }),
    "Option limits.memoryMB is not known; did you mean limits.memoryMb?",
  );
  bad(json!({ "sheell": "deny" }), "Option sheell is not known; did you mean shell?");
  bad(
    json!({ "workspace": { "id": "a", "file": [] } }),
    "Option workspace.file is not known; did you mean workspace.files?",
  );
  bad(
    json!({ "workspace": { "id": "a", "files": [{ "path": "a", "contents": "", "chmod": 1 }] } }),
    "Option workspace.files[0].chmod is not known; known are workspace.files[0].path, workspace.files[0].contents, workspace.files[0].mode.",
  );
  bad(json!({ "tmp": { "size": 1 } }), "Option tmp.size is not known; did you mean tmp.sizeMb?");
  bad(json!({ "shell": { "allowed": [] } }), "Option shell.allowed is not known; did you mean shell.allow?");
  bad(
    json!({ "network": { "mode": "deny", "allowedPorts": [443] } }),
    "Option network.allowedPorts is not known; known are network.mode.",
  );
  bad(
    json!({ "limits": { "x\n": 1, } }),
    &format!(
      "Option limits.x\u{fffd} is not known; known are {}.",
      "limits.memoryMb, limits.cpus, limits.pids, limits.commandTimeoutMs, limits.maxOutputBytes, limits.maxFileBytes, limits.maxWorkspaceBytes, limits.maxConcurrentProcesses"
    ),
  );
}

#[test]
fn wrong_types_are_named() {
  let error = read(&json!(null)).unwrap_err();
  assert_eq!(error.message(), "The options argument was null; it must be an object.");
  let error = read(&json!({})).unwrap_err();
  assert_eq!(error.message(), "Option workspace was missing; it must be an object.");
  bad(json!({ "workspace": [] }), "Option workspace was an array of 0 items; it must be an object.");
  bad(
    json!({ "workspace": {} }),
    "Option workspace.id was missing; it must be a text of 1 to 512 bytes without control characters.",
  );
  bad(json!({ "limits": "all" }), "Option limits was \"all\"; it must be an object.");
  bad(json!({ "pull": true }), "Option pull was true; it must be \"missing\" or \"never\" or \"always\".");
  bad(json!({ "snapshot": "zip" }), "Option snapshot was \"zip\"; it must be \"tar\" or \"docker-commit\".");
  bad(
    json!({ "transport": "tcp" }),
    "Option transport was \"tcp\"; it must be \"auto\" or \"resident\" or \"exec\".",
  );
  bad(json!({ "network": {} }), "Option network.mode was missing; it must be \"deny\" or \"allowlist\".");
  bad(
    json!({ "assurance": { "$invalid": "a function" } }),
    "Option assurance was a function; it must be \"enforced\" or \"best-effort\".",
  );
  bad(
    json!({ "workspace": { "$invalid": "an object of class Map" } }),
    "Option workspace was an object of class Map; it must be an object.",
  );
  bad(json!({ "undeclaredTools": 1 }), "Option undeclaredTools was 1; it must be \"deny\" or \"allow\".");
  bad(
    json!({ "shell": "sometimes" }),
    "Option shell was \"sometimes\"; it must be \"deny\", \"allow\" or { allow: [names of commands] }.",
  );
  bad(json!({ "shell": {} }), "Option shell.allow was missing; it must be a list of names of commands.");
  bad(
    json!({ "workspace": { "id": "w", "exec": 1 } }),
    "Option workspace.exec was 1; it must be true or false.",
  );
  bad(
    json!({ "tmp": {} }),
    "Option tmp.sizeMb was missing; it must be a whole number from 1 to 16777216 (MiB).",
  );
  bad(
    json!({ "socketPath": "" }),
    "Option socketPath was an empty string; it must be the path of a Docker engine's unix socket.",
  );
}

#[test]
fn numbers_are_whole_finite_and_in_range() {
  let cases = [
    ("memoryMb", json!(5), "5", "a whole number from 6 to 16777216 (MiB)"),
    ("memoryMb", json!(256.5), "256.5", "a whole number from 6 to 16777216 (MiB)"),
    ("memoryMb", json!("256"), "\"256\"", "a whole number from 6 to 16777216 (MiB)"),
    ("memoryMb", json!(16_777_217), "16777217", "a whole number from 6 to 16777216 (MiB)"),
    ("memoryMb", json!(null), "null", "a whole number from 6 to 16777216 (MiB)"),
    ("memoryMb", json!({ "$invalid": "NaN" }), "NaN", "a whole number from 6 to 16777216 (MiB)"),
    ("cpus", json!(0), "0", "a number from 0.01 to 1024"),
    ("cpus", json!(0.009), "0.009", "a number from 0.01 to 1024"),
    ("cpus", json!(1024.5), "1024.5", "a number from 0.01 to 1024"),
    ("cpus", json!({ "$invalid": "Infinity" }), "Infinity", "a number from 0.01 to 1024"),
    ("pids", json!(7), "7", "a whole number from 8 to 4194304 (processes)"),
    ("pids", json!(-1), "-1", "a whole number from 8 to 4194304 (processes)"),
    ("pids", json!(4_194_305), "4194305", "a whole number from 8 to 4194304 (processes)"),
    ("commandTimeoutMs", json!(0), "0", "a whole number from 1 to 86400000 (ms)"),
    ("commandTimeoutMs", json!(86_400_001), "86400001", "a whole number from 1 to 86400000 (ms)"),
    ("maxOutputBytes", json!(0), "0", "a whole number from 1 to 268435456 (bytes)"),
    ("maxOutputBytes", json!(1e21), "1e+21", "a whole number from 1 to 268435456 (bytes)"),
    ("maxFileBytes", json!(268_435_457), "268435457", "a whole number from 1 to 268435456 (bytes)"),
    ("maxWorkspaceBytes", json!(0), "0", "a whole number from 1 to 17592186044416 (bytes)"),
    ("maxConcurrentProcesses", json!(0), "0", "a whole number from 1 to 1024 (commands)"),
    ("maxConcurrentProcesses", json!(65), "65", "at most limits.pids, which is 64"),
  ];
  for (name, value, was, may) in cases {
    bad(json!({ "limits": { name: value } }), &format!("Option limits.{name} was {was}; it must be {may}."));
  }
  bad(json!({ "leaseMs": 0 }), "Option leaseMs was 0; it must be a whole number from 1 to 31536000000 (ms).");
  bad(
    json!({ "leaseMs": 31_536_000_001u64 }),
    "Option leaseMs was 31536000001; it must be a whole number from 1 to 31536000000 (ms).",
  );
}

#[test]
fn numbers_at_the_limits_are_taken() {
  let limits = |limits: Value| good(json!({ "limits": limits })).limits;
  assert_eq!(limits(json!({ "memoryMb": 6, "maxWorkspaceBytes": 6_291_455 })).max_workspace_bytes, 6_291_455);
  assert_eq!(limits(json!({ "memoryMb": 16_777_216 })).memory_mb, 16_777_216);
  assert_eq!(limits(json!({ "cpus": 0.01 })).cpus, 0.01);
  assert_eq!(limits(json!({ "cpus": 1024 })).cpus, 1024.0);
  assert_eq!(limits(json!({ "pids": 4_194_304 })).pids, 4_194_304);
  assert_eq!(limits(json!({ "commandTimeoutMs": 86_400_000 })).command_timeout, Duration::from_secs(86_400));
  assert_eq!(limits(json!({ "maxFileBytes": 268_435_456 })).max_file_bytes, 268_435_456);
}

#[test]
fn concurrent_commands_follow_the_process_limit() {
  let concurrent = |pids: u32| good(json!({ "limits": { "pids": pids } })).limits.max_concurrent_processes;
  assert_eq!([8, 15, 16, 63, 64, 512].map(concurrent), [1, 1, 2, 7, 8, 8]);
}

#[test]
fn root_is_refused_in_both_places() {
  let may = "\"uid\" or \"uid:gid\", each a whole number from 1 to 2147483646 without leading zeros (root is refused)";
  for user in [
    "0",
    "0:5",
    "5:0",
    "0:0",
    "root",
    "nobody",
    "-1",
    "1:-1",
    "+5",
    "007",
    "1:",
    ":1",
    "1:2:3",
    " 1",
    "1 ",
    "1.0",
    "2147483647",
    "1:2147483647",
    "4294967296",
    "١",
  ] {
    bad(json!({ "user": user }), &format!("Option user was {user:?}; it must be {may}."));
  }
  bad(json!({ "user": "" }), &format!("Option user was an empty string; it must be {may}."));
  bad(json!({ "user": 1000 }), &format!("Option user was 1000; it must be {may}."));
  assert_eq!(good(json!({ "user": "5" })).user, User { uid: 5, gid: 5 });
  assert_eq!(good(json!({ "user": "2147483646:1" })).user, User { uid: 2_147_483_646, gid: 1 });
}

#[test]
fn paths_stay_inside_and_are_told() {
  let directory = |path: &str| json!({ "workspace": { "id": "w", "directories": ["ok", path] } });
  let relative = "it must be a path relative to the workspace.";
  bad(directory("/etc"), &format!("Option workspace.directories[1] was \"/etc\"; {relative}"));
  bad(
    directory("/workspace/a"),
    &format!("Option workspace.directories[1] was \"/workspace/a\"; {relative}"),
  );
  bad(
    directory("a/../b"),
    "Option workspace.directories[1] was refused: Path \"a/../b\" contains \"..\"; name the place directly.",
  );
  bad(
    directory("a\0"),
    "Option workspace.directories[1] was refused: Path \"a\\0\" contains a NUL byte; use a plain path below /workspace.",
  );
  let file = |path: &str| json!({ "workspace": { "id": "w", "files": files(&[path]) } });
  bad(file("/a"), &format!("Option workspace.files[0].path was \"/a\"; {relative}"));
  bad(
    file("../a"),
    "Option workspace.files[0].path was refused: Path \"../a\" contains \"..\"; name the place directly.",
  );
  for root in [".", "./", "a/"] {
    bad(
      file(root),
      &format!(
        "Option workspace.files[0].path was {root:?}; it must be the path of a file, relative to the workspace."
      ),
    );
  }
  bad(
    json!({ "workspace": { "id": "w", "source": { "root": "/r", "include": ["a", "../b"] } } }),
    "Option workspace.source.include[1] was \"../b\"; it must be a path or glob relative to workspace.source.root, without \"..\".",
  );
  bad(
    json!({ "workspace": { "id": "w", "source": { "root": "/r", "include": ["/b"] } } }),
    "Option workspace.source.include[0] was \"/b\"; it must be a path or glob relative to workspace.source.root, without \"..\".",
  );
  bad(
    json!({ "workspace": { "id": "w", "source": { "root": "/r" } } }),
    "Option workspace.source.include was missing; it must be an array of paths or globs below workspace.source.root.",
  );
  bad(
    json!({ "workspace": { "id": "w", "source": { "root": "", "include": [] } } }),
    "Option workspace.source.root was an empty string; it must be the path of a directory of this host.",
  );
}

#[test]
fn a_path_is_one_thing() {
  let tree = |directories: &[&str], paths: &[&str]| json!({ "workspace": { "id": "w", "directories": directories, "files": files(paths) } });
  bad(
    tree(&[], &["a/b", "a//./b"]),
    "Option workspace.files[1].path was a/b, which workspace.files[0] is already; each file must be named once.",
  );
  bad(
    tree(&["x", "a"], &["a"]),
    "Option workspace.directories[1] needs a directory a, which workspace.files[0] makes a file; a path must be one or the other.",
  );
  bad(
    tree(&["a/b/c"], &["a/b"]),
    "Option workspace.directories[0] needs a directory a/b, which workspace.files[0] makes a file; a path must be one or the other.",
  );
  bad(
    tree(&["a"], &["a/b/c", "a/b"]),
    "Option workspace.files[0].path needs a directory a/b, which workspace.files[1] makes a file; a path must be one or the other.",
  );
  good(tree(&["a", "a", "a/b", "."], &["a/b/c", "a/d", "ab"]));
}

#[test]
fn contents_must_fit() {
  let sized = |limits: Value, contents: &[&str]| {
    let files: Vec<Value> = contents
      .iter()
      .enumerate()
      .map(|(i, text)| json!({ "path": format!("f{i}"), "contents": text }))
      .collect();
    json!({ "limits": limits, "workspace": { "id": "w", "files": files } })
  };
  good(sized(json!({ "maxFileBytes": 5 }), &["12345"]));
  bad(
    sized(json!({ "maxFileBytes": 4 }), &["1", "12345"]),
    "Option workspace.files[1].contents (f1) was 5 bytes; it must be at most limits.maxFileBytes, which is 4.",
  );
  good(sized(json!({ "maxWorkspaceBytes": 5 }), &["12345"]));
  bad(
    sized(json!({ "maxWorkspaceBytes": 4 }), &["12345"]),
    "Option workspace.files was 5 bytes, 1 pages of 4096; it must fit into limits.maxWorkspaceBytes, which is 4.",
  );
  good(sized(json!({ "maxWorkspaceBytes": 8192 }), &["1", "2", ""]));
  bad(
    sized(json!({ "maxWorkspaceBytes": 8192 }), &["1", "2", "3"]),
    "Option workspace.files was 3 bytes, 3 pages of 4096; it must fit into limits.maxWorkspaceBytes, which is 8192.",
  );
  let wrong = |contents: Value, was: &str| {
    bad(
      json!({ "workspace": { "id": "w", "files": [{ "path": "a", "contents": contents }] } }),
      &format!("Option workspace.files[0].contents was {was}; it must be a string or a Uint8Array."),
    );
  };
  wrong(json!({ "$blob": 1 }), "an object");
  wrong(json!({ "$blob": -1 }), "an object");
  wrong(json!([1, 2]), "an array of 2 items");
  wrong(json!({ "$invalid": "a symbol" }), "a symbol");
}

#[test]
fn the_tree_must_fit() {
  let directories = |count: usize| -> Vec<String> { (0..count).map(|i| format!("d{i}")).collect() };
  let options = |count| json!({ "limits": { "maxWorkspaceBytes": 4096 }, "workspace": { "id": "w", "directories": directories(count) } });
  assert_eq!(good(options(1023)).limits.workspace_inodes(), 1024);
  bad(
    options(1024),
    "Option workspace names 1025 files and directories; a workspace of 4096 bytes (limits.maxWorkspaceBytes) holds at most 1024.",
  );
  assert_eq!(good(json!({})).limits.workspace_inodes(), 16_384);
}

#[test]
fn workspace_and_tmp_are_below_the_memory() {
  bad(
    json!({ "limits": { "memoryMb": 64 } }),
    "Option limits.maxWorkspaceBytes was 67108864 and tmp.sizeMb not given: workspace and tmp are held in memory, and together must be below limits.memoryMb, which is 64 (67108864 bytes).",
  );
  bad(
    json!({ "limits": { "memoryMb": 80 }, "tmp": { "sizeMb": 16 } }),
    "Option limits.maxWorkspaceBytes was 67108864 and tmp.sizeMb 16: workspace and tmp are held in memory, and together must be below limits.memoryMb, which is 80 (83886080 bytes).",
  );
  good(json!({ "limits": { "memoryMb": 81 }, "tmp": { "sizeMb": 16 } }));
}

#[test]
fn variables_are_checked_and_never_shown() {
  let env = |name: &str, value: Value| json!({ "env": { name: value } });
  for name in ["", "1A", "A=B", "A B", "a-b", "Ä", "A\0"] {
    bad(
      env(name, json!("secret")),
      &format!(
        "Option env has a variable {name:?}; a name must be letters, digits and \"_\", not beginning with a digit."
      ),
    );
  }
  bad(
    env("A", json!("s3\0cret")),
    "Option env.A was a string of 7 characters; it must be a string without NUL.",
  );
  bad(env("A", json!(1234)), "Option env.A was a number; it must be a string without NUL.");
  bad(json!({ "env": "A=secret" }), "Option env was a string of 8 characters; it must be an object.");
  bad(
    env("A", json!("x".repeat(131_070))),
    "Option env.A was a string of 131070 characters; it must be at most 131071 bytes with its name.",
  );
  assert_eq!(good(env("A", json!("x".repeat(131_069)))).env["A"].len(), 131_069);
  let many: serde_json::Map<String, Value> =
    (1..=3).map(|i| (format!("V{i}"), json!("x".repeat(131_000)))).collect();
  bad(json!({ "env": many }), "Option env was 393012 bytes in all; it must be at most 262144.");
  let many = |count: usize| -> Value {
    let variables = (0..count).map(|i| (format!("V{i}"), json!("")));
    json!({ "env": variables.collect::<serde_json::Map<_, _>>() })
  };
  assert_eq!(good(many(1024)).env.len(), 1024);
  bad(many(1025), "Option env was 1025 variables; it must be at most 1024.");
  for path in ["", "bin", "/bin:", "/bin:/workspace/bin", "/tmp", "/usr/../workspace"] {
    let error = read(&with(env("PATH", json!(path)))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConfigInvalid, "{path}");
    assert!(error.message().starts_with("Option env.PATH was "), "{error}");
    assert!(error.message().ends_with("where commands could put programs."), "{error}");
  }
}

#[test]
fn names_are_checked() {
  let image = |was: &str| {
    format!(
      "Option image was {was}; it must be an image reference of 1 to 255 letters, digits and ._-/:@+[] that does not begin with \"-\"."
    )
  };
  for name in ["a b", "-a", "a\n", "a?b", "ä"] {
    bad(json!({ "image": name }), &image(&format!("{name:?}")));
  }
  bad(json!({ "image": "" }), &image("an empty string"));
  bad(json!({ "image": "a".repeat(256) }), &image(&format!("\"{}\"…", "a".repeat(120))));
  for name in ["alpine", "sha256:0a", "localhost:5000/a/b_c:v1@sha256:00", "[::1]:5000/x"] {
    assert_eq!(good(json!({ "image": name })).image, name);
  }
  assert_eq!(good(json!({ "image": "a".repeat(255) })).image.len(), 255);
  bad(
    json!({ "runtime": "run sc" }),
    "Option runtime was \"run sc\"; it must be the name of an OCI runtime: 1 to 255 letters, digits and ._-/, not beginning with \"-\".",
  );
  let tool = "it must be a tool name of 1 to 128 bytes without white space or control characters.";
  bad(json!({ "declaredTools": ["ok", "a b"] }), &format!("Option declaredTools[1] was \"a b\"; {tool}"));
  bad(json!({ "declaredTools": [""] }), &format!("Option declaredTools[0] was an empty string; {tool}"));
  bad(json!({ "declaredTools": [7] }), &format!("Option declaredTools[0] was 7; {tool}"));
  bad(json!({ "declaredTools": "a" }), "Option declaredTools was \"a\"; it must be an array of strings.");
  let command =
    "it must be the bare name of a command, such as \"ls\", without path, white space or a leading \"-\".";
  for name in ["/bin/ls", "./x", "-c", "..", "a b"] {
    bad(json!({ "shell": { "allow": [name] } }), &format!("Option shell.allow[0] was {name:?}; {command}"));
  }
  bad(
    json!({ "shell": { "allow": [""] } }),
    &format!("Option shell.allow[0] was an empty string; {command}"),
  );
  assert_eq!(good(json!({ "shell": { "allow": [] } })).shell, ShellPolicy::List(Vec::new()));
  let id = "it must be a text of 1 to 512 bytes without control characters.";
  bad(json!({ "id": "" }), &format!("Option id was an empty string; {id}"));
  bad(json!({ "ownerId": "a\tb" }), &format!("Option ownerId was \"a\\tb\"; {id}"));
  bad(json!({ "version": 2 }), &format!("Option version was 2; {id}"));
}

#[test]
fn a_pool_has_a_size_and_needs_our_own_process_1() {
  let size = |pool: serde_json::Value| good(json!({ "pool": pool })).pool_size;
  assert_eq!([size(json!({ "size": 0 })), size(json!({ "size": 256 }))], [0, 256]);
  assert_eq!(good(json!({})).pool_size, 0);
  let may = "it must be a whole number from 0 to 256 (containers).";
  bad(json!({ "pool": {} }), &format!("Option pool.size was missing; {may}"));
  bad(json!({ "pool": { "size": 257 } }), &format!("Option pool.size was 257; {may}"));
  bad(json!({ "pool": { "size": 1.5 } }), &format!("Option pool.size was 1.5; {may}"));
  later(
    json!({ "pool": { "size": 1 }, "transport": "exec" }),
    "Option pool needs the resident transport, and transport is \"exec\". Leave one of them out.",
  );
  assert_eq!(good(json!({ "pool": { "size": 0 }, "transport": "exec" })).pool_size, 0);
}

#[test]
fn what_is_saved_and_how_often() {
  let plain = good(json!({}));
  assert_eq!((plain.snapshot, plain.checkpoint), (SnapshotKind::Tar, None));
  let both = good(json!({ "snapshot": "docker-commit", "checkpointMs": 1000.0 }));
  assert_eq!((both.snapshot, both.checkpoint), (SnapshotKind::Commit, Some(Duration::from_secs(1))));
  for (wrong, was) in
    [(json!(0), "0"), (json!(1.5), "1.5"), (json!(86_400_001), "86400001"), (json!("1"), "\"1\"")]
  {
    bad(
      json!({ "checkpointMs": wrong }),
      &format!("Option checkpointMs was {was}; it must be a whole number from 1 to 86400000 (ms)."),
    );
  }
}

#[test]
fn the_double_enforces_nothing() {
  let memory = |extra: Value| Options::from_json(&with(extra), &[], EngineKind::Memory);
  assert_eq!(memory(json!({})).unwrap().assurance, Assurance::BestEffort);
  assert_eq!(memory(json!({ "assurance": "best-effort" })).unwrap().assurance, Assurance::BestEffort);
  let error = memory(json!({ "assurance": "enforced" })).unwrap_err();
  assert_eq!(
    (error.code(), error.message()),
    (
      ErrorCode::Unsupported,
      "Option assurance was \"enforced\", and the in-memory client enforces nothing; use \"best-effort\" or a Docker engine."
    )
  );
}

#[test]
fn the_public_defaults_are_these() {
  assert_eq!(
    security_defaults(),
    json!({
      "image": "alpine:3.21", "user": "65534:65534", "workspaceRoot": "/workspace", "network": "none",
      "readOnlyRoot": true, "memoryMb": 256, "swap": false, "cpus": 0.5, "pids": 64, "capDrop": ["ALL"],
      "noNewPrivileges": true, "seccomp": "default", "shell": "deny", "commandTimeoutMs": 10000,
      "maxOutputBytes": 1_048_576, "maxFileBytes": 1_048_576, "maxWorkspaceBytes": 67_108_864,
      "maxConcurrentProcesses": 8, "leaseMs": 900_000, "snapshot": "tar", "followSymlinks": false,
      "undeclaredTools": "deny", "inheritedEnvironment": [], "localFallback": false,
    })
  );
}
