//! Streams of JSON values, as engines send progress: values parted by white space or nothing, each cut into any number
//! of reads.

use serde_json::{Deserializer, Value};

use crate::error::{Result, fail};

/// Longest value. Progress messages have a few hundred bytes.
const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Collects values from pieces.
#[derive(Debug, Default)]
pub struct JsonLines {
  rest: Vec<u8>,
}

impl JsonLines {
  /// The values that are whole with this piece.
  pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Value>> {
    self.rest.extend_from_slice(piece);
    let mut values = Vec::new();
    let mut stream = Deserializer::from_slice(&self.rest).into_iter::<Value>();
    loop {
      match stream.next() {
        Some(Ok(value)) => values.push(value),
        None => break,
        Some(Err(error)) if error.is_eof() => break,
        Some(Err(error)) => {
          return Err(fail!(DockerApi, "The Docker engine's progress is no JSON.").with_source(error));
        }
      }
    }
    let read = stream.byte_offset();
    self.rest.drain(..read);
    if self.rest.len() > MAX_VALUE_BYTES {
      return Err(fail!(
        Limit,
        "One progress message of the Docker engine is longer than {MAX_VALUE_BYTES} bytes."
      ));
    }
    Ok(values)
  }

  /// To be called at the end of the stream: an error where a value is half there.
  pub fn finish(self) -> Result<()> {
    if self.rest.trim_ascii().is_empty() {
      return Ok(());
    }
    Err(fail!(DockerApi, "The Docker engine's progress stopped in the middle of a message."))
  }
}

#[cfg(test)]
mod tests {
  use serde_json::json;

  use super::*;

  fn read(pieces: &[&str]) -> Result<Vec<Value>> {
    let (mut lines, mut all) = (JsonLines::default(), Vec::new());
    for piece in pieces {
      all.extend(lines.push(piece.as_bytes())?);
    }
    lines.finish().map(|()| all)
  }

  #[test]
  fn the_line_end_may_come_in_another_read_than_the_value() {
    let expected = vec![json!({"a": 1}), json!({"b": 2})];
    assert_eq!(read(&["{\"a\":1}", "\r\n", "\r\n{\"b\":2}"]).unwrap(), expected);
    assert_eq!(read(&["{\"a\":1}{\"b\":2}\n\n"]).unwrap(), expected);
    let bytes: Vec<String> = "{\"a\":1}\r\n{\"b\":2}\r\n".chars().map(String::from).collect();
    assert_eq!(read(&bytes.iter().map(String::as_str).collect::<Vec<_>>()).unwrap(), expected);
  }

  #[test]
  fn half_a_value_is_an_error_only_at_the_end() {
    assert!(read(&["{\"a\":1}\r\n{\"b\""]).is_err());
    assert_eq!(read(&[]).unwrap(), Vec::<Value>::new());
    assert_eq!(read(&[" \r\n "]).unwrap(), Vec::<Value>::new());
  }

  #[test]
  fn what_is_no_json_and_what_never_ends_is_refused() {
    assert!(read(&["<html>"]).is_err());
    let long = format!("{{\"a\":\"{}", "x".repeat(MAX_VALUE_BYTES));
    assert!(read(&[&long]).is_err());
  }
}
