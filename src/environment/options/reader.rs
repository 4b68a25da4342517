//! Walking over options in JSON. Every value knows its path, so that each message names the option, what it was and
//! what it may be.

use serde_json::{Map, Value};

use super::defaults::Whole;
use crate::error::{Error, Result, fail};
use crate::workspace::path::quote;

/// Mark of a JavaScript value that JSON cannot hold; its text says how to show it.
const INVALID: &str = "$invalid";
/// Longest key that is compared with the known ones.
const MAX_GUESSED_KEY: usize = 64;
/// A key this many edits away from a known one is taken for a slip.
const MAX_EDITS: usize = 2;

/// An object of options; all of its keys are known.
pub struct Fields<'a> {
  path: String,
  map: &'a Map<String, Value>,
  known: &'static [&'static str],
}

impl<'a> Fields<'a> {
  /// The options themselves.
  pub fn root(value: &'a Value, known: &'static [&'static str]) -> Result<Self> {
    Field { path: String::new(), value: Some(value), hidden: false }.fields(known)
  }

  /// One of the options.
  pub fn get(&self, key: &'static str) -> Field<'a> {
    debug_assert!(self.known.contains(&key), "{key} is read and not declared");
    Field { path: self.join(key), value: self.map.get(key), hidden: false }
  }

  /// Every key with its value, where the keys are the application's own.
  pub fn entries(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
    let map = self.map;
    map.iter().map(|(key, value)| {
      let path = self.join(&shorten(key));
      (key.as_str(), Field { path, value: Some(value), hidden: true })
    })
  }

  fn join(&self, key: &str) -> String {
    if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
  }

  fn check_keys(&self) -> Result<()> {
    let Some(unknown) = self.map.keys().find(|key| !self.known.contains(&key.as_str())) else {
      return Ok(());
    };
    let path = self.join(&shorten(unknown));
    let known: Vec<String> = self.known.iter().map(|key| self.join(key)).collect();
    Err(match closest(unknown, self.known) {
      Some(meant) => {
        fail!(ConfigInvalid, "Option {path} is not known; did you mean {}?", self.join(meant))
      }
      None => fail!(ConfigInvalid, "Option {path} is not known; known are {}.", known.join(", ")),
    })
  }
}

/// One option, given or not.
pub struct Field<'a> {
  path: String,
  value: Option<&'a Value>,
  /// May be a secret: texts are not shown.
  hidden: bool,
}

impl<'a> Field<'a> {
  /// The option's path, for example `limits.cpus`.
  pub fn path(&self) -> &str {
    &self.path
  }

  /// The same option, whose texts are never shown.
  pub const fn hidden(mut self) -> Self {
    self.hidden = true;
    self
  }

  /// What was given.
  pub const fn value(&self) -> Option<&'a Value> {
    self.value
  }

  /// The error for a wrong value; `may` says what it may be.
  pub fn wrong(&self, may: impl std::fmt::Display) -> Error {
    let name =
      if self.path.is_empty() { "The options argument".to_owned() } else { format!("Option {}", self.path) };
    let was = self.value.map_or_else(|| "missing".to_owned(), |value| shown(value, self.hidden));
    fail!(ConfigInvalid, "{name} was {was}; it must be {may}.")
  }

  /// A text that passes `fits`.
  pub fn text(&self, may: &str, fits: impl Fn(&str) -> bool) -> Result<Option<String>> {
    match self.value {
      None => Ok(None),
      Some(Value::String(text)) if fits(text) => Ok(Some(text.clone())),
      Some(_) => Err(self.wrong(may)),
    }
  }

  /// The same, where it cannot be left out.
  pub fn required_text(&self, may: &str, fits: impl Fn(&str) -> bool) -> Result<String> {
    self.text(may, fits)?.ok_or_else(|| self.wrong(may))
  }

  /// True or false; false without it.
  pub fn flag(&self) -> Result<bool> {
    match self.value {
      None => Ok(false),
      Some(Value::Bool(flag)) => Ok(*flag),
      Some(_) => Err(self.wrong("true or false")),
    }
  }

  /// One of these words.
  pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<Option<T>> {
    let Some(value) = self.value else { return Ok(None) };
    let chosen = value.as_str().and_then(|text| choices.iter().find(|(word, _)| *word == text));
    match chosen {
      Some((_, choice)) => Ok(Some(*choice)),
      None => {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        Err(self.wrong(words.join(" or ")))
      }
    }
  }

  /// A whole number in its range. A number of JavaScript may come as `1.0`.
  pub fn whole(&self, range: &Whole) -> Result<Option<u64>> {
    let Some(value) = self.value else { return Ok(None) };
    let number = value.as_f64().filter(|number| number.fract() == 0.0);
    match number {
      // Both ends are far below 2⁵³, so the comparison and the conversion are exact.
      Some(number) if number >= range.min as f64 && number <= range.max as f64 => Ok(Some(number as u64)),
      _ => {
        Err(self.wrong(format_args!("a whole number from {} to {} ({})", range.min, range.max, range.unit)))
      }
    }
  }

  /// The same with its default.
  pub fn whole_or_default(&self, range: &Whole) -> Result<u64> {
    Ok(self.whole(range)?.unwrap_or(range.default))
  }

  /// A number in its range: default, smallest, largest.
  pub fn number(&self, (default, min, max): (f64, f64, f64)) -> Result<f64> {
    let Some(value) = self.value else { return Ok(default) };
    match value.as_f64() {
      Some(number) if (min..=max).contains(&number) => Ok(number),
      _ => Err(self.wrong(format_args!("a number from {min} to {max}"))),
    }
  }

  /// The items of a list; none without it.
  pub fn items(&self, may: &str) -> Result<Vec<Field<'a>>> {
    let Some(value) = self.value else { return Ok(Vec::new()) };
    let Some(items) = value.as_array() else { return Err(self.wrong(may)) };
    let item = |(index, value)| Field {
      path: format!("{}[{index}]", self.path),
      value: Some(value),
      hidden: self.hidden,
    };
    Ok(items.iter().enumerate().map(item).collect())
  }

  /// An object with known keys only; an absent one counts as wrong.
  pub fn fields(&self, known: &'static [&'static str]) -> Result<Fields<'a>> {
    let fields = self.object(known)?;
    fields.check_keys()?;
    Ok(fields)
  }

  /// An object whose keys are the application's own.
  pub fn object(&self, known: &'static [&'static str]) -> Result<Fields<'a>> {
    match self.value {
      Some(Value::Object(map)) if !map.contains_key(INVALID) => {
        Ok(Fields { path: self.path.clone(), map, known })
      }
      _ => Err(self.wrong("an object")),
    }
  }

  /// As [`Self::fields`], or nothing where it is absent.
  pub fn optional_fields(&self, known: &'static [&'static str]) -> Result<Option<Fields<'a>>> {
    self.value.map(|_| self.fields(known)).transpose()
  }
}

/// A value in words.
fn shown(value: &Value, hidden: bool) -> String {
  match value {
    Value::String(text) if text.is_empty() => "an empty string".to_owned(),
    Value::String(text) if hidden => format!("a string of {} characters", text.chars().count()),
    Value::String(text) => quote(text),
    Value::Array(items) => format!("an array of {} items", items.len()),
    Value::Object(map) => match map.get(INVALID) {
      Some(Value::String(text)) => shorten(text),
      _ => "an object".to_owned(),
    },
    Value::Number(_) if hidden => "a number".to_owned(),
    other => other.to_string(),
  }
}

/// Without control characters, and not long.
fn shorten(text: &str) -> String {
  let cleaned = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
  if text.chars().count() <= MAX_GUESSED_KEY {
    cleaned.collect()
  } else {
    cleaned.take(MAX_GUESSED_KEY).chain(['…']).collect()
  }
}

/// The known key that `key` was probably meant to be.
fn closest(key: &str, known: &[&'static str]) -> Option<&'static str> {
  if key.chars().count() > MAX_GUESSED_KEY {
    return None;
  }
  let folded = |word: &str| word.to_lowercase().chars().collect::<Vec<char>>();
  let from = folded(key);
  let scored = known.iter().map(|word| {
    let to = folded(word);
    // Two edits turn any word of four letters into too many others.
    let near = MAX_EDITS.min(from.len().max(to.len()).saturating_sub(1) / 2);
    (edits(&from, &to), near, *word)
  });
  let (.., word) =
    scored.filter(|(distance, near, _)| distance <= near).min_by_key(|(distance, ..)| *distance)?;
  Some(word)
}

/// Insertions, deletions and replacements between two words.
fn edits(from: &[char], to: &[char]) -> usize {
  let mut row: Vec<usize> = (0..=to.len()).collect();
  for (above, left_char) in from.iter().enumerate() {
    let mut left = above + 1;
    let mut next = vec![left];
    for (up_char, pair) in to.iter().zip(row.windows(2)) {
      let &[diagonal, up] = pair else { continue };
      left = (diagonal + usize::from(left_char != up_char)).min(up + 1).min(left + 1);
      next.push(left);
    }
    row = next;
  }
  row.last().copied().unwrap_or_default()
}
