//! The marks of the script that runs a command, taken out of a standard error that is read piece by piece.

use super::command::{Fate, REFUSALS};

/// What may stand before the first mark: a shell and the dynamic linker warn of a few variables. Past it there is none.
const MOST_BEFORE: usize = 64 * 1024;

/// Takes marks out and remembers what they said.
pub struct Marks {
  prefix: Vec<u8>,
  end: Vec<u8>,
  /// What cannot be told from a mark yet.
  held: Vec<u8>,
  fate: Fate,
}

impl Marks {
  /// For the script with this nonce.
  pub fn new(nonce: &str) -> Self {
    Self {
      prefix: format!("{nonce}:").into_bytes(),
      end: format!("{nonce}:end;").into_bytes(),
      held: Vec::new(),
      fate: Fate::Unknown,
    }
  }

  /// The next bytes of standard error; those that are the command's, in their order.
  pub fn pass(&mut self, data: &[u8]) -> Vec<u8> {
    self.held.extend_from_slice(data);
    if self.fate == Fate::Unknown && !self.begin() {
      return Vec::new();
    }
    match self.fate {
      Fate::Started { whole: false } => self.until_end(),
      Fate::Started { whole: true } => std::mem::take(&mut self.held),
      Fate::Refused(_) | Fate::Unknown => Vec::new(),
    }
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
      None if word == b"start" => Fate::Started { whole: false },
      None => return false,
    };
    self.held.drain(..first + self.prefix.len() + length + 1);
    true
  }

  /// Passes on what is no mark, and keeps an end that may be the beginning of one.
  fn until_end(&mut self) -> Vec<u8> {
    if let Some(at) = find(&self.held, &self.end) {
      self.fate = Fate::Started { whole: true };
      self.held.drain(at..at + self.end.len());
      return std::mem::take(&mut self.held);
    }
    let longest = self.held.len().min(self.end.len() - 1);
    let kept =
      (1..=longest).rev().find(|length| self.held.ends_with(self.end.get(..*length).unwrap_or_default()));
    let rest = self.held.split_off(self.held.len() - kept.unwrap_or(0));
    std::mem::replace(&mut self.held, rest)
  }
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

  #[test]
  fn wherever_it_is_cut_the_marks_go_and_the_rest_stays() {
    let text = b"sh: warning\nn1:start;err n1:en n1:end;late";
    for at in 0..text.len() {
      let (head, rest) = text.split_at(at);
      let expected = ("err n1:en late".to_owned(), Fate::Started { whole: true });
      assert_eq!(read(&[head, rest]), expected, "{at}");
    }
    let bytes: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(read(&bytes).0, "err n1:en late");
  }

  #[test]
  fn a_command_that_was_killed_loses_nothing_of_what_it_said() {
    assert_eq!(read(&[b"n1:start;abc n1:e"]), ("abc n1:e".to_owned(), Fate::Started { whole: false }));
  }

  #[test]
  fn refusals_and_scripts_that_did_not_run_are_told_apart() {
    assert_eq!(read(&[b"n1:mis", b"sing;"]), (String::new(), Fate::Refused("command not found")));
    assert_eq!(read(&[b"sh: not found"]), ("sh: not found".to_owned(), Fate::Unknown));
  }
}
