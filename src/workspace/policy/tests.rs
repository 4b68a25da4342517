use super::*;

fn list(names: &[&str]) -> ShellPolicy {
  ShellPolicy::List(names.iter().map(|name| (*name).to_owned()).collect())
}

#[track_caller]
fn allowed(policy: &ShellPolicy, exec: bool, command: &str) -> String {
  match decide(policy, exec, command) {
    Decision::Allow { program } => program,
    Decision::Deny { reason } => panic!("{command:?} was refused: {reason}"),
  }
}

#[track_caller]
fn denied(policy: &ShellPolicy, exec: bool, command: &str) -> String {
  match decide(policy, exec, command) {
    Decision::Deny { reason } => reason,
    Decision::Allow { program } => panic!("{command:?} was allowed as {program:?}"),
  }
}

#[test]
fn names_and_the_two_directories_are_programs() {
  for command in ["ls", "/bin/ls", "/usr/bin/ls", "python3.11", "[", "größe"] {
    assert_eq!(allowed(&ShellPolicy::Allow, false, command), command);
  }
}

#[test]
fn everything_else_is_refused_with_a_reason() {
  for command in [
    "",
    "-x",
    "--help",
    "../bin/sh",
    "a/../b",
    "/bin/../x",
    "/usr/local/bin/x",
    "/bin/sub/x",
    "/bin/",
    "/bin/.",
    "/sbin/x",
    "x/y",
    "./x",
    "/workspace/x",
    "/workspace",
    "a\0b",
    "..",
    "/",
    "//bin/ls",
    "ls -l",
    "ls\t-l",
  ] {
    let reason = denied(&ShellPolicy::Allow, false, command);
    assert!(reason.ends_with('.'), "{reason}");
    assert_eq!(
      denied(&ShellPolicy::Deny, false, command),
      "Commands are not allowed in this sandbox; use the file tools."
    );
  }
}

#[test]
fn a_list_names_what_is_allowed() {
  let policy = list(&["echo", "ls"]);
  assert_eq!(allowed(&policy, false, "ls"), "ls");
  assert_eq!(allowed(&policy, false, "/usr/bin/ls"), "/usr/bin/ls");
  assert_eq!(denied(&policy, false, "rm"), "Command \"rm\" is not allowed here; allowed: echo, ls.");
  assert_eq!(denied(&list(&[]), false, "ls"), "Command \"ls\" is not allowed here; no command is.");
  assert!(denied(&policy, false, "Ls").contains("not allowed"));
}

#[test]
fn programs_of_the_workspace_need_exec_and_the_policy() {
  assert_eq!(allowed(&ShellPolicy::Allow, true, "./x"), "/workspace/x");
  assert_eq!(allowed(&ShellPolicy::Allow, true, "/workspace/a/b"), "/workspace/a/b");
  assert_eq!(allowed(&list(&["run.sh"]), true, "./run.sh"), "/workspace/run.sh");
  denied(&list(&["other"]), true, "./run.sh");
  for command in ["/workspace/", "./", "./../x", "x/y", "/workspace2/x"] {
    denied(&ShellPolicy::Allow, true, command);
  }
}

#[test]
fn arguments_are_bounded_as_the_kernel_bounds_them() {
  let long = |bytes| vec!["x".repeat(bytes)];
  assert!(check_args(&long(MAX_ARG_BYTES)).is_ok());
  assert!(check_args(&long(MAX_ARG_BYTES + 1)).unwrap_err().contains("Argument 1"));
  assert!(check_args(&vec![String::new(); MAX_WORDS]).is_ok());
  assert!(check_args(&vec![String::new(); MAX_WORDS + 1]).is_err());
  assert!(check_args(&["a".to_owned(), "b\0".to_owned()]).unwrap_err().contains("Argument 2"));
  assert!(check_args(&vec!["x".repeat(100_000); 11]).is_err());
}

#[test]
fn variables_have_names_and_secrets_stay_out_of_messages() {
  for name in ["A", "_", "a1_B"] {
    assert!(check_variable(name, "v").is_ok());
  }
  for name in ["", "1A", "A-B", "A B", "A=B", "Ä", "A\0"] {
    assert!(check_variable(name, "v").is_err(), "{name:?}");
  }
  assert!(!check_variable("KEY", "sec\0ret").unwrap_err().contains("sec"));
}
