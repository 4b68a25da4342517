use proptest::prelude::*;

use super::super::SymlinkRule;
use super::super::fixture::*;
use super::*;

const CUT: fn(usize) -> ArchiveError = |at| ArchiveError::Cut { at: at as u64 };

#[test]
fn reads_files_directories_and_links() {
  let archive = archive(&[
    dir(b"./"),
    dir(b"./d/"),
    file(b"./d/f", b"hello"),
    link(b'2', b"./d/s", b"../d/f"),
    link(b'1', b"./h", b"./d/f"),
    file(b"empty", b""),
  ]);
  let seen = read(&archive).unwrap();
  let target = EntryPath::parse(b"d/f").unwrap();
  let expected = [
    (b"".as_slice(), EntryKind::Directory, b"".as_slice()),
    (b"d", EntryKind::Directory, b""),
    (b"d/f", EntryKind::File, b"hello"),
    (b"d/s", EntryKind::Symlink { target: b"../d/f".to_vec() }, b""),
    (b"h", EntryKind::HardLink { target }, b""),
    (b"empty", EntryKind::File, b""),
  ];
  assert_eq!(seen.len(), expected.len());
  for (seen, (path, kind, data)) in seen.iter().zip(expected) {
    assert_eq!((seen.entry.path.as_bytes(), &seen.entry.kind, &seen.data[..]), (path, &kind, data));
    assert_eq!((seen.entry.mode, seen.entry.mtime, seen.entry.implied), (0o644, 7, false));
  }
}

#[test]
fn directories_that_are_not_named_come_first() {
  let seen = read(&archive(&[file(b"a/b/f", b"x"), dir(b"a/"), file(b"a/g", b"")])).unwrap();
  let seen: Vec<_> = seen.iter().map(|s| (s.entry.path.as_bytes(), s.entry.implied, s.entry.mode)).collect();
  let expected = [
    (b"a".as_slice(), true, 0o755),
    (b"a/b", true, 0o755),
    (b"a/b/f", false, 0o644),
    (b"a", false, 0o644),
    (b"a/g", false, 0o644),
  ];
  assert_eq!(seen, expected);
}

#[test]
fn a_pax_size_wins_over_a_header_size_of_zero() {
  let inner = [file(b"evil", b""), vec![0; BLOCK]].concat();
  let outer = [Raw::new(b'0', b"outer.bin", 0).seal(), inner.clone()].concat();
  let archive = archive(&[pax(&[("size", inner.len().to_string().as_bytes())]), outer, file(b"good", b"")]);
  let seen = read(&archive).unwrap();
  assert_eq!(names(&archive), ["outer.bin", "good"]);
  assert_eq!(seen[0].data, inner);
}

#[test]
fn a_pax_size_wins_over_a_larger_header_size() {
  let f = [Raw::new(b'0', b"f", 1024).seal(), padded(b"four")].concat();
  let archive = archive(&[pax(&[("size", b"4")]), f, file(b"g", b"ok")]);
  assert_eq!(names(&archive), ["f", "g"]);
  assert_eq!(read(&archive).unwrap()[0].data, b"four");
}

#[test]
fn a_pax_size_counts_for_one_entry_only() {
  let f = [Raw::new(b'0', b"f", 0).seal(), padded(b"x")].concat();
  assert_eq!(
    names(&archive(&[pax(&[("size", b"1")]), f, file(b"g", b"yy"), file(b"h", b"")])),
    ["f", "g", "h"]
  );
}

#[test]
fn a_directory_does_not_follow_a_link_of_its_name() {
  assert_eq!(refusal(&archive(&[link(b'2', b"foo", b"bar"), dir(b"foo")])), Refusal::OtherType);
  assert_eq!(refusal(&archive(&[link(b'2', b"foo", b"bar"), dir(b"foo/")])), Refusal::OtherType);
}

#[test]
fn a_link_is_not_replaced_by_a_file_of_its_name() {
  assert_eq!(refusal(&archive(&[link(b'2', b"s", b"x"), file(b"s", b"data")])), Refusal::OtherType);
  let hard = archive(&[file(b"f", b"1"), link(b'1', b"s", b"f"), file(b"s", b"2")]);
  assert_eq!(refusal(&hard), Refusal::OtherType);
  // Nor the other way round, nor a directory that was only implied.
  assert_eq!(refusal(&archive(&[file(b"s", b""), link(b'2', b"s", b"x")])), Refusal::OtherType);
  assert_eq!(refusal(&archive(&[file(b"a/b", b""), link(b'2', b"a", b"x")])), Refusal::OtherType);
  // The same type twice is what `tar -r` makes.
  assert_eq!(names(&archive(&[file(b"f", b"1"), file(b"f", b"2")])), ["f", "f"]);
}

#[test]
fn nothing_goes_through_a_link_or_file() {
  assert_eq!(refusal(&archive(&[link(b'2', b"x", b"y"), file(b"x/f", b"")])), Refusal::BelowOther);
  assert_eq!(refusal(&archive(&[file(b"x", b""), dir(b"x/d")])), Refusal::BelowOther);
  let hard = archive(&[file(b"f", b""), link(b'1', b"x", b"f"), file(b"x/f", b"")]);
  assert_eq!(refusal(&hard), Refusal::BelowOther);
}

#[test]
fn names_that_differ_in_case_or_normal_form_stay_apart() {
  let parts = [dir(b"A/"), link(b'2', b"a", b"A"), file(b"A/f", b"")];
  assert_eq!(names(&archive(&parts)), ["A", "a", "A/f"]);
  let names_of =
    |a: &str, b: &str| names(&archive(&[file(a.as_bytes(), b""), link(b'2', b.as_bytes(), b"x")]));
  assert_eq!(names_of("\u{e9}", "e\u{301}"), [r"\xc3\xa9", r"e\xcc\x81"]);
  assert_eq!(names_of("ss", "ß"), ["ss", r"\xc3\x9f"]);
  assert_eq!(names(&archive(&[file(b"\xff", b""), link(b'2', b"\xfe", b"x")])), [r"\xff", r"\xfe"]);
}

#[test]
fn hard_links_lead_to_files_of_the_archive_only() {
  for target in [b"../../etc/passwd".as_slice(), b"/etc/passwd", b"nowhere", b"", b".", b"d", b"d/x", b"s"] {
    let archive = archive(&[dir(b"d"), link(b'2', b"s", b"d"), link(b'1', b"h", target)]);
    assert_eq!(refusal(&archive), Refusal::HardLink, "{:?}", target.escape_ascii().to_string());
  }
  let through = archive(&[link(b'2', b"d", b"e"), file(b"e/x", b""), link(b'1', b"h", b"d/x")]);
  assert_eq!(refusal(&through), Refusal::HardLink);
  assert_eq!(refusal(&archive(&[link(b'1', b"h", b"h")])), Refusal::HardLink);
  assert_eq!(refusal(&archive(&[link(b'1', b"h", b"f"), file(b"f", b"")])), Refusal::HardLink);
  let chain = archive(&[file(b"f", b""), link(b'1', b"g", b"f"), link(b'1', b"h", b"g")]);
  assert_eq!(names(&chain), ["f", "g", "h"]);
}

#[test]
fn symbolic_links_that_leave_are_refused_unless_the_caller_lets_them() {
  let archive = archive(&[link(b'2', b"python", b"/usr/bin/python3")]);
  assert_eq!(refusal(&archive), Refusal::LinkOutside);
  let anywhere = ArchiveLimits { symlinks: SymlinkRule::Anywhere, ..limits() };
  assert_eq!(read_in(&archive, anywhere, 7).unwrap().len(), 1);
}

#[test]
fn escaping_names_are_refused() {
  assert_eq!(refusal(&archive(&[file(b"../up", b"")])), Refusal::Parent);
  assert_eq!(refusal(&archive(&[file(b"/etc/cron.d/x", b"")])), Refusal::Absolute);
  assert_eq!(refusal(&archive(&[file(b"", b"")])), Refusal::EmptyName);
  assert_eq!(refusal(&archive(&[pax(&[("path", b"a/../../b")]), file(b"a", b"")])), Refusal::Parent);
  assert_eq!(refusal(&archive(&[entry(b'L', b"L", b"/abs\0"), file(b"a", b"")])), Refusal::Absolute);
  assert_eq!(refusal(&archive(&[file(b".", b"")])), Refusal::Root);
  assert_eq!(refusal(&archive(&[link(b'2', b"./", b"x")])), Refusal::Root);
  let mut split = Raw::new(b'0', b"../x", 0);
  assert_eq!(refusal(&archive(&[split.set(345, b"a").seal()])), Refusal::Parent);
}

#[test]
fn names_may_be_long() {
  let name = [b"d/".as_slice(), &[b'n'; 200]].concat();
  let target = [b't'; 200];
  let long = [
    entry(b'K', b"././@LongLink", &[&target[..], b"\0"].concat()),
    entry(b'L', b"././@LongLink", &[&name[..], b"\0"].concat()),
    link(b'2', b"short", b"short"),
  ];
  let in_pax = [pax(&[("path", &name), ("linkpath", &target)]), link(b'2', b"short", b"short")];
  for archive in [archive(&long), archive(&in_pax)] {
    let seen = read(&archive).unwrap();
    assert_eq!(seen[1].entry.path.as_bytes(), name);
    assert_eq!(seen[1].entry.kind, EntryKind::Symlink { target: target.to_vec() });
  }
  let cut_in_a_character = "a".to_owned() + &"å".repeat(60);
  let parts =
    [entry(b'L', b"L", cut_in_a_character.as_bytes()), file(&cut_in_a_character.as_bytes()[..100], b"")];
  assert_eq!(read(&archive(&parts)).unwrap()[0].entry.path.as_bytes(), cut_in_a_character.as_bytes());
}

#[test]
fn nul_in_a_name_never_shortens_it() {
  let pax = archive(&[pax(&[("path", b"safe\0/../evil")]), file(b"x", b"")]);
  assert_eq!(refusal(&pax), Refusal::Nul);
  let with = |name: &[u8]| archive(&[entry(b'L', b"L", name), file(b"x", b"")]);
  assert_eq!(names(&with(b"name")), ["name"]);
  assert_eq!(names(&with(b"name\0")), ["name"]);
  assert_eq!(refusal(&with(b"name\0\0")), Refusal::Nul);
  assert_eq!(refusal(&with(b"safe\0/../evil\0")), Refusal::Nul);
  assert_eq!(refusal(&with(b"\0")), Refusal::EmptyName);
  assert_eq!(refusal(&with(b"")), Refusal::EmptyName);
}

#[test]
fn what_two_records_say_is_refused() {
  let long = entry(b'L', b"L", b"a");
  let in_pax = pax(&[("path", b"b")]);
  for parts in [[long.clone(), long.clone()], [long.clone(), in_pax.clone()], [in_pax.clone(), in_pax]] {
    assert_eq!(refusal(&archive(&[parts.concat(), file(b"x", b"")])), Refusal::Ambiguous);
  }
  assert_eq!(damage(&archive(&[long])), "a record names an entry that does not follow");
}

#[test]
fn global_headers_may_only_comment() {
  let global = |key, value| entry(b'g', b"pax_global_header", &record(key, value));
  assert_eq!(names(&archive(&[global("comment", b"0123abcd"), file(b"a", b"")])), ["a"]);
  for key in ["path", "linkpath", "size"] {
    let archive = archive(&[global(key, b"1"), file(b"a", b"")]);
    assert_eq!(damage(&archive), "a global PAX header names, sizes or links all entries");
  }
  assert_eq!(limit(&archive(&vec![entry(b'g', b"g", b""); 101])), ("entries", 100));
}

#[test]
fn set_id_bits_are_dropped() {
  let mode =
    |mode: &[u8]| read(&archive(&[Raw::new(b'0', b"f", 0).set(100, mode).seal()])).unwrap()[0].entry.mode;
  assert_eq!(mode(b"0006755\0"), 0o755);
  assert_eq!(mode(b"0007777\0"), 0o777);
  assert_eq!(mode(b"0100644\0"), 0o644);
  assert_eq!(mode(b"0000000\0"), 0);
}

#[test]
fn only_files_directories_and_links_are_accepted() {
  for kind in b"3467DMNVXAZ89 \xff" {
    assert_eq!(refusal(&archive(&[Raw::new(*kind, b"x", 0).seal()])), Refusal::Type(*kind));
  }
  assert_eq!(names(&archive(&[entry(0, b"old", b"data")])), ["old"]);
  assert_eq!(refusal(&archive(&[entry(0, b"old/", b"")])), Refusal::FileWithSlash);
  assert_eq!(refusal(&archive(&[file(b"new/", b"")])), Refusal::FileWithSlash);
}

#[test]
fn only_files_have_contents() {
  for kind in [b'5', b'2'] {
    let mut raw = Raw::new(kind, b"x", 512);
    assert_eq!(refusal(&archive(&[raw.set(157, b"y").seal(), file(b"evil", b"")])), Refusal::Contents);
  }
  let sized = archive(&[pax(&[("size", b"512")]), dir(b"d"), file(b"evil", b"")]);
  assert_eq!(refusal(&sized), Refusal::Contents);
}

#[test]
fn sparse_files_are_refused_before_their_map_is_read() {
  let mut raw = Raw::new(b'S', b"sparse", 0);
  raw.set(257, b"ustar  \0").set(386, b"777777777777").set(398, b"000000000001");
  raw.set(483, b"\x80\0\0\0\0\0\x01\0\0\0\0\0");
  assert_eq!(refusal(&archive(&[raw.seal()])), Refusal::Sparse);
  for key in ["GNU.sparse.major", "GNU.sparse.realsize", "GNU.sparse.map", "SCHILY.realsize"] {
    let archive = archive(&[pax(&[(key, b"1099511627776")]), file(b"x", b"")]);
    assert_eq!(refusal(&archive), Refusal::Sparse, "{key}");
  }
}

#[test]
fn sizes_beyond_reason_are_refused_before_any_data() {
  let sized = |size: &[u8]| archive(&[Raw::new(b'0', b"x", 0).set(124, size).seal()]);
  assert_eq!(limit(&sized(b"\x80\0\0\0\0\0\0\x02\0\0\0\0")), ("bytes in one file", 4096));
  assert_eq!(limit(&sized(b"777777777777")), ("bytes in one file", 4096));
  assert_eq!(damage(&sized(b"\x80\0\0\0\x80\0\0\0\0\0\0\0")), "a header's size is impossible");
  assert_eq!(damage(&sized(&[0xff; 12])), "a header's size is impossible");
  assert_eq!(damage(&sized(b"\xc0\0\0\0\0\0\0\0\0\0\0\0")), "a header's size is impossible");
  assert_eq!(damage(&sized(b"            ")), "a header's size is no number");
  assert_eq!(damage(&sized(b"00000000009\0")), "a header's size is no number");
  let in_pax = archive(&[pax(&[("size", b"18446744073709551615")]), file(b"x", b"")]);
  assert_eq!(limit(&in_pax), ("bytes in one file", 4096));
}

#[test]
fn each_file_and_all_files_have_a_budget() {
  assert_eq!(names(&archive(&[file(b"a", &[1; 4096]), file(b"b", &[1; 4096])])), ["a", "b"]);
  assert_eq!(limit(&archive(&[file(b"a", &[1; 4097])])), ("bytes in one file", 4096));
  let parts = [file(b"a", &[1; 4096]), file(b"b", &[1; 4096]), file(b"c", b"1")];
  assert_eq!(limit(&archive(&parts)), ("bytes in all files", 8192));
  let files: Vec<_> = (0..100).map(|n| file(n.to_string().as_bytes(), b"")).collect();
  assert_eq!(names(&archive(&files)).len(), 100);
  assert_eq!(limit(&archive(&[files.concat(), dir(b"d")])), ("entries", 100));
}

#[test]
fn records_are_bounded() {
  for kind in *b"LKxg" {
    let huge = Raw::new(kind, b"r", MAX_ARCHIVE_RECORD_BYTES + 1).seal();
    assert_eq!(limit(&huge), ("bytes in one header record", 65_536), "{}", char::from(kind));
  }
  let long = entry(b'L', b"L", &vec![b'n'; 65_536]);
  assert_eq!(refusal(&archive(&[long, file(b"x", b"")])), Refusal::LongComponent);
}

#[test]
fn owners_are_never_read() {
  let mut raw = Raw::new(b'0', b"f", 0);
  for owner in [b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\x80\0\0\0\x31\x90\xf7\x93", b"        "] {
    raw.set(108, owner).set(116, owner).set(265, b"root").set(297, b"root");
    assert_eq!(names(&archive(&[raw.seal()])), ["f"]);
  }
}

#[test]
fn times_are_kept_or_cut_off() {
  let time =
    |field: &[u8]| read(&archive(&[Raw::new(b'0', b"f", 0).set(136, field).seal()])).unwrap()[0].entry.mtime;
  assert_eq!(time(&[0xff; 12]), -1);
  assert_eq!(time(b"00000000000\0"), 0);
  assert_eq!(time(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), 1 << 33);
  assert_eq!(time(b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 1 << 53);
  assert_eq!(time(b"\xc0\0\0\0\0\0\0\0\0\0\0\0"), -(1 << 53));
  let in_pax =
    |time: &[u8]| read(&archive(&[pax(&[("mtime", time)]), file(b"f", b"")])).unwrap()[0].entry.mtime;
  assert_eq!(in_pax(b"1.5"), 1);
  assert_eq!(in_pax(b"99999999999999999999"), 1 << 53);
  assert_eq!(
    damage(&archive(&[Raw::new(b'0', b"f", 0).set(136, b"garbage").seal()])),
    "a header's time is no number"
  );
}

#[test]
fn an_archive_needs_its_end() {
  let whole = archive(&[file(b"a", b"data"), file(b"b", b"")]);
  let entries = whole.len() - 2 * BLOCK;
  for end in 0..=whole.len() {
    let result = read_in(&whole[..end], limits(), 100).map(|seen| seen.len());
    let complete = end == entries + BLOCK || end == whole.len();
    assert_eq!(result, if complete { Ok(2) } else { Err(CUT(end)) }, "cut at {end}");
  }
  assert_eq!(read(b""), Err(CUT(0)));
  assert_eq!(read(&archive(&[])), Ok(Vec::new()));
}

#[test]
fn after_its_end_there_are_only_so_many_zeros() {
  let with = |tail: Vec<u8>| [archive(&[file(b"a", b"")]).to_vec(), tail].concat();
  assert_eq!(names(&with(vec![0; 10_240])), ["a"]);
  let most = usize::try_from(MAX_ARCHIVE_TRAILER_BYTES).unwrap();
  assert_eq!(read_in(&with(vec![0; most]), limits(), 65_536).unwrap().len(), 1);
  let too_much = read_in(&with(vec![0; most + 1]), limits(), 65_536).unwrap_err();
  let what = "it goes on after its end marker for longer than any writer's padding";
  assert_eq!(too_much, ArchiveError::Damaged { at: 1536 + MAX_ARCHIVE_TRAILER_BYTES, what });
  assert_eq!(damage(&with(file(b"hidden", b""))), "data follows its end marker");
  assert_eq!(damage(&with(b"\0\0\0x".to_vec())), "data follows its end marker");
}

#[test]
fn a_lone_zero_block_hides_nothing() {
  let lone = archive(&[file(b"a", b""), vec![0; BLOCK], file(b"hidden", b"")]);
  assert_eq!(damage(&lone), "a zero block stands between entries");
}

#[test]
fn text_is_no_archive() {
  assert_eq!(damage("no such file or directory\n".repeat(40).as_bytes()), "a header's checksum is wrong");
}

#[test]
fn an_error_stays() {
  let mut reader = Unpacker::new(limits());
  let bad = archive(&[file(b"../x", b"")]);
  let error = reader.push(bad, &mut |_| Ok(())).unwrap_err();
  let good = archive(&[file(b"x", b"")]);
  assert_eq!(reader.push(good, &mut |event| panic!("{event:?}")), Err(error.clone()));
  assert_eq!(reader.finish(), Err(error));
}

#[test]
fn an_error_of_the_sink_ends_the_reading() {
  let mut reader = Unpacker::new(limits());
  let stop = ArchiveError::Missing { name: "x".to_owned() };
  let mut calls = 0;
  let mut sink = |_| {
    calls += 1;
    Err(stop.clone())
  };
  let archive = archive(&[file(b"a", b"data"), file(b"b", b"")]);
  assert_eq!(reader.push(archive, &mut sink), Err(stop.clone()));
  assert_eq!((calls, reader.finish()), (1, Err(stop)));
}

#[test]
fn messages_name_the_entry() {
  let error = read(&archive(&[file(b"a\x1b/../x", b"")])).unwrap_err();
  assert_eq!(error.to_string(), r#"entry "a\u{1b}/../x" of the archive is refused: its name contains "..""#);
  let error = read(&archive(&[Raw::new(b'6', b"pipe", 0).seal()])).unwrap_err();
  assert_eq!(
    error.into_error(crate::error::ErrorCode::SnapshotInvalid).message(),
    r#"entry "pipe" of the archive is refused: type '6' is no file, directory or link."#
  );
}

fn part() -> impl Strategy<Value = Vec<u8>> {
  let name = prop::sample::select(vec![
    b"a".as_slice(),
    b"b",
    b"a/b",
    b"a/b/c",
    b"../x",
    b"/x",
    b"a/",
    b".",
    b"\xff",
    b"",
  ]);
  let data = prop::collection::vec(any::<u8>(), 0..600);
  (prop::sample::select(b"0015212LKxgS6".to_vec()), name, data, 0..20_u8).prop_map(
    |(kind, name, data, odd)| {
      let data = if kind == b'x' || kind == b'g' { record("path", name) } else { data };
      let has_data = !matches!(kind, b'1' | b'2' | b'5');
      let mut raw = Raw::new(kind, name, if has_data { data.len() as u64 } else { 0 });
      raw.set(157, b"a");
      let mut sealed = raw.seal();
      if odd == 0 {
        sealed[usize::from(data.len() as u8)] ^= 0x40;
      }
      [sealed, if has_data { padded(&data) } else { Vec::new() }].concat()
    },
  )
}

proptest! {
  #[test]
  fn chunks_make_no_difference(parts in prop::collection::vec(part(), 0..6), cut in 0_usize..4000, chunk in 1_usize..1500) {
    let whole = archive(&parts);
    let bytes = &whole[..cut.min(whole.len())];
    for bytes in [bytes, &whole[..]] {
      let expected = read_in(bytes, limits(), bytes.len().max(1));
      prop_assert_eq!(read_in(bytes, limits(), chunk), expected);
    }
  }

  #[test]
  fn accepted_entries_obey_the_rules(parts in prop::collection::vec(part(), 0..8)) {
    if let Ok(seen) = read_in(&archive(&parts), limits(), 512) {
      let mut kinds = std::collections::HashMap::new();
      for Seen { entry, .. } in &seen {
        let kind = std::mem::discriminant(&entry.kind);
        prop_assert!(*kinds.entry(entry.path.clone()).or_insert(kind) == kind);
        for parent in entry.path.parents() {
          prop_assert_eq!(kinds.get(&parent), Some(&std::mem::discriminant(&EntryKind::Directory)));
        }
        prop_assert!(entry.mode <= 0o777);
      }
    }
  }

  #[test]
  fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
    let _ = read_in(&bytes, limits(), 333);
  }
}
