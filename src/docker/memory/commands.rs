//! The few programs that the double has, in the words of BusyBox. There is no shell.

use std::time::Duration;

use super::tree::{Last, Name, Node, Refusal, Tree, path_of};

/// Names of the programs, found bare and in `/bin` and `/usr/bin`.
const PROGRAMS: &[&str] =
  &["cat", "echo", "env", "false", "ls", "mkdir", "mv", "printf", "pwd", "rm", "sleep", "true"];

/// A command and what it runs in.
pub struct Call<'a> {
  /// Program and arguments.
  pub argv: &'a [String],
  /// Working directory, resolved.
  pub cwd: &'a [Name],
  /// `NAME=value`.
  pub env: &'a [String],
  /// What it reads, where it reads.
  pub stdin: &'a [u8],
}

/// What a command did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Done {
  /// Its exit code.
  pub code: i64,
  /// Standard output.
  pub stdout: Vec<u8>,
  /// Standard error.
  pub stderr: Vec<u8>,
}

impl Done {
  fn said(stdout: impl Into<Vec<u8>>) -> Self {
    Self { stdout: stdout.into(), ..Self::default() }
  }

  fn failed(stderr: impl AsRef<str>) -> Self {
    let mut done = Self::default();
    done.complain(stderr);
    done
  }

  fn complain(&mut self, line: impl AsRef<str>) {
    self.code = 1;
    self.stderr.extend_from_slice(line.as_ref().as_bytes());
    self.stderr.push(b'\n');
  }
}

/// The program that a first word means, or how the engine says that it cannot be started.
pub fn find<'a>(tree: &Tree, word: &'a str) -> Result<&'a str, Done> {
  let name = ["/usr/bin/", "/bin/"].iter().find_map(|folder| word.strip_prefix(folder)).unwrap_or(word);
  if PROGRAMS.contains(&name) {
    return Ok(name);
  }
  let (code, why) = match tree.existing(&[], word.as_bytes(), Last::Follow) {
    _ if !word.contains('/') => (127, "executable file not found in $PATH"),
    Ok((_, Node::File { mode, .. })) if mode & 0o111 != 0 => (126, "exec format error"),
    Ok(_) => (126, "permission denied"),
    Err(_) => (127, "no such file or directory"),
  };
  Err(not_started(code, &format!("exec: {word:?}: {why}")))
}

/// What comes out of an exec that never started: the engine puts the runtime's words on standard output.
pub fn not_started(code: i64, why: &str) -> Done {
  let text =
    format!("OCI runtime exec failed: exec failed: unable to start container process: {why}: unknown\r\n");
  Done { code, ..Done::said(text) }
}

/// True where the command reads its standard input.
pub fn reads_stdin(program: &str, arguments: &[String]) -> bool {
  program == "cat" && (arguments.is_empty() || arguments.iter().any(|argument| argument == "-"))
}

/// How long `sleep` sleeps: the sum of its arguments, each in seconds or with `s`, `m`, `h`, `d`.
pub fn sleep_time(arguments: &[String]) -> Result<Duration, Done> {
  if arguments.is_empty() {
    return Err(Done::failed("sleep: missing operand"));
  }
  let mut seconds = 0.0;
  for argument in arguments {
    let (digits, unit) = match argument.strip_suffix(['s', 'm', 'h', 'd']) {
      Some(digits) => (digits, argument.chars().last()),
      None => (argument.as_str(), None),
    };
    let factor = match unit {
      Some('m') => 60.0,
      Some('h') => 3_600.0,
      Some('d') => 86_400.0,
      _ => 1.0,
    };
    match digits.parse::<f64>() {
      Ok(number) if number >= 0.0 => seconds += number * factor,
      _ => return Err(Done::failed(format!("sleep: invalid number '{argument}'"))),
    }
  }
  Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Runs a program of [`find`] that is not `sleep`.
pub fn run(tree: &mut Tree, program: &str, call: &Call<'_>) -> Done {
  let arguments = call.argv.get(1..).unwrap_or_default();
  match program {
    "echo" => echo(arguments),
    "printf" => printf(arguments),
    "pwd" => Done::said([path_of(call.cwd), b"\n".to_vec()].concat()),
    "env" => Done::said(call.env.iter().map(|line| format!("{line}\n")).collect::<String>()),
    "false" => Done { code: 1, ..Done::default() },
    "cat" => cat(tree, arguments, call),
    "ls" => ls(tree, arguments, call),
    "mkdir" => mkdir(tree, arguments, call),
    "rm" => rm(tree, arguments, call),
    "mv" => mv(tree, arguments, call),
    _ => Done::default(),
  }
}

fn echo(arguments: &[String]) -> Done {
  match arguments.split_first() {
    Some((flag, rest)) if flag == "-n" => Done::said(rest.join(" ")),
    _ => Done::said(arguments.join(" ") + "\n"),
  }
}

/// `%s`, `%d`, `%%` and the usual escapes; the format is used again while arguments are left.
fn printf(arguments: &[String]) -> Done {
  let Some((format, values)) = arguments.split_first() else {
    return Done::failed("printf: usage: printf FORMAT [ARG]...");
  };
  let (mut out, mut values) = (String::new(), values.iter());
  loop {
    let before = values.len();
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
      match (char, chars.clone().next()) {
        ('%', Some('s' | 'd')) => out.push_str(values.next().map_or("", String::as_str)),
        ('%', Some('%')) => out.push('%'),
        ('\\', Some('n')) => out.push('\n'),
        ('\\', Some('t')) => out.push('\t'),
        ('\\', Some('r')) => out.push('\r'),
        ('\\', Some('\\')) => out.push('\\'),
        _ => {
          out.push(char);
          continue;
        }
      }
      chars.next();
    }
    if values.len() == 0 || values.len() == before {
      return Done::said(out);
    }
  }
}

fn cat(tree: &Tree, arguments: &[String], call: &Call<'_>) -> Done {
  if arguments.is_empty() {
    return Done::said(call.stdin);
  }
  let mut done = Done::default();
  for argument in arguments {
    match tree.existing(call.cwd, argument.as_bytes(), Last::Follow) {
      _ if argument == "-" => done.stdout.extend_from_slice(call.stdin),
      Ok((_, Node::File { data, .. })) => done.stdout.extend_from_slice(data),
      Ok((_, Node::Directory { .. })) => done.complain("cat: read error: Is a directory"),
      Ok(_) => {}
      Err(refusal) => done.complain(format!("cat: can't open '{argument}': {refusal}")),
    }
  }
  done
}

fn ls(tree: &Tree, arguments: &[String], call: &Call<'_>) -> Done {
  let (flags, mut paths) = split_flags(arguments);
  let hidden = flags.contains(['a', 'A']);
  if paths.is_empty() {
    paths.push(".");
  }
  let (mut done, many) = (Done::default(), paths.len() > 1);
  for path in paths {
    match tree.existing(call.cwd, path.as_bytes(), Last::Follow) {
      Ok((_, Node::Directory { entries, .. })) => {
        if many {
          done.stdout.extend_from_slice(format!("{path}:\n").as_bytes());
        }
        for name in entries.keys().filter(|name| hidden || !name.starts_with(b".")) {
          done.stdout.extend_from_slice(&[name.as_slice(), b"\n"].concat());
        }
      }
      Ok(_) => done.stdout.extend_from_slice(format!("{path}\n").as_bytes()),
      Err(refusal) => done.complain(format!("ls: {path}: {refusal}")),
    }
  }
  done
}

fn mkdir(tree: &mut Tree, arguments: &[String], call: &Call<'_>) -> Done {
  let (flags, paths) = split_flags(arguments);
  let mut done = Done::default();
  for path in paths {
    let made = if flags.contains('p') { make_all(tree, call.cwd, path) } else { make(tree, call.cwd, path) };
    if let Err(refusal) = made {
      done.complain(format!("mkdir: can't create directory '{path}': {refusal}"));
    }
  }
  done
}

fn make(tree: &mut Tree, cwd: &[Name], path: &str) -> Result<(), Refusal> {
  let place = tree.place(cwd, path.trim_end_matches('/').as_bytes(), Last::Keep)?;
  tree.put(&place, Node::directory(0o755))
}

fn make_all(tree: &mut Tree, cwd: &[Name], path: &str) -> Result<(), Refusal> {
  let mut place = if path.starts_with('/') { Vec::new() } else { cwd.to_vec() };
  for part in path.split('/').filter(|part| !part.is_empty()) {
    place = tree.place(&place, part.as_bytes(), Last::Follow)?;
    match tree.get(&place) {
      Some(Node::Directory { .. }) => {}
      Some(_) => return Err(Refusal::NotDirectory),
      None => tree.put(&place, Node::directory(0o755))?,
    }
  }
  Ok(())
}

fn rm(tree: &mut Tree, arguments: &[String], call: &Call<'_>) -> Done {
  let (flags, paths) = split_flags(arguments);
  let (force, all) = (flags.contains('f'), flags.contains(['r', 'R']));
  let mut done = Done::default();
  for path in paths {
    let found = tree.existing(call.cwd, path.as_bytes(), Last::Keep);
    let removed = match found.map(|(place, node)| (place, node.is_directory())) {
      Ok((_, true)) if !all => Err(Refusal::IsDirectory),
      Ok((place, _)) => tree.take(&place).map(drop),
      Err(Refusal::NoEntry | Refusal::NotDirectory) if force => Ok(()),
      Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = removed {
      done.complain(format!("rm: can't remove '{path}': {refusal}"));
    }
  }
  done
}

fn mv(tree: &mut Tree, arguments: &[String], call: &Call<'_>) -> Done {
  let (flags, paths) = split_flags(arguments);
  let [from, to] = paths.as_slice() else { return Done::failed("mv: needs a source and a destination") };
  match rename(tree, call.cwd, from, to, flags.contains('T')) {
    Ok(()) => Done::default(),
    Err(refusal) => Done::failed(format!("mv: can't rename '{from}': {refusal}")),
  }
}

fn rename(tree: &mut Tree, cwd: &[Name], from: &str, to: &str, exact: bool) -> Result<(), Refusal> {
  let (source, _) = tree.existing(cwd, from.as_bytes(), Last::Keep)?;
  // Into a directory, also one that a link leads to.
  let mut place = match tree.existing(cwd, to.as_bytes(), Last::Follow) {
    Ok((place, Node::Directory { .. })) if !exact => place,
    _ => return tree.place(cwd, to.as_bytes(), Last::Keep).and_then(|place| tree.rename(&source, &place)),
  };
  place.extend(source.last().cloned());
  tree.rename(&source, &place)
}

/// Letters of the options, and what comes after them.
fn split_flags(arguments: &[String]) -> (String, Vec<&str>) {
  let (mut flags, mut rest, mut ended) = (String::new(), Vec::new(), false);
  for argument in arguments {
    match argument.strip_prefix('-') {
      Some("-") if !ended => ended = true,
      Some(letters) if !ended && !letters.is_empty() => flags.push_str(letters),
      _ => rest.push(argument.as_str()),
    }
  }
  (flags, rest)
}
