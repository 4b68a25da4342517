//! Which commands may be run: a pure decision on the words of a command. What it says no to, it says no to in words
//! that a model can act on.

use std::collections::BTreeMap;

use super::path::{WORKSPACE_ROOT, WorkspacePath, quote};

/// Longest single argument: the kernel's `MAX_ARG_STRLEN`, 32 pages, without the closing NUL (`linux/binfmts.h`).
pub const MAX_ARG_BYTES: usize = 131_071;
/// All arguments and variables together. The kernel allows a quarter of the stack limit (execve(2)), 2 MiB with the
/// usual 8 MiB; half of it leaves room for what the sandbox adds.
pub const MAX_WORDS_BYTES: usize = 1024 * 1024;
/// Most arguments, and most variables.
pub const MAX_WORDS: usize = 4096;
/// How many allowed commands a refusal names.
const SHOWN_COMMANDS: usize = 20;

/// Directories whose executables may be named by path.
const PROGRAM_DIRECTORIES: [&str; 2] = ["/bin/", "/usr/bin/"];

/// Which commands an environment allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellPolicy {
  /// None.
  Deny,
  /// Every bare name and executable in `/bin` or `/usr/bin`.
  Allow,
  /// Only these names.
  List(Vec<String>),
}

/// May it be run?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
  /// Yes, under this name or path.
  Allow {
    /// A bare name, or an absolute path.
    program: String,
  },
  /// No.
  Deny {
    /// Why, and what to do instead.
    reason: String,
  },
}

/// Decides on a command. `workspace_exec`: programs in the workspace may be run, if the policy has them.
pub fn decide(policy: &ShellPolicy, workspace_exec: bool, command: &str) -> Decision {
  match resolve(policy, workspace_exec, command) {
    Ok(program) => Decision::Allow { program },
    Err(reason) => Decision::Deny { reason },
  }
}

fn resolve(policy: &ShellPolicy, workspace_exec: bool, command: &str) -> Result<String, String> {
  if *policy == ShellPolicy::Deny {
    return Err("Commands are not allowed in this sandbox; use the file tools.".to_owned());
  }
  let program = program(workspace_exec, command)?;
  let name = program.rsplit('/').next().unwrap_or(&program);
  match policy {
    ShellPolicy::List(allowed) if !allowed.iter().any(|allowed| allowed == name || *allowed == program) => {
      Err(format!("Command {} is not allowed here; {}.", quote(name), shown(allowed)))
    }
    _ => Ok(program),
  }
}

/// The program that a command names, whatever the policy says of it.
fn program(workspace_exec: bool, command: &str) -> Result<String, String> {
  let refuse = |why: &str| Err(format!("Command {} {why}.", quote(command)));
  if command.is_empty() {
    return Err("The command is empty; name a program, and give its arguments apart.".to_owned());
  }
  if command.len() > MAX_ARG_BYTES || command.contains('\0') {
    return refuse("is no name of a program: it is too long or contains a NUL byte");
  }
  if command.starts_with('-') {
    return refuse("begins with \"-\"; a program's name does not");
  }
  if command.split('/').any(|part| part == "..") {
    return refuse("contains \"..\"; name the program directly");
  }
  if !command.contains('/') {
    if command.contains(char::is_whitespace) {
      return refuse("contains white space; give the arguments apart from the command, there is no shell");
    }
    return Ok(command.to_owned());
  }
  let in_directory = |directory: &&str| {
    command
      .strip_prefix(*directory)
      .is_some_and(|name| !name.is_empty() && name != "." && !name.contains('/'))
  };
  if PROGRAM_DIRECTORIES.iter().any(in_directory) {
    return Ok(command.to_owned());
  }
  let in_workspace = command.starts_with("./") || command.starts_with(&format!("{WORKSPACE_ROOT}/"));
  match WorkspacePath::parse(command) {
    Ok(path) if workspace_exec && in_workspace && !path.is_root() => Ok(path.absolute()),
    _ if in_workspace && !workspace_exec => {
      refuse("is in the workspace, where programs cannot be run; pass the file to an interpreter instead")
    }
    _ => refuse("is neither a bare name nor an executable directly in /bin or /usr/bin"),
  }
}

fn shown(allowed: &[String]) -> String {
  if allowed.is_empty() {
    return "no command is".to_owned();
  }
  let names: Vec<_> = allowed.iter().take(SHOWN_COMMANDS).map(String::as_str).collect();
  let more = if allowed.len() > SHOWN_COMMANDS { ", …" } else { "" };
  format!("allowed: {}{more}", names.join(", "))
}

/// Checks the arguments of a command against what the kernel takes.
pub fn check_args(args: &[String]) -> Result<(), String> {
  if args.len() > MAX_WORDS {
    return Err(format!("The command has {} arguments; at most {MAX_WORDS} are possible.", args.len()));
  }
  if let Some(at) = args.iter().position(|arg| arg.contains('\0')) {
    return Err(format!("Argument {} contains a NUL byte, which no argument can.", at + 1));
  }
  if let Some(at) = args.iter().position(|arg| arg.len() > MAX_ARG_BYTES) {
    return Err(format!(
      "Argument {} is longer than {MAX_ARG_BYTES} bytes; write it to a file or pass it as stdin.",
      at + 1
    ));
  }
  let total: usize = args.iter().map(|arg| arg.len() + 1).sum();
  if total > MAX_WORDS_BYTES {
    return Err(format!(
      "The arguments have {total} bytes; at most {MAX_WORDS_BYTES} are possible. Use stdin."
    ));
  }
  Ok(())
}

/// Checks the variables of a command: names as POSIX has them (XBD 8.1), values without NUL. Values are never quoted:
/// they may be secrets.
pub fn check_env(env: &BTreeMap<String, String>) -> Result<(), String> {
  if env.len() > MAX_WORDS {
    return Err(format!("The command has {} variables; at most {MAX_WORDS} are possible.", env.len()));
  }
  for (name, value) in env {
    check_variable(name, value)?;
  }
  let total: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
  if total > MAX_WORDS_BYTES {
    return Err(format!("The variables have {total} bytes; at most {MAX_WORDS_BYTES} are possible."));
  }
  Ok(())
}

/// Checks one variable.
pub fn check_variable(name: &str, value: &str) -> Result<(), String> {
  let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
  if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
    return Err(format!(
      "Variable name {} may have letters, digits and \"_\" only, and no digit first.",
      quote(name)
    ));
  }
  if value.contains('\0') || name.len() + value.len() + 1 > MAX_ARG_BYTES {
    return Err(format!(
      "The value of variable {name} contains a NUL byte or is longer than {MAX_ARG_BYTES} bytes."
    ));
  }
  Ok(())
}

#[cfg(test)]
mod tests;
