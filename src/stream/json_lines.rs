//! The Engine API's streams of JSON values (progress of a pull, events), as they arrive in chunks of any size.
//!
//! Values stand apart by any white space or none, and a chunk may end anywhere: in a value, or between a value and the
//! line end that belongs to it. All values are objects or arrays, so brackets say where one ends.

use serde_json::Value;

use crate::error::{Result, fail};
use crate::limits::MAX_JSON_VALUE_BYTES;

/// Puts chunks together into values.
#[derive(Debug, Default)]
pub struct JsonLines {
  /// The beginning of a value that has not ended.
  partial: Vec<u8>,
  place: Place,
}

/// Where in a value the next byte is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
  /// Open brackets; 0 between values.
  depth: usize,
  in_string: bool,
  escaped: bool,
}

impl JsonLines {
  /// Takes the next chunk, returns the values that it completes. What is no JSON is `DOCKER_API`, a value over 1 MiB is
  /// `LIMIT`; after an error the stream is of no more use.
  pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<Value>> {
    let mut values = Vec::new();
    // What of the chunk belongs to the value under way.
    let mut from = 0;
    for (at, byte) in chunk.iter().enumerate() {
      if self.place.depth == 0 {
        from = at;
        match byte {
          b' ' | b'\t' | b'\r' | b'\n' => continue,
          b'{' | b'[' => {}
          _ => return Err(fail!(DockerApi, "The engine sent something else where a JSON object was due.")),
        }
      }
      self.place.step(*byte);
      if self.place.depth == 0 {
        self.extend(chunk.get(from..=at).unwrap_or_default())?;
        values.push(self.take()?);
      }
    }
    if self.place.depth > 0 {
      self.extend(chunk.get(from..).unwrap_or_default())?;
    }
    Ok(values)
  }

  /// Says that the stream ended; in the middle of a value that is `DOCKER_API`.
  pub fn finish(self) -> Result<()> {
    if self.place.depth == 0 {
      return Ok(());
    }
    Err(fail!(
      DockerApi,
      "The engine's stream ended in the middle of a JSON value, after {} bytes of it.",
      self.partial.len()
    ))
  }

  fn extend(&mut self, part: &[u8]) -> Result<()> {
    if self.partial.len() + part.len() > MAX_JSON_VALUE_BYTES {
      return Err(fail!(Limit, "The engine sent a JSON value of more than {MAX_JSON_VALUE_BYTES} bytes."));
    }
    self.partial.extend_from_slice(part);
    Ok(())
  }

  fn take(&mut self) -> Result<Value> {
    let value = serde_json::from_slice(&self.partial)
      .map_err(|error| fail!(DockerApi, "The engine sent malformed JSON.").with_source(error));
    self.partial.clear();
    value
  }
}

impl Place {
  /// Follows brackets and strings; whether they fit each other is for the parser.
  fn step(&mut self, byte: u8) {
    if self.in_string {
      self.in_string = self.escaped || byte != b'"';
      self.escaped = !self.escaped && byte == b'\\';
      return;
    }
    match byte {
      b'"' => self.in_string = true,
      b'{' | b'[' => self.depth += 1,
      b'}' | b']' => self.depth -= 1,
      _ => {}
    }
  }
}

#[cfg(test)]
mod tests;
