use super::*;

fn end(code: i64) -> ProcessEnd {
  ProcessEnd { exit_code: Some(code), signal: None, outcome: Outcome::Exited, duration: Duration::ZERO }
}

fn told(batch: Option<Vec<Piece>>) -> Vec<(OutputStream, String)> {
  let text = |piece: Piece| (piece.stream, String::from_utf8(piece.data.to_vec()).unwrap());
  batch.unwrap_or_default().into_iter().map(text).collect()
}

#[tokio::test]
async fn neighbours_of_one_stream_come_as_one_piece_and_the_order_stays() {
  let (writer, reader) = output();
  for (stream, text) in [
    (OutputStream::Stdout, "a"),
    (OutputStream::Stdout, ""),
    (OutputStream::Stdout, "b"),
    (OutputStream::Stderr, "c"),
    (OutputStream::Stdout, "d"),
  ] {
    writer.push(stream, Bytes::from(text));
  }
  let expected = [(OutputStream::Stdout, "ab"), (OutputStream::Stderr, "c"), (OutputStream::Stdout, "d")];
  assert_eq!(told(reader.next().await.unwrap()), expected.map(|(stream, text)| (stream, text.to_owned())));
  writer.close(Ok(()));
  assert_eq!(reader.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_batch_ends_at_its_size_and_gives_the_writer_room() {
  let (writer, reader) = output();
  let half = Bytes::from(vec![7; BATCH_BYTES / 2]);
  writer.push(OutputStream::Stdout, half.clone());
  assert!(writer.has_room());
  writer.push(OutputStream::Stdout, half.clone());
  assert!(!writer.has_room());
  writer.push(OutputStream::Stdout, Bytes::from_static(b"x"));
  let batch = reader.next().await.unwrap().unwrap();
  assert_eq!(batch.iter().map(|piece| piece.data.len()).collect::<Vec<_>>(), [BATCH_BYTES]);
  writer.room().await;
  assert_eq!(told(reader.next().await.unwrap()), [(OutputStream::Stdout, "x".to_owned())]);
  assert_eq!(writer.passed(), BATCH_BYTES as u64 + 1);
}

#[tokio::test]
async fn a_piece_larger_than_a_batch_comes_whole() {
  let (writer, reader) = output();
  writer.push(OutputStream::Stderr, Bytes::from(vec![1; BATCH_BYTES + 1]));
  assert_eq!(reader.next().await.unwrap().unwrap().first().unwrap().data.len(), BATCH_BYTES + 1);
}

#[tokio::test]
async fn many_tiny_pieces_hold_the_writer_back_too() {
  let (writer, _reader) = output();
  for _ in 0..HELD_PIECES {
    assert!(writer.has_room());
    writer.push(OutputStream::Stdout, Bytes::from_static(b"x"));
  }
  assert!(!writer.has_room());
}

#[tokio::test]
async fn the_end_is_known_before_the_output_is_read() {
  let (writer, reader) = output();
  writer.push(OutputStream::Stdout, Bytes::from_static(b"rest"));
  writer.exited(end(3));
  writer.exited(end(4));
  assert_eq!(reader.end().await.unwrap(), end(3));
  assert_eq!(told(reader.next().await.unwrap()), [(OutputStream::Stdout, "rest".to_owned())]);
}

#[tokio::test]
async fn an_error_outruns_what_waits_and_a_writer_that_vanishes_is_one() {
  let (writer, reader) = output();
  writer.push(OutputStream::Stdout, Bytes::from_static(b"late"));
  writer.close(Err(fail!(Released, "gone")));
  assert_eq!(reader.next().await.unwrap_err().message(), "gone");
  assert_eq!(reader.end().await.unwrap_err().message(), "gone");
  let (writer, reader) = output();
  drop(writer);
  assert_eq!(reader.end().await.unwrap_err().code(), crate::error::ErrorCode::Internal);
}
