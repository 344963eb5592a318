//! A file of code, mapped.
//!
//! Its pages are clean: nobody writes to them, all processes that map the file share them, and
//! the system can drop them and read them again. The file is never changed in place, because
//! other processes map it: a new one takes its name ([`super::writer`]), and the old one stays
//! for those that have it mapped. Who else may change it is the same user, or root
//! ([`super::trust`]).

use std::fs::File;
use std::io;
use std::ptr::slice_from_raw_parts;

use super::digest::Digest;
use super::layout::{Entry, Index};
use super::trust::{open_file, Distrust};
use crate::mapping::Mapping;

/// A whole file in memory, read-only.
#[derive(Debug)]
pub(super) struct MappedFile(Mapping);

impl MappedFile {
    pub(super) fn of(file: &File, bytes: usize) -> io::Result<Self> {
        Mapping::new(bytes, libc::PROT_READ, libc::MAP_SHARED, Some(file)).map(Self)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has this many bytes, and nobody changes a file of code in place.
        unsafe { &*slice_from_raw_parts(self.0.start().as_ptr(), self.0.len()) }
    }

    /// Takes the pages out of this process's memory. They stay in the system's, and come back when
    /// they are read. So what Ruby has loaded does not count twice.
    pub(super) fn let_go(&self) {
        // SAFETY: the pages are those of a file that nobody changes, so what is read later is what
        // was there before. A failure changes nothing.
        unsafe {
            libc::madvise(
                self.0.start().as_ptr().cast(),
                self.0.len(),
                libc::MADV_DONTNEED,
            )
        };
    }

    /// Where this address lies in the file.
    fn offset(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.0.start().as_ptr().addr());
        (offset < self.0.len()).then_some(offset)
    }
}

/// A file of code whose header and index have been checked.
#[derive(Debug)]
pub(super) struct CodeFile {
    pub(super) mapping: MappedFile,
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
        let mapping = MappedFile::of(&file, bytes)?;
        let index = Index::new(mapping.bytes(), ruby).map_err(Distrust::Why)?;
        Ok(Self { mapping, index })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.mapping.bytes()
    }

    /// The number of the entry whose code begins at this address, and the entry.
    pub(super) fn entry_at(&self, address: usize) -> Option<(usize, Entry)> {
        let offset = self.mapping.offset(address)?;
        self.index.of_code(self.bytes(), offset)
    }
}
