//! A file of code, mapped.
//!
//! Its pages are clean: nobody writes to them, all processes that map the file share them, and
//! the system can drop them and read them again. The file is never changed in place, because
//! other processes map it: a new one takes its name ([`super::writer`]), and the old one stays
//! for those that have it mapped. Who else may change it is the same user, or root
//! ([`super::trust`]).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{slice_from_raw_parts, NonNull};

use super::digest::Digest;
use super::layout::Index;
use super::trust::{open_file, Distrust};
use crate::mapping::map;

/// A whole file in memory, read-only.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nobody writes to the memory, and it stays until the mapping is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn of(file: &File, bytes: usize) -> io::Result<Self> {
        let start = map(
            bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            Some(file.as_raw_fd()),
        )?;
        Ok(Self { start, bytes })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has this many bytes, and nobody changes a file of code in place.
        unsafe { &*slice_from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Takes the pages out of this process's memory. They stay in the system's, and come back when
    /// they are read. So what Ruby has loaded does not count twice.
    pub(super) fn let_go(&self) {
        // SAFETY: the pages are those of a file that nobody changes, so what is read later is what
        // was there before. A failure changes nothing.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_DONTNEED) };
    }

    /// Where this address lies in the file.
    pub(super) fn offset(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.start.as_ptr().addr());
        (offset < self.bytes).then_some(offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped here, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A file of code whose header and index have been checked.
#[derive(Debug)]
pub(super) struct CodeFile {
    pub(super) mapping: Mapping,
    pub(super) index: Index,
}

impl CodeFile {
    /// Opens the file of this name in the folder, for the Ruby with this digest.
    pub(super) fn open(folder: &File, name: &str, ruby: &Digest) -> Result<Self, Distrust> {
        let file = open_file(folder, name, libc::O_RDONLY)?;
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        if bytes == 0 {
            return Err(Distrust::Why("it is empty".to_owned()));
        }
        let mapping = Mapping::of(&file, bytes)?;
        let index = Index::new(mapping.bytes(), ruby).map_err(Distrust::Why)?;
        Ok(Self { mapping, index })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.mapping.bytes()
    }
}
