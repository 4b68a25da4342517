use proptest::prelude::*;

use super::*;

const EARLY_DATA: &[u8] = &[23, 3, 3, 0, 2, 1, 2];

fn host() -> Host {
  Host::parse("good.com").unwrap()
}

fn vector(bytes: &[u8]) -> Vec<u8> {
  [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, value: &[u8]) -> Vec<u8> {
  [kind.to_be_bytes().to_vec(), vector(value)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
  extension(0, &vector(&[vec![0], vector(name)].concat()))
}

/// A ClientHello with these extensions.
fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
  let mut body = vec![3, 3];
  body.extend([7; 32]);
  body.extend([0]);
  body.extend(vector(&[0x13, 0x01]));
  body.extend([1, 0]);
  body.extend(vector(&extensions.concat()));
  message(&body)
}

fn message(body: &[u8]) -> Vec<u8> {
  let length = u32::try_from(body.len()).unwrap().to_be_bytes();
  [&[1], &length[1..], body].concat()
}

/// Handshake bytes in records of at most so many bytes.
fn records(message: &[u8], most: usize) -> Vec<u8> {
  message.chunks(most).flat_map(|part| [vec![22, 3, 1], vector(part)].concat()).collect()
}

fn good() -> Vec<u8> {
  hello(&[extension(43, &[2, 3, 4]), server_name(b"good.com"), extension(16, b"h2")])
}

/// Pushes the bytes in parts of at most so many; returns what passed, or why nothing did.
fn sniff(bytes: &[u8], most: usize, tls_only: bool) -> Result<Vec<u8>, HelloFault> {
  let host = host();
  let mut sniffer = Sniffer::new(&host, tls_only);
  let mut passed = None;
  for part in bytes.chunks(most) {
    match &mut passed {
      None => {
        if let Sniffed::Pass(held) = sniffer.push(part)? {
          passed = Some(held);
        }
      }
      Some(passed) => passed.extend_from_slice(part),
    }
  }
  Ok(passed.unwrap_or_default())
}

#[test]
fn a_hello_for_the_host_passes_however_it_is_cut() {
  for fragment in [1, 2, 3, 7, 50, 16_384] {
    let bytes = [records(&good(), fragment), EARLY_DATA.to_vec()].concat();
    for part in [1, 2, 5, 6, 64, 100_000] {
      assert_eq!(sniff(&bytes, part, true).as_ref(), Ok(&bytes), "{fragment} {part}");
    }
  }
}

#[test]
fn nothing_passes_before_the_hello_is_whole() {
  let host = host();
  let bytes = records(&good(), 20);
  let mut sniffer = Sniffer::new(&host, true);
  for byte in &bytes[..bytes.len() - 1] {
    assert_eq!(sniffer.push(&[*byte]), Ok(Sniffed::More));
    assert!(sniffer.is_holding());
  }
  assert_eq!(sniffer.push(&bytes[bytes.len() - 1..]), Ok(Sniffed::Pass(bytes)));
  assert!(!sniffer.is_holding());
}

#[test]
fn names_are_compared_as_all_names_are() {
  for name in ["GOOD.com", "good.com."] {
    assert!(sniff(&records(&hello(&[server_name(name.as_bytes())]), 100), 10, true).is_ok(), "{name}");
  }
  for name in ["evil.com", "a.good.com", "good.com.evil.com", "127.0.0.1", "good.com\0", "", "g\u{f6}od.com"]
  {
    let bytes = records(&hello(&[server_name(name.as_bytes())]), 100);
    for part in [1, 1000] {
      assert_eq!(sniff(&bytes, part, true), Err(HelloFault::OtherName), "{name:?}");
      assert_eq!(sniff(&bytes, part, false), Err(HelloFault::OtherName), "{name:?}");
    }
  }
}

#[test]
fn one_other_byte_in_the_name_is_another_name() {
  for at in 0..8 {
    for value in 0..=255_u8 {
      let mut name = *b"good.com";
      let same = name[at].eq_ignore_ascii_case(&value);
      name[at] = value;
      let bytes = records(&hello(&[server_name(&name)]), 1000);
      assert_eq!(sniff(&bytes, 1000, true).is_ok(), same, "{name:?}");
    }
  }
}

#[test]
fn an_encrypted_hello_counts_by_its_outer_name() {
  let ech = extension(0xfe0d, &[0; 64]);
  let bytes = records(&hello(&[ech.clone(), server_name(b"good.com")]), 100);
  assert_eq!(sniff(&bytes, 9, true), Ok(bytes));
  let bytes = records(&hello(&[ech, server_name(b"cloudflare-ech.com")]), 100);
  assert_eq!(sniff(&bytes, 9, true), Err(HelloFault::OtherName));
}

#[test]
fn a_hello_without_one_clear_name_is_refused() {
  let two_entries = vector(&[vec![0], vector(b"good.com"), vec![0], vector(b"evil.com")].concat());
  let empty_list = vector(&[]);
  let other_type = vector(&[vec![1], vector(b"good.com")].concat());
  let mut no_extensions = good();
  no_extensions.truncate(4 + 2 + 32 + 1 + 4 + 2);
  for (name, bytes, fault) in [
    ("none", hello(&[extension(43, &[2, 3, 4])]), HelloFault::NoName),
    ("no extensions", message(&no_extensions[4..]), HelloFault::NoName),
    ("two extensions", hello(&[server_name(b"good.com"), server_name(b"evil.com")]), HelloFault::Malformed),
    ("two entries", hello(&[extension(0, &two_entries)]), HelloFault::Malformed),
    ("no entry", hello(&[extension(0, &empty_list)]), HelloFault::Malformed),
    ("no list", hello(&[extension(0, &[])]), HelloFault::Malformed),
    ("another type", hello(&[extension(0, &other_type)]), HelloFault::Malformed),
    ("bytes behind", message(&[&good()[4..], &[0]].concat()), HelloFault::Malformed),
    ("cut", message(&good()[4..50]), HelloFault::Malformed),
  ] {
    assert_eq!(sniff(&records(&bytes, 1000), 1000, true), Err(fault), "{name}");
  }
}

#[test]
fn what_follows_in_the_hellos_record_is_refused() {
  let two = [good(), hello(&[server_name(b"evil.com")])].concat();
  assert_eq!(sniff(&records(&two, 10_000), 10_000, true), Err(HelloFault::Malformed));
}

#[test]
fn other_records_before_the_hello_are_refused() {
  let alert =
    [&[21, 3, 1, 0, 2, 1, 0], records(&hello(&[server_name(b"evil.com")]), 1000).as_slice()].concat();
  let cipher_change = [&[20, 3, 3, 0, 1, 1], records(&good(), 1000).as_slice()].concat();
  let empty = [&[22, 3, 1, 0, 0], records(&good(), 1000).as_slice()].concat();
  let too_long = [22, 3, 1, 0x40, 1];
  let server_hello = records(&[&[2], &good()[1..]].concat(), 1000);
  for bytes in [&alert[..], &cipher_change, &empty, &too_long, &server_hello] {
    for tls_only in [true, false] {
      assert_eq!(sniff(bytes, 1000, tls_only), Err(HelloFault::Malformed), "{:?}", &bytes[..5]);
    }
  }
}

#[test]
fn what_is_no_tls_passes_on_other_ports_alone() {
  for bytes in [
    &b"SSH-2.0-x\r\n"[..],
    b"GET / HTTP/1.1\r\n",
    b"\x16\x04abc\x02",
    b"\x17\x00",
    b"\x80\x2e\x02\x03\x01",
    b"\x80\x2e\x01\x00\x03",
    b"\0",
  ] {
    for part in [1, 100] {
      assert_eq!(sniff(bytes, part, true), Err(HelloFault::NotTls), "{bytes:?}");
      assert_eq!(sniff(bytes, part, false).as_deref(), Ok(bytes), "{bytes:?}");
    }
  }
}

#[test]
fn a_hello_in_a_form_that_only_some_servers_read_is_refused_on_every_port() {
  let evil = hello(&[server_name(b"evil.com")]);
  for major in [0, 1, 2, 4, 254] {
    let mut bytes = records(&evil, 1000);
    bytes[1] = major;
    for part in [1, 100] {
      assert_eq!(sniff(&bytes, part, false), Err(HelloFault::Malformed), "{major}");
      assert_eq!(sniff(&bytes, part, true), Err(HelloFault::NotTls), "{major}");
    }
  }
  for bytes in [b"\x80\x2e\x01\x03\x01\0", b"\x81\x00\x01\x00\x02\0"] {
    for part in [1, 100] {
      assert_eq!(sniff(bytes, part, false), Err(HelloFault::NoName));
      assert_eq!(sniff(bytes, part, true), Err(HelloFault::NotTls));
    }
  }
}

#[test]
fn what_follows_a_hello_begins_where_its_record_ends() {
  let host = host();
  let first = records(&good(), 30);
  let mut sniffer = Sniffer::new(&host, true);
  assert!(sniffer.push(&[first.as_slice(), EARLY_DATA].concat()).is_ok());
  assert_eq!(sniffer.hello_end(), Some(first.len()));
  let mut sniffer = Sniffer::new(&host, false);
  assert!(sniffer.push(b"SSH-2.0").is_ok());
  assert_eq!(sniffer.hello_end(), None);
}

#[test]
fn a_hello_is_held_back_up_to_a_limit() {
  let padded = |bytes: usize| {
    let rest = bytes - hello(&[server_name(b"good.com"), extension(21, &[])]).len();
    hello(&[server_name(b"good.com"), extension(21, &vec![0; rest])])
  };
  let fits = records(&padded(MAX_CLIENT_HELLO_BYTES - 100), 16_384);
  assert_eq!(sniff(&fits, 1000, true), Ok(fits.clone()));
  let too_long = records(&padded(MAX_CLIENT_HELLO_BYTES + 5), 16_384);
  assert_eq!(sniff(&too_long, 1000, true), Err(HelloFault::TooLong));
  // Many tiny records: more bytes around the message than in it.
  let tiny = records(&padded(MAX_CLIENT_HELLO_BYTES / 4), 1);
  assert_eq!(sniff(&tiny, 1000, true), Err(HelloFault::TooLong));
  // A length that is only announced.
  assert_eq!(sniff(&[22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff], 9, true), Err(HelloFault::TooLong));
}

proptest! {
  #[test]
  fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), part in 1..50_usize) {
    let record = records(&[&[1, 0, 1, 0], bytes.as_slice()].concat(), 70);
    prop_assert!(sniff(&record, part, true).is_err() || bytes.len() < 256);
    drop(sniff(&bytes, part, false));
  }
}
