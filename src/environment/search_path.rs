//! Which directories of a `PATH` are safe: none that a command in the sandbox could fill with programs of its own.

/// Writable for commands, or (below `/proc` and `/dev`) another name for such a place.
const UNSAFE: [&str; 4] = ["/workspace", "/tmp", "/proc", "/dev"];

/// Used where nothing of an image's `PATH` is left.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An absolute directory without `.` and `..`, outside of all places that commands may write to.
pub fn is_safe(directory: &str) -> bool {
  let clean = directory.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>();
  let absolute = format!("/{}", clean.join("/"));
  directory.starts_with('/')
    && !clean.iter().any(|part| matches!(*part, "." | ".."))
    && !UNSAFE
      .iter()
      .any(|root| absolute.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// An image's `PATH` without its unsafe directories.
pub fn cleaned(path: &str) -> String {
  let safe: Vec<&str> = path.split(':').filter(|directory| is_safe(directory)).collect();
  if safe.is_empty() { DEFAULT_PATH.to_owned() } else { safe.join(":") }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn only_directories_of_the_image_are_safe() {
    for safe in ["/bin", "/usr/local/bin", "/", "//usr//bin/", "/workspace2", "/opt/.hidden", "/tmpfiles"] {
      assert!(is_safe(safe), "{safe}");
    }
    for refused in [
      "",
      ".",
      "bin",
      "./bin",
      "/workspace",
      "/workspace/bin",
      "//workspace/bin",
      "/usr/../workspace",
      "/./workspace",
      "/tmp",
      "/tmp/x",
      "/proc/self/cwd",
      "/dev/shm",
    ] {
      assert!(!is_safe(refused), "{refused}");
    }
  }

  #[test]
  fn a_path_keeps_its_order_and_never_becomes_empty() {
    assert_eq!(cleaned("/usr/bin::/workspace/bin:/bin:.:node_modules/.bin:/"), "/usr/bin:/bin:/");
    assert_eq!(cleaned(""), DEFAULT_PATH);
    assert_eq!(cleaned("/workspace:"), DEFAULT_PATH);
    assert!(DEFAULT_PATH.split(':').all(is_safe));
  }
}
