//! The memory of the collector's own tables by address: their nodes are in one heap, over
//! pages of the system.

use std::ptr::NonNull;

use ashlar_heap::refusals::{is_refused, SystemCall};
use ashlar_wordmap::memory::{PageSource, SystemPages};
use ashlar_wordmap::shared_heap;

/// Pages of the system, unless a test makes the system refuse them.
pub(crate) struct Pages;

// SAFETY: the system hands out all of them, and keeps the promise.
unsafe impl PageSource for Pages {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        match is_refused(SystemCall::Mmap) {
            true => None,
            false => SystemPages.allocate_chunk(bytes),
        }
    }

    fn allocate_region(&self, bytes: usize, chunks: usize) -> Option<NonNull<u8>> {
        match is_refused(SystemCall::Mmap) {
            true => None,
            false => SystemPages.allocate_region(bytes, chunks),
        }
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's contract is the one of `SystemPages`.
        unsafe { SystemPages.release_chunk(chunk, bytes) };
    }

    unsafe fn release_chunks(&self, chunks: &mut [NonNull<u8>], bytes: usize) {
        // SAFETY: the caller's contract is the one of `SystemPages`.
        unsafe { SystemPages.release_chunks(chunks, bytes) };
    }

    unsafe fn bring_in(&self, chunk: NonNull<u8>, bytes: usize) {
        if !is_refused(SystemCall::Populate) {
            // SAFETY: the caller's contract is the one of `SystemPages`.
            unsafe { SystemPages.bring_in(chunk, bytes) };
        }
    }
}

shared_heap!(
    /// The heap of these tables; the handle that a table has takes no memory.
    pub(crate) TableMemory, Pages, Pages
);

/// A table by address.
pub(crate) type Table = ashlar_wordmap::WordMap<TableMemory>;
