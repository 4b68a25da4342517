//! Which commands may be run, decided from their text. Pure: what a name leads to is the container's matter.

use std::collections::BTreeMap;

use super::path::{WORKSPACE_ROOT, WorkspacePath, quote};
use crate::error::{Result, fail};
use crate::limits::{
  MAX_ARG_BYTES, MAX_ARGS, MAX_ARGS_BYTES, MAX_ENV_BYTES, MAX_ENV_VARS, MAX_NAME_BYTES, MAX_PATH_BYTES,
};

/// Directories of the image whose programs may be named by path.
const PROGRAM_DIRECTORIES: [&str; 2] = ["/bin/", "/usr/bin/"];
/// Names of an allow-list that a refusal shows; a model needs no more to go on.
const SHOWN_NAMES: usize = 20;

/// Which commands may be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellPolicy {
  /// None.
  Deny,
  /// Every bare name and executable in `/bin` or `/usr/bin`; below the workspace too, if it is mounted with exec.
  Allow,
  /// Of those, only what has one of these file names, wherever it is.
  List(Vec<String>),
}

/// What was decided about a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
  /// It may be run.
  Allow {
    /// What to run: a bare name, an absolute path, or `./` and a path relative to the working directory.
    program: String,
  },
  /// It may not.
  Deny {
    /// Why, and what would do instead; for a model to read.
    reason: String,
  },
}

/// Decides about `command`, the program alone without its arguments. `exec` says that programs of the workspace can be
/// run at all. An allow-list compares the file name: `/bin/ls` and, with `exec`, `./ls` are `ls`.
pub fn decide(policy: &ShellPolicy, exec: bool, command: &str) -> Decision {
  let allowed = match policy {
    ShellPolicy::Deny => {
      Err("no commands may be run here (shell: \"deny\"); use the file tools instead".to_owned())
    }
    _ => program(exec, command).and_then(|(program, name)| listed(policy, name).map(|()| program)),
  };
  match allowed {
    Ok(program) => Decision::Allow { program },
    Err(why) => Decision::Deny { reason: format!("Command {} is refused: {why}.", quote(command)) },
  }
}

/// Checks what a command is given: `LIMIT` for too much, `DENIED` for what no program can be given.
pub fn check_args(args: &[String]) -> Result<()> {
  if args.len() > MAX_ARGS {
    return Err(fail!(Limit, "{} arguments were given; at most {MAX_ARGS} are possible.", args.len()));
  }
  for (at, arg) in args.iter().enumerate() {
    if arg.contains('\0') {
      return Err(fail!(
        ConfigInvalid,
        "Argument {at} contains a NUL byte, which no argument can hold; put it in a file."
      ));
    }
    if arg.len() > MAX_ARG_BYTES {
      return Err(fail!(
        Limit,
        "Argument {at} has {} bytes; at most {MAX_ARG_BYTES} are possible. Put it in a file or in stdin.",
        arg.len()
      ));
    }
  }
  let total: usize = args.iter().map(|arg| arg.len() + 1).sum();
  if total > MAX_ARGS_BYTES {
    return Err(fail!(
      Limit,
      "The arguments have {total} bytes together; at most {MAX_ARGS_BYTES} are possible. Put them in a file or in stdin."
    ));
  }
  Ok(())
}

/// Checks the variables of a command: `LIMIT` for too much, `DENIED` for names that are none (POSIX: letters, digits and
/// `_`, no digit first) and values with NUL. Values never appear in the message.
pub fn check_env(env: &BTreeMap<String, String>) -> Result<()> {
  if env.len() > MAX_ENV_VARS {
    return Err(fail!(Limit, "{} variables were given; at most {MAX_ENV_VARS} are possible.", env.len()));
  }
  for (name, value) in env {
    if !is_variable_name(name) {
      return Err(fail!(
        ConfigInvalid,
        "{} is no name of a variable; use letters, digits and _, and no digit first.",
        quote(name)
      ));
    }
    if value.contains('\0') {
      return Err(fail!(
        ConfigInvalid,
        "Variable {} contains a NUL byte, which no variable can hold.",
        quote(name)
      ));
    }
    let size = name.len() + 1 + value.len();
    if size > MAX_ARG_BYTES {
      return Err(fail!(
        Limit,
        "Variable {} has {size} bytes with its name; at most {MAX_ARG_BYTES} are possible.",
        quote(name)
      ));
    }
  }
  let total: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
  if total > MAX_ENV_BYTES {
    return Err(fail!(
      Limit,
      "The variables have {total} bytes together; at most {MAX_ENV_BYTES} are possible."
    ));
  }
  Ok(())
}

/// True for a POSIX name of a variable: `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_variable_name(name: &str) -> bool {
  let first_fits = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
  first_fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The program as it will be run, and its file name.
fn program(exec: bool, command: &str) -> Result<(String, &str), String> {
  if command.is_empty() {
    return Err("it is empty; name a program".to_owned());
  }
  if command.contains('\0') {
    return Err("it contains a NUL byte".to_owned());
  }
  if command.starts_with('-') {
    return Err("it starts with \"-\"; options go into args, after the program".to_owned());
  }
  if command.len() > MAX_PATH_BYTES {
    return Err(format!("it has {} bytes; at most {MAX_PATH_BYTES} are possible", command.len()));
  }
  if command.split('/').any(|part| part == "..") {
    return Err("it contains \"..\"; name the place directly".to_owned());
  }
  let name = command.rsplit('/').next().unwrap_or_default();
  if name.len() > MAX_NAME_BYTES {
    return Err(format!("its name has {} bytes; at most {MAX_NAME_BYTES} are possible", name.len()));
  }
  if matches!(name, "" | ".") {
    return Err("it names a directory".to_owned());
  }
  if name.len() == command.len()
    || PROGRAM_DIRECTORIES.iter().any(|dir| command.strip_prefix(dir) == Some(name))
  {
    return Ok((command.to_owned(), name));
  }
  of_workspace(exec, command).map(|program| (program, name))
}

/// A program below the workspace: `./` (relative to the working directory) or absolute.
fn of_workspace(exec: bool, command: &str) -> Result<String, String> {
  let relative = command.starts_with("./");
  let below = command.strip_prefix(WORKSPACE_ROOT).is_some_and(|rest| rest.starts_with('/'));
  if !relative && !below {
    return Err(match exec {
      true => "use a bare name, a program directly in /bin or /usr/bin, or one of the workspace as ./name"
        .to_owned(),
      false => "use a bare name, or a program directly in /bin or /usr/bin".to_owned(),
    });
  }
  if !exec {
    return Err("programs of the workspace cannot be run here (workspace.exec is off)".to_owned());
  }
  let path =
    WorkspacePath::parse(command).map_err(|error| error.message().trim_end_matches('.').to_owned())?;
  Ok(if relative { format!("./{path}") } else { path.absolute() })
}

fn listed(policy: &ShellPolicy, name: &str) -> Result<(), String> {
  let ShellPolicy::List(names) = policy else { return Ok(()) };
  if names.iter().any(|listed| listed == name) {
    return Ok(());
  }
  let hint = if name.contains(char::is_whitespace) { "; arguments go into args" } else { "" };
  Err(format!("it is not allowed here; allowed: {}{hint}", shown(names)))
}

fn shown(names: &[String]) -> String {
  if names.is_empty() {
    return "nothing".to_owned();
  }
  let list: Vec<_> =
    names.iter().take(SHOWN_NAMES).map(|name| quote(name).trim_matches('"').to_owned()).collect();
  let more = names.len().saturating_sub(SHOWN_NAMES);
  if more > 0 { format!("{} and {more} more", list.join(", ")) } else { list.join(", ") }
}

#[cfg(test)]
mod tests;
