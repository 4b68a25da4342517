use proptest::prelude::*;

use super::*;
use crate::error::ErrorCode;

fn list(names: &[&str]) -> ShellPolicy {
  ShellPolicy::List(names.iter().map(|name| (*name).to_owned()).collect())
}

#[track_caller]
fn allowed(policy: &ShellPolicy, exec: bool, command: &str) -> String {
  match decide(policy, exec, command) {
    Decision::Allow { program } => program,
    Decision::Deny { reason } => panic!("{reason}"),
  }
}

#[track_caller]
fn denied(policy: &ShellPolicy, exec: bool, command: &str) -> String {
  match decide(policy, exec, command) {
    Decision::Allow { program } => panic!("{program} is allowed"),
    Decision::Deny { reason } => reason,
  }
}

#[test]
fn names_and_programs_of_the_image_are_allowed() {
  for command in
    ["ls", "python3.12", "a..b", "...", "größe", "with space", "[", "$(id)", "/bin/ls", "/usr/bin/env"]
  {
    for exec in [false, true] {
      assert_eq!(allowed(&ShellPolicy::Allow, exec, command), command);
    }
  }
}

#[test]
fn other_paths_are_not() {
  for command in [
    "/usr/local/bin/x",
    "/bin/sub/x",
    "/usr/bin/sub/x",
    "/sbin/x",
    "/x",
    "/bin//ls",
    "//bin/ls",
    "/bin/./ls",
    "bin/ls",
    "/binx/ls",
    "sub/x",
    "/workspace2/x",
    "~/x",
  ] {
    let reason = denied(&ShellPolicy::Allow, false, command);
    let expected = "is refused: use a bare name, or a program directly in /bin or /usr/bin.";
    assert_eq!(reason, format!("Command {command:?} {expected}"));
    denied(&ShellPolicy::Allow, true, command);
  }
  for command in ["..", "/bin/..", "/bin/../x", "./../x", "/usr/bin/../../x", "/workspace/../bin/x"] {
    let reason = denied(&ShellPolicy::Allow, true, command);
    assert_eq!(
      reason,
      format!("Command {command:?} is refused: it contains \"..\"; name the place directly.")
    );
  }
}

#[test]
fn what_is_no_program_is_refused() {
  for (command, why) in [
    ("", "it is empty; name a program"),
    ("-c", "it starts with \"-\"; options go into args, after the program"),
    ("-", "it starts with \"-\"; options go into args, after the program"),
    ("a\0b", "it contains a NUL byte"),
    (".", "it names a directory"),
    ("/", "it names a directory"),
    ("./", "it names a directory"),
    ("/bin/", "it names a directory"),
    ("/bin/.", "it names a directory"),
    ("/workspace/", "it names a directory"),
  ] {
    assert_eq!(denied(&ShellPolicy::Allow, true, command), format!("Command {command:?} is refused: {why}."));
  }
}

#[test]
fn lengths_are_bounded_at_the_limit_and_one_past_it() {
  let name = "n".repeat(MAX_NAME_BYTES);
  assert_eq!(allowed(&ShellPolicy::Allow, false, &name), name);
  assert!(
    denied(&ShellPolicy::Allow, false, &format!("{name}n"))
      .ends_with("its name has 256 bytes; at most 255 are possible.")
  );
  assert_eq!(allowed(&ShellPolicy::Allow, false, &format!("/usr/bin/{name}")), format!("/usr/bin/{name}"));
  let long = "./".repeat(2047) + "x";
  assert_eq!(long.len(), MAX_PATH_BYTES);
  assert_eq!(allowed(&ShellPolicy::Allow, true, &long), "./x");
  assert!(
    denied(&ShellPolicy::Allow, true, &format!("{long}x"))
      .ends_with("it has 4096 bytes; at most 4095 are possible.")
  );
}

#[test]
fn programs_of_the_workspace_need_exec() {
  for (command, program) in [
    ("./x", "./x"),
    ("./sub/x", "./sub/x"),
    (".//x", "./x"),
    ("/workspace/x", "/workspace/x"),
    ("/workspace//sub/./x", "/workspace/sub/x"),
  ] {
    assert_eq!(allowed(&ShellPolicy::Allow, true, command), program);
    assert_eq!(
      denied(&ShellPolicy::Allow, false, command),
      format!(
        "Command {command:?} is refused: programs of the workspace cannot be run here (workspace.exec is off)."
      )
    );
  }
  assert_eq!(
    denied(&ShellPolicy::Allow, true, "/opt/x"),
    "Command \"/opt/x\" is refused: use a bare name, a program directly in /bin or /usr/bin, \
     or one of the workspace as ./name."
  );
}

#[test]
fn a_list_compares_the_file_name() {
  let policy = list(&["echo", "ls"]);
  for command in ["ls", "/bin/ls", "/usr/bin/echo"] {
    assert_eq!(allowed(&policy, false, command), command);
  }
  assert_eq!(allowed(&policy, true, "./ls"), "./ls");
  for command in ["rm", "/bin/rm", "LS", "lsx", "l"] {
    assert_eq!(
      denied(&policy, false, command),
      format!("Command {command:?} is refused: it is not allowed here; allowed: echo, ls.")
    );
  }
  assert_eq!(
    denied(&policy, false, "ls -la"),
    "Command \"ls -la\" is refused: it is not allowed here; allowed: echo, ls; arguments go into args."
  );
  // A listed name does not open other directories.
  denied(&policy, true, "/usr/local/bin/ls");
  denied(&list(&["/usr/local/bin/ls"]), true, "/usr/local/bin/ls");
}

#[test]
fn nothing_is_allowed_where_nothing_is_listed() {
  let reason = "Command \"ls\" is refused: it is not allowed here; allowed: nothing.";
  assert_eq!(denied(&list(&[]), true, "ls"), reason);
  let reason =
    "Command \"ls\" is refused: no commands may be run here (shell: \"deny\"); use the file tools instead.";
  assert_eq!(denied(&ShellPolicy::Deny, true, "ls"), reason);
  denied(&list(&[""]), true, "/bin/");
}

#[test]
fn a_reason_is_short_and_escaped() {
  let names: Vec<_> = (0..1000).map(|n| format!("n{n}")).collect();
  let reason = denied(&ShellPolicy::List(names), false, &format!("\x1b[2K{}", "x".repeat(200)));
  assert!(reason.starts_with(r#"Command "\u{1b}[2Kxxx"#), "{reason}");
  assert!(reason.ends_with("n18, n19 and 980 more."), "{reason}");
  assert!(reason.len() < 500);
}

#[track_caller]
fn args_error(args: &[String]) -> (ErrorCode, String) {
  let error = check_args(args).unwrap_err();
  (error.code(), error.message().to_owned())
}

#[test]
fn arguments_are_bounded_at_the_limit_and_one_past_it() {
  check_args(&[]).unwrap();
  check_args(&[String::new(), "-rf".to_owned(), "$(id)\n".to_owned()]).unwrap();
  let nul = args_error(&["ok".to_owned(), "a\0".to_owned()]);
  let message = "Argument 1 contains a NUL byte, which no argument can hold; put it in a file.";
  assert_eq!(nul, (ErrorCode::ConfigInvalid, message.to_owned()));
  check_args(&vec![String::new(); 4096]).unwrap();
  let many = args_error(&vec![String::new(); 4097]);
  assert_eq!(many, (ErrorCode::Limit, "4097 arguments were given; at most 4096 are possible.".to_owned()));
  check_args(&["x".repeat(131_071)]).unwrap();
  let message = "Argument 0 has 131072 bytes; at most 131071 are possible. Put it in a file or in stdin.";
  assert_eq!(args_error(&["x".repeat(131_072)]), (ErrorCode::Limit, message.to_owned()));
  let most = vec!["x".repeat(131_071); 8];
  check_args(&most).unwrap();
  let (code, message) = args_error(&[most, vec![String::new()]].concat());
  assert_eq!(code, ErrorCode::Limit);
  assert!(
    message.starts_with("The arguments have 1048577 bytes together; at most 1048576 are possible."),
    "{message}"
  );
}

#[track_caller]
fn env_error(env: &[(&str, &str)]) -> (ErrorCode, String) {
  let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
  let error = check_env(&env).unwrap_err();
  (error.code(), error.message().to_owned())
}

#[test]
fn names_of_variables_are_posix() {
  for name in ["A", "_", "a1", "PATH", "_x_9"] {
    assert!(is_variable_name(name), "{name}");
  }
  for name in ["", "1A", "A=B", "A B", "A-B", "A\0", "é", "A\n"] {
    assert!(!is_variable_name(name), "{name:?}");
    let (code, message) = env_error(&[(name, "secret")]);
    assert_eq!(code, ErrorCode::ConfigInvalid);
    assert_eq!(
      message,
      format!("{name:?} is no name of a variable; use letters, digits and _, and no digit first.")
    );
  }
}

#[test]
fn variables_are_bounded_at_the_limit_and_one_past_it() {
  let message = "Variable \"A\" contains a NUL byte, which no variable can hold.";
  assert_eq!(env_error(&[("A", "secret\0")]), (ErrorCode::ConfigInvalid, message.to_owned()));
  let numbered = |count: usize, size: usize| -> BTreeMap<String, String> {
    (0..count).map(|n| (format!("V{n:03}"), "x".repeat(size))).collect()
  };
  check_env(&numbered(1, MAX_ARG_BYTES - 5)).unwrap();
  let error = check_env(&numbered(1, MAX_ARG_BYTES - 4)).unwrap_err();
  let message = "Variable \"V000\" has 131072 bytes with its name; at most 131071 are possible.";
  assert_eq!((error.code(), error.message()), (ErrorCode::Limit, message));
  check_env(&numbered(2, 131_066)).unwrap();
  let error = check_env(&numbered(4, 65_531)).unwrap_err();
  let message = "The variables have 262148 bytes together; at most 262144 are possible.";
  assert_eq!((error.code(), error.message()), (ErrorCode::Limit, message));
  check_env(&numbered(1000, 0)).unwrap();
  let many = (0..1025).map(|n| (format!("V{n}"), String::new())).collect();
  assert_eq!(
    check_env(&many).unwrap_err().message(),
    "1025 variables were given; at most 1024 are possible."
  );
}

proptest! {
  #[test]
  fn what_is_allowed_is_where_it_may_be(command in "[a./-]{0,12}|/(usr/)?bin/[a./]{0,6}|/workspace[a./]{0,8}", exec in any::<bool>()) {
    if let Decision::Allow { program } = decide(&ShellPolicy::Allow, exec, &command) {
      prop_assert!(!program.starts_with('-') && !program.ends_with('/'));
      prop_assert!(program.split('/').all(|part| part != ".."));
      let direct = |dir| program.strip_prefix(dir).is_some_and(|name: &str| !name.contains('/'));
      let bare = !program.contains('/');
      let own = exec && (program.starts_with("./") || program.starts_with("/workspace/"));
      prop_assert!(bare || direct("/bin/") || direct("/usr/bin/") || own, "{}", program);
    }
  }

  #[test]
  fn deciding_twice_changes_nothing(command in "[a./]{0,12}") {
    if let Decision::Allow { program } = decide(&ShellPolicy::Allow, true, &command) {
      prop_assert_eq!(decide(&ShellPolicy::Allow, true, &program), Decision::Allow { program: program.clone() });
    }
  }
}
