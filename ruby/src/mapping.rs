//! Memory that the system maps: files, and what processes share. Of memory for cells and payloads
//! the heap asks the system itself.

use std::io;
use std::os::fd::RawFd;
use std::ptr::{null_mut, NonNull};

use ashlar_heap::refusals::{is_refused, SystemCall};

/// Maps `bytes` bytes: of `file`, from its beginning on, or fresh ones, zeros, without one. `access` and `flags`
/// are those of `mmap`.
pub(crate) fn map(
    bytes: usize,
    access: i32,
    flags: i32,
    file: Option<RawFd>,
) -> io::Result<NonNull<u8>> {
    if is_refused(SystemCall::Mmap) {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    let flags = match file {
        Some(_) => flags,
        None => flags | libc::MAP_ANONYMOUS,
    };
    // SAFETY: a new mapping, at no address that was asked for, takes no memory that is used.
    let start = unsafe { libc::mmap(null_mut(), bytes, access, flags, file.unwrap_or(-1), 0) };
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(start),
        _ => Err(io::Error::last_os_error()),
    }
}
