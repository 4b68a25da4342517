//! The marks of the script that runs a command, taken out of its standard error.

use super::command::{Fate, REFUSALS};

/// What may stand before the first mark: a shell and the dynamic linker warn of a few variables. Past it there is none.
const MOST_BEFORE: usize = 64 * 1024;

/// The word that says that nothing is left of the command.
const CLEAN: &[u8] = b"end";
/// In front of the command's exit code.
const EXIT: &[u8] = b"=";
/// The longest word behind the start, with its semicolon.
const LONGEST: usize = 5;

/// Takes marks out and remembers what they said.
pub struct Marks {
  prefix: Vec<u8>,
  /// What cannot be told from a mark yet.
  held: Vec<u8>,
  fate: Fate,
}

/// What stands behind a prefix.
enum Word<'a> {
  /// It is a mark, with what it says of the exit code, and this is behind it.
  Mark(Option<i64>, &'a [u8]),
  /// It is none.
  Text,
  /// There is more to come before it can be told.
  Begun,
}

impl Marks {
  /// For the script with this nonce.
  pub fn new(nonce: &str) -> Self {
    Self { prefix: format!("{nonce}:").into_bytes(), held: Vec::new(), fate: Fate::Unknown }
  }

  /// The next bytes of standard error; those that are the command's, in their order.
  pub fn pass(&mut self, data: &[u8]) -> Vec<u8> {
    self.held.extend_from_slice(data);
    if self.fate == Fate::Unknown && !self.begin() {
      return Vec::new();
    }
    if matches!(self.fate, Fate::Started { .. }) {
      return self.without_marks();
    }
    // The script goes on to its end, and has no more to say than its refusal.
    self.held.clear();
    Vec::new()
  }

  /// What was held back to the last, and what came of the command. Without a mark it is what the script said.
  pub fn finish(self) -> (Vec<u8>, Fate) {
    (self.held, self.fate)
  }

  /// Looks for the first mark.
  fn begin(&mut self) -> bool {
    let Some(first) = find(&self.held, &self.prefix) else {
      self.held.truncate(MOST_BEFORE);
      return false;
    };
    let Some(after) = self.held.get(first + self.prefix.len()..) else { return false };
    let Some(length) = after.iter().position(|byte| *byte == b';') else { return false };
    let word = after.get(..length).unwrap_or_default();
    let refused = REFUSALS.iter().find(|(known, _)| known.as_bytes() == word);
    self.fate = match refused {
      Some((_, why)) => Fate::Refused(why),
      None if word == b"start" => Fate::Started { code: None },
      None => return false,
    };
    self.held.drain(..first + self.prefix.len() + length + 1);
    true
  }

  /// Passes on what is no mark, and keeps an end that may be the beginning of one.
  fn without_marks(&mut self) -> Vec<u8> {
    let held = std::mem::take(&mut self.held);
    let (mut passed, mut rest) = (Vec::with_capacity(held.len()), held.as_slice());
    while let Some((before, behind)) = split(rest, &self.prefix) {
      passed.extend_from_slice(before);
      match word(behind) {
        Word::Mark(code, after) => {
          self.fate = Fate::Started { code: code.or(self.code()) };
          rest = after;
        }
        Word::Text => {
          passed.extend_from_slice(&self.prefix);
          rest = behind;
        }
        Word::Begun => {
          self.held = [&self.prefix, behind].concat();
          return passed;
        }
      }
    }
    let (free, kept) = rest.split_at(rest.len() - begun(rest, &self.prefix));
    passed.extend_from_slice(free);
    self.held.extend_from_slice(kept);
    passed
  }

  const fn code(&self) -> Option<i64> {
    if let Fate::Started { code } = self.fate { code } else { None }
  }
}

fn word(text: &[u8]) -> Word<'_> {
  let Some(length) = text.iter().take(LONGEST).position(|byte| *byte == b';') else {
    return if text.len() < LONGEST { Word::Begun } else { Word::Text };
  };
  let (word, rest) = text.split_at(length);
  let behind = rest.get(1..).unwrap_or_default();
  if word == CLEAN {
    return Word::Mark(None, behind);
  }
  let code = word.strip_prefix(EXIT).and_then(|digits| str::from_utf8(digits).ok());
  code
    .and_then(|digits| digits.parse::<u8>().ok())
    .map_or(Word::Text, |code| Word::Mark(Some(code.into()), behind))
}

/// The same of a standard error that is all there. What stands before the first mark is none of the command's: a shell and
/// the dynamic linker warn of variables that they do not like (`LC_ALL`, `LD_PRELOAD`) before the script begins.
pub fn read_marks(stderr: &[u8], nonce: &str) -> (Vec<u8>, Fate) {
  let mut marks = Marks::new(nonce);
  let mut said = marks.pass(stderr);
  let (rest, fate) = marks.finish();
  said.extend(rest);
  (said, fate)
}

/// How much of the end of `text` may be the beginning of `mark`.
fn begun(text: &[u8], mark: &[u8]) -> usize {
  let longest = text.len().min(mark.len() - 1);
  let begins = |length: &usize| text.ends_with(mark.get(..*length).unwrap_or_default());
  (1..=longest).rev().find(begins).unwrap_or(0)
}

/// What stands before the first `mark`, and what behind it.
fn split<'a>(text: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
  let (before, rest) = text.split_at_checked(find(text, mark)?)?;
  Some((before, rest.get(mark.len()..)?))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
  haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
  use super::*;

  fn read(pieces: &[&[u8]]) -> (String, Fate) {
    let mut marks = Marks::new("n1");
    let mut said: Vec<u8> = pieces.iter().flat_map(|piece| marks.pass(piece)).collect();
    let (rest, fate) = marks.finish();
    said.extend(rest);
    (String::from_utf8(said).unwrap(), fate)
  }

  const fn started(code: Option<i64>) -> Fate {
    Fate::Started { code }
  }

  #[test]
  fn wherever_it_is_cut_the_marks_go_and_the_rest_stays() {
    let text = b"sh: warning\nn1:start;err n1:en n1:=255x n1:=256; n1:=7;late n1:end;";
    let expected = ("err n1:en n1:=255x n1:=256; late ".to_owned(), started(Some(7)));
    for at in 0..text.len() {
      let (head, rest) = text.split_at(at);
      assert_eq!(read(&[head, rest]), expected, "{at}");
    }
    assert_eq!(read(&text.chunks(1).collect::<Vec<_>>()), expected);
  }

  #[test]
  fn a_command_that_was_killed_loses_nothing_of_what_it_said() {
    for said in ["abc n1:e", "abc n1:=1", "abc n1", "abc"] {
      let text = format!("n1:start;{said}");
      assert_eq!(read(&[text.as_bytes()]), (said.to_owned(), started(None)));
    }
  }

  #[test]
  fn the_exit_code_is_known_whatever_becomes_of_the_script() {
    assert_eq!(read(&[b"n1:start;n1:=3;"]), (String::new(), started(Some(3))));
    assert_eq!(
      read(&[b"n1:start;n1:=3;sh: cannot fork\n"]),
      ("sh: cannot fork\n".to_owned(), started(Some(3)))
    );
  }

  #[test]
  fn refusals_and_scripts_that_did_not_run_are_told_apart() {
    let missing = (String::new(), Fate::Refused("command not found"));
    assert_eq!(read(&[b"n1:mis", b"sing;"]), missing);
    assert_eq!(read(&[b"n1:mis", b"sing;n1:", b"end;"]), missing);
    assert_eq!(read(&[b"n1:missing;n1:=127;n1:end;"]), missing);
    assert_eq!(read(&[b"sh: not found"]), ("sh: not found".to_owned(), Fate::Unknown));
  }

  #[test]
  fn marks_are_taken_out_and_nothing_else() {
    let read = |text: &str| read_marks(text.as_bytes(), "n1");
    assert_eq!(read("n1:start;err\nn1:=0;n1:end;"), (b"err\n".to_vec(), started(Some(0))));
    assert_eq!(read("n1:start;n1:=0;late n1:end;late"), (b"late late".to_vec(), started(Some(0))));
    assert_eq!(read("n1:start;n2:end;"), (b"n2:end;".to_vec(), started(None)));
    assert_eq!(read("n1:cwd;"), (Vec::new(), Fate::Refused("no such working directory")));
    let warned = read("sh: warning: setlocale\nn1:start;x\nn1:=0;n1:end;");
    assert_eq!(warned, (b"x\n".to_vec(), started(Some(0))));
    assert_eq!(read("sh: oops"), (b"sh: oops".to_vec(), Fate::Unknown));
    assert_eq!(read(""), (Vec::new(), Fate::Unknown));
  }
}
