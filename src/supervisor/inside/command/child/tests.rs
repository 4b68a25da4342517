use super::*;

fn tried(name: &str, path: &str, answers: &[Errno]) -> (Vec<String>, Errno) {
  let mut tried = Vec::new();
  let error = look_up(name.as_bytes(), path.as_bytes(), |program| {
    tried.push(program.to_str().unwrap().to_owned());
    answers[tried.len() - 1]
  });
  (tried, error)
}

#[test]
fn a_program_is_looked_for_in_each_absolute_directory() {
  let (all, error) = tried("sh", "/a:/b/c", &[Errno::NOENT, Errno::NOTDIR]);
  assert_eq!((all, error), (vec!["/a/sh".to_owned(), "/b/c/sh".to_owned()], Errno::NOENT));
  // The working directory is the adversary's.
  let (all, error) = tried("sh", ":.:bin:../x:/a:", &[Errno::NOENT]);
  assert_eq!((all, error), (vec!["/a/sh".to_owned()], Errno::NOENT));
  assert_eq!(tried("sh", "", &[]), (vec![], Errno::NOENT));
}

#[test]
fn what_was_there_but_could_not_be_run_is_what_is_said() {
  assert_eq!(tried("sh", "/a:/b:/c", &[Errno::NOENT, Errno::ACCESS, Errno::NOEXEC]).1, Errno::ACCESS);
}

#[test]
fn a_name_that_is_too_long_for_a_directory_is_passed_over() {
  let long = "x".repeat(MAX_PROGRAM - 3);
  let (all, error) = tried(&long, "/a:/:/bb", &[Errno::NOENT]);
  assert_eq!((all.len(), error), (1, Errno::NOENT));
  assert_eq!(all[0].len(), MAX_PROGRAM - 1);
}

#[test]
fn what_a_child_says_is_taken_as_it_is_and_nonsense_as_setup() {
  assert_eq!(failure([NotStarted::Program as u8, 2, 0, 0, 0]), (NotStarted::Program, 2));
  assert_eq!(failure([99, 1, 0, 0, 0]), (NotStarted::Setup, 1));
}
