//! Sets the link arguments that a Node-API addon needs; nothing to do for a build of the core alone.

fn main() {
  #[cfg(feature = "binding")]
  napi_build::setup();
}
