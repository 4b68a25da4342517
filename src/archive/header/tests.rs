use proptest::prelude::*;

use super::super::fixture::Raw;
use super::*;

#[test]
fn numbers_in_octal() {
  for (field, value) in [
    (b"0000644\0".as_slice(), Some(0o644)),
    (b"  644 \0\0", Some(0o644)),
    (b"0000644 ", Some(0o644)),
    (b"777777777777", Some(0o777_777_777_777)),
    (b"0", Some(0)),
    (b"            ", None),
    (b"\0\0\0\0\0\0\0\0", None),
    (b"", None),
    (b"0000648\0", None),
    (b"-000001\0", None),
    (b"+000001\0", None),
    (b"64 4\0", None),
    (b"64\x004\0", None),
    (b"0x1f\0", None),
  ] {
    assert_eq!(number(field), value, "{:?}", field.escape_ascii().to_string());
  }
}

#[test]
fn numbers_in_base_256() {
  for (field, value) in [
    (b"\x80\0\0\0\0\0\0\x02\0\0\0\0".as_slice(), Some(1 << 33)),
    (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", Some(1 << 63)),
    (b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", Some((1 << 63) - 1)),
    (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Some(-1)),
    (b"\xc0\0\0\0\0\0\0\0\0\0\0\0", Some(-(1 << 94))),
    (b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Some((1 << 94) - 1)),
  ] {
    assert_eq!(number(field), value, "{:?}", field.escape_ascii().to_string());
  }
}

#[test]
fn the_checksum_and_the_format_are_checked() {
  let block = |raw: &Raw| <[u8; BLOCK]>::try_from(raw.seal()).unwrap();
  let raw = Raw::new(b'0', b"name", 5);
  let sealed = block(&raw);
  let header = Header::parse(&sealed).unwrap();
  assert_eq!((header.name(), header.kind(), header.size()), (b"name".to_vec(), b'0', Some(5)));
  assert_eq!((header.mode(), header.mtime(), header.link()), (Some(0o644), Some(7), Vec::new()));
  for at in [0, 100, 148, 156, 511] {
    let mut bent = sealed;
    bent[at] ^= 1;
    assert_eq!(Header::parse(&bent).err(), Some("a header's checksum is wrong"), "byte {at}");
  }
  let mut odd = raw;
  assert_eq!(
    Header::parse(&block(odd.set(257, b"ustar\x0001"))).err(),
    Some("a header is of no known tar format")
  );
}

#[test]
fn only_ustar_has_a_prefix() {
  let mut raw = Raw::new(b'0', &[b'n'; 100], 0);
  raw.set(345, b"pre/fix");
  let name = |raw: &Raw| Header::parse(&raw.seal().try_into().unwrap()).unwrap().name();
  assert_eq!(name(&raw), [b"pre/fix/", &[b'n'; 100][..]].concat());
  // GNU keeps times there, and old tar nothing at all.
  assert_eq!(name(raw.clone().set(257, b"ustar  \0")), [b'n'; 100]);
  assert_eq!(name(raw.set(257, &[0; 8])), [b'n'; 100]);
}

proptest! {
  #[test]
  fn no_block_panics(block in prop::collection::vec(any::<u8>(), BLOCK), seal in any::<bool>()) {
    let mut raw = Raw(block.try_into().unwrap());
    raw.set(257, b"ustar\x0000");
    let block = if seal { raw.seal().try_into().unwrap() } else { raw.0 };
    if let Ok(header) = Header::parse(&block) {
      let _ = (header.name(), header.link(), header.mode(), header.size(), header.mtime());
    }
  }
}
