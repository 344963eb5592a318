//! Memory that the system maps: files, and what processes share. Of memory for cells and payloads
//! the heap asks the system itself.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{null_mut, NonNull};

use ashlar_heap::refusals::{is_refused, SystemCall};

/// Memory that is mapped until this is dropped. It says where the memory is; who uses the memory knows
/// what is there.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; the address never changes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes: of `file`, from its beginning on, or fresh ones, zeros, without one. `access`
    /// and `flags` are those of `mmap`.
    pub(crate) fn new(
        bytes: usize,
        access: i32,
        flags: i32,
        file: Option<&File>,
    ) -> io::Result<Self> {
        if is_refused(SystemCall::Mmap) {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let (flags, file) = match file {
            Some(file) => (flags, file.as_raw_fd()),
            None => (flags | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: a new mapping, at no address that was asked for, takes no memory that is used.
        let start = unsafe { libc::mmap(null_mut(), bytes, access, flags, file, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !is_refused(SystemCall::Munmap) {
            // SAFETY: it was mapped here, and nothing refers to it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}
