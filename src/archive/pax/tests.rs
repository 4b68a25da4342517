use proptest::prelude::*;

use super::super::fixture::record;
use super::*;

const MALFORMED: PaxError = PaxError::Damaged("a PAX record is malformed");

fn parse(records: &[(&str, &[u8])]) -> Result<Pax, PaxError> {
  Pax::parse(&records.iter().flat_map(|(key, value)| record(key, value)).collect::<Vec<_>>())
}

#[test]
fn keeps_what_counts() {
  let pax = parse(&[
    ("path", b"a\nb=\xff"),
    ("linkpath", b"t"),
    ("size", b"42"),
    ("mtime", b"1.5"),
    ("uid", b"831580115"),
    ("comment", b""),
  ]);
  let expected = Pax {
    path: Some(b"a\nb=\xff".to_vec()),
    link: Some(b"t".to_vec()),
    size: Some(42),
    mtime: Some(1),
    sparse: false,
  };
  assert_eq!(pax, Ok(expected));
  assert_eq!(Pax::parse(b""), Ok(Pax::default()));
  assert!(parse(&[("comment", b"0123abcd"), ("mtime", b"1")]).unwrap().is_harmless());
  for key in ["path", "linkpath", "size", "GNU.sparse.major"] {
    assert!(!parse(&[(key, b"1")]).unwrap().is_harmless(), "{key}");
  }
}

#[test]
fn refuses_names_with_nul_or_nothing() {
  for key in ["path", "linkpath"] {
    assert_eq!(parse(&[(key, b"safe\0/../evil")]), Err(PaxError::Refused(Refusal::Nul)));
    assert_eq!(parse(&[(key, b"")]), Err(PaxError::Refused(Refusal::EmptyName)));
  }
}

#[test]
fn refuses_what_is_said_twice() {
  for key in ["path", "linkpath", "size", "mtime"] {
    assert_eq!(parse(&[(key, b"1"), (key, b"1")]), Err(PaxError::Refused(Refusal::Ambiguous)), "{key}");
  }
  assert!(parse(&[("uid", b"1"), ("uid", b"2")]).is_ok());
}

#[test]
fn sizes_are_plain_digits() {
  for size in [b"".as_slice(), b"-1", b"+1", b" 1", b"1 ", b"0x1", b"1.0", b"18446744073709551616"] {
    assert_eq!(parse(&[("size", size)]), Err(PaxError::Damaged("a PAX size is malformed")));
  }
  assert_eq!(parse(&[("size", b"18446744073709551615")]).unwrap().size, Some(u64::MAX));
}

#[test]
fn times_are_rounded_down_and_cut_off() {
  for (value, seconds) in [
    ("0", 0),
    ("-1", -1),
    ("1.999999999", 1),
    ("-1.5", -2),
    ("-1.0", -1),
    ("8589934592", 1 << 33),
    ("99999999999999999999", i64::MAX),
    ("-99999999999999999999", -i64::MAX),
  ] {
    assert_eq!(parse(&[("mtime", value.as_bytes())]).unwrap().mtime, Some(seconds), "{value}");
  }
  for value in ["", "-", ".", ".5", "1e3", "1.5.5", "--1", "١"] {
    let error = parse(&[("mtime", value.as_bytes())]).unwrap_err();
    assert_eq!(error, PaxError::Damaged("a PAX time is malformed"), "{value}");
  }
}

#[test]
fn malformed_records_are_damage() {
  for records in [
    b"6 a=b".as_slice(),
    b"7 a=b\n",
    b"5 a=b\n",
    b"6 a=bc\n",
    b"0 \n",
    b"3 \n\n",
    b"6a=b\n",
    b" 6 a=b\n",
    b"-6 a=b\n",
    b"6 abc\n",
    b"5 =b\n",
    b"99999999999999999999999 a=b\n",
    b"6 a=b\n\0",
    b"\0",
    b"6 a=b\n6 a=b",
  ] {
    assert_eq!(Pax::parse(records), Err(MALFORMED), "{:?}", records.escape_ascii().to_string());
  }
}

proptest! {
  #[test]
  fn no_records_panic(records in prop::collection::vec(prop::sample::select(b"0126 =\n\0-.apthsize".to_vec()), 0..60)) {
    let _ = Pax::parse(&records);
  }

  #[test]
  fn a_name_comes_back(name in prop::collection::vec(1_u8.., 1..300)) {
    prop_assert_eq!(parse(&[("path", &name)]).unwrap().path, Some(name));
  }
}
