//! The digest of the running program.

use sha2::{Digest, Sha256};

/// SHA-256 over the loaded segments that are not writable: what [`crate::supervisor::wire::image_digest`] takes of the
/// file. The file itself cannot be opened for reading.
pub fn own_digest() -> [u8; 32] {
  let mut digest = Sha256::new();
  // SAFETY: the callback gets this very digest back, and only while `dl_iterate_phdr` runs.
  #[expect(unsafe_code, reason = "only the loader knows where the segments are")]
  unsafe {
    libc::dl_iterate_phdr(Some(add_segments), (&raw mut digest).cast());
  }
  digest.finalize().into()
}

/// A static program is one object: the first and only call adds its segments and ends the iteration.
#[expect(unsafe_code, reason = "called by libc")]
unsafe extern "C" fn add_segments(
  info: *mut libc::dl_phdr_info,
  _size: libc::size_t,
  digest: *mut libc::c_void,
) -> libc::c_int {
  // SAFETY: libc passes a valid description of a loaded object, whose program headers lie one after the other; `digest`
  // is what `own_digest` passed.
  let (base, headers, digest) = unsafe {
    let info = &*info;
    let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
    (info.dlpi_addr, headers, &mut *digest.cast::<Sha256>())
  };
  for header in headers {
    if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0 {
      let start = std::ptr::with_exposed_provenance::<u8>((base + header.p_vaddr) as usize);
      // SAFETY: a loaded segment is mapped readable (our linker makes none that is only executable) for its length in
      // the file, and is never written.
      digest.update(unsafe { std::slice::from_raw_parts(start, header.p_filesz as usize) });
    }
  }
  1
}
