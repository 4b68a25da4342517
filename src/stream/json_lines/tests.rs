use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::error::ErrorCode;

fn read(chunks: &[&[u8]]) -> Result<Vec<Value>> {
  let mut lines = JsonLines::default();
  let mut values = Vec::new();
  for chunk in chunks {
    values.extend(lines.push(chunk)?);
  }
  lines.finish()?;
  Ok(values)
}

#[track_caller]
fn failure(chunks: &[&[u8]]) -> (ErrorCode, String) {
  let error = read(chunks).unwrap_err();
  (error.code(), error.message().to_owned())
}

#[test]
fn a_line_end_may_come_apart_from_its_value() {
  let chunks: [&[u8]; 3] = [br#"{"a":1}"#, b"\r\n", b"\r\n{\"b\":2}"];
  assert_eq!(read(&chunks).unwrap(), [json!({"a": 1}), json!({"b": 2})]);
  assert_eq!(read(&[b"{}\r", b"\n{}\r", b"\n"]).unwrap(), [json!({}), json!({})]);
}

#[test]
fn values_stand_apart_by_anything_or_nothing() {
  let all = br#"{"a":1}{"b":[2,{"c":"}"}]}  []
	[{}]"#;
  let expected = [json!({"a": 1}), json!({"b": [2, {"c": "}"}]}), json!([]), json!([{}])];
  assert_eq!(read(&[all]).unwrap(), expected);
  assert_eq!(read(&[b"", b"\n\n", b" \r\n", b""]).unwrap(), [] as [Value; 0]);
  assert_eq!(read(&[]).unwrap(), [] as [Value; 0]);
}

#[test]
fn values_come_as_soon_as_they_are_complete() {
  let mut lines = JsonLines::default();
  assert_eq!(lines.push(b"{\"a\"").unwrap(), [] as [Value; 0]);
  assert_eq!(lines.push(b":1}{").unwrap(), [json!({"a": 1})]);
  assert_eq!(lines.push(b"}").unwrap(), [json!({})]);
  lines.finish().unwrap();
}

#[test]
fn brackets_and_quotes_in_strings_are_text() {
  let all = r#"{"s":"\\\"}{[\u007d","t\\":"é\\"}"#.as_bytes();
  assert_eq!(read(&[all]).unwrap(), [json!({"s": "\\\"}{[}", "t\\": "é\\"})]);
}

#[test]
fn only_half_a_value_at_the_end_is_an_error() {
  let all = br#"{"a":"b\"c"}"#;
  for end in 1..all.len() {
    let message =
      format!("The engine's stream ended in the middle of a JSON value, after {end} bytes of it.");
    assert_eq!(failure(&[&all[..end]]), (ErrorCode::DockerApi, message));
  }
  assert_eq!(read(&[all]).unwrap(), [json!({"a": "b\"c"})]);
}

#[test]
fn what_is_no_json_is_an_error() {
  let other = "The engine sent something else where a JSON object was due.".to_owned();
  for chunk in [b"<html>".as_slice(), b"1", b"null", b"}", b"{},{}", b"\0", b"\xef\xbb\xbf{}"] {
    assert_eq!(failure(&[chunk]), (ErrorCode::DockerApi, other.clone()), "{}", chunk.escape_ascii());
  }
  let malformed = "The engine sent malformed JSON.".to_owned();
  for chunk in [b"{]".as_slice(), b"{a:1}", b"[1,]", b"{\"a\":\"\xff\"}", b"[\x0c]"] {
    assert_eq!(failure(&[chunk]), (ErrorCode::DockerApi, malformed.clone()), "{}", chunk.escape_ascii());
  }
  let deep = [vec![b'['; 200], vec![b']'; 200]].concat();
  assert_eq!(failure(&[&deep]), (ErrorCode::DockerApi, malformed));
}

#[test]
fn values_are_bounded_at_the_limit_and_one_past_it() {
  let value = |size: usize| [b"[\"", "x".repeat(size - 4).as_bytes(), b"\"]"].concat();
  let most = value(MAX_JSON_VALUE_BYTES);
  let twice = [most.clone(), most.clone()].concat();
  assert_eq!(read(&[&twice]).unwrap().len(), 2);
  let split: Vec<&[u8]> = most.chunks(1000).collect();
  assert_eq!(read(&split).unwrap().len(), 1);
  let more = value(MAX_JSON_VALUE_BYTES + 1);
  let message = format!("The engine sent a JSON value of more than {MAX_JSON_VALUE_BYTES} bytes.");
  assert_eq!(failure(&[&more]), (ErrorCode::Limit, message.clone()));
  let split: Vec<&[u8]> = more.chunks(1000).collect();
  assert_eq!(failure(&split), (ErrorCode::Limit, message.clone()));
  // One that never ends is stopped there, too.
  let mut lines = JsonLines::default();
  let endless = (0..2000).map(|_| lines.push(&[b'['; 1000])).find_map(Result::err).unwrap();
  assert_eq!((endless.code(), endless.message()), (ErrorCode::Limit, message.as_str()));
}

fn value() -> impl Strategy<Value = Value> {
  let leaf = prop_oneof![
    any::<i32>().prop_map(Value::from),
    "[\"\\\\{}é ]{0,6}".prop_map(Value::from),
    Just(Value::Null)
  ];
  leaf.prop_recursive(3, 16, 4, |inner| {
    prop_oneof![
      prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
      prop::collection::hash_map("[a\"}]{0,3}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
    ]
  })
}

proptest! {
  #[test]
  fn chunks_make_no_difference(
    values in prop::collection::vec((prop::collection::vec(value(), 0..3).prop_map(Value::from), "[ \r\n\t]{0,3}"), 0..5),
    chunk in 1_usize..20,
  ) {
    let text: String = values.iter().map(|(value, gap)| format!("{value}{gap}")).collect();
    let chunks: Vec<_> = text.as_bytes().chunks(chunk).collect();
    prop_assert_eq!(read(&chunks).unwrap(), values.into_iter().map(|(value, _)| value).collect::<Vec<_>>());
  }

  #[test]
  fn no_bytes_panic(bytes in prop::collection::vec(prop::sample::select(b"{}[]\"\\ \n:,1a\xff".to_vec()), 0..40), chunk in 1_usize..9) {
    let _ = read(&bytes.chunks(chunk).collect::<Vec<_>>());
  }
}
