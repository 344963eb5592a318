//! Chunks from the system itself.

use super::source::PageSource;
use core::ptr::NonNull;

/// Chunks mapped from the system: Linux's; elsewhere they come from the global allocator.
///
/// A global allocator's aligned memory costs a page of its own headers for each chunk.
///
/// # Examples
/// ```
/// use ashlar_wordmap::memory::{NodeHeap, SystemPages};
/// use ashlar_wordmap::WordMap;
///
/// static HEAP: NodeHeap<SystemPages> = NodeHeap::new(SystemPages);
/// let mut map = WordMap::new_in(&HEAP);
/// map.insert(26314, 1);
/// assert_eq!(HEAP.usage().reserved_bytes, 65536);
/// ```
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemPages;

// SAFETY: fresh mappings, aligned as asked, are nobody else's; those of a process lie below
// 2^48 unless it asks for others.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe impl PageSource for SystemPages {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        mapping::map_aligned(bytes)
    }

    /// Of huge pages, as far as the system has them for programs that ask: a lookup in a map
    /// of many megabytes misses the processor's table of pages at each node of 4 KiB pages.
    fn allocate_region(&self, bytes: usize, chunks: usize) -> Option<NonNull<u8>> {
        let region = mapping::map_aligned(bytes * chunks)?;
        // SAFETY: a mapping just made.
        unsafe { mapping::ask_for_huge_pages(region.as_ptr(), bytes * chunks) };
        Some(region)
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's duty: a mapping of ours.
        unsafe { mapping::unmap(chunk.as_ptr(), bytes) };
    }

    /// Neighbours go back in one call, which takes the system less than half the time.
    unsafe fn release_chunks(&self, chunks: &mut [NonNull<u8>], bytes: usize) {
        chunks.sort_unstable();
        let are_neighbours = |low: &NonNull<u8>, high: &NonNull<u8>| {
            low.as_ptr().wrapping_add(bytes) == high.as_ptr()
        };
        for run in chunks.chunk_by(are_neighbours) {
            // SAFETY: the caller's duty: mappings of ours, one behind the other.
            unsafe { mapping::unmap(run[0].as_ptr(), run.len() * bytes) };
        }
    }

    unsafe fn bring_in(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's duty: a mapping of ours, whose contents do not change.
        unsafe { mapping::bring_in(chunk.as_ptr(), bytes) };
    }
}

// SAFETY: the global allocator's chunks, which keep the promise.
#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe impl PageSource for SystemPages {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        super::GlobalPages.allocate_chunk(bytes)
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's duty: a chunk of the global allocator.
        unsafe { super::GlobalPages.release_chunk(chunk, bytes) };
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod mapping {
    use core::ptr::{self, NonNull};

    /// `bytes` of fresh memory, aligned to `bytes`, a power of two. The system puts a mapping
    /// beside the one before, so most lie right already.
    pub(super) fn map_aligned(bytes: usize) -> Option<NonNull<u8>> {
        let start = map(bytes)?;
        if start.addr() % bytes == 0 {
            return NonNull::new(start);
        }
        // SAFETY: whole pages of mappings just made, which nobody has used.
        unsafe {
            unmap(start, bytes);
            let start = map(2 * bytes)?;
            let before = start.addr().next_multiple_of(bytes) - start.addr();
            let chunk = start.wrapping_add(before);
            unmap(start, before);
            unmap(chunk.wrapping_add(bytes), bytes - before);
            NonNull::new(chunk)
        }
    }

    fn map(bytes: usize) -> Option<*mut u8> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping, wherever the system likes.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        (start != libc::MAP_FAILED).then_some(start.cast())
    }

    /// # Safety
    /// It must be memory of [`map`], whole pages, that nobody uses.
    pub(super) unsafe fn unmap(start: *mut u8, bytes: usize) {
        // SAFETY: whole pages of `map` that nobody uses.
        unsafe {
            // A process may have only so many mappings, and a hole can make two of one. The
            // address space is lost then, but not the memory.
            if bytes > 0 && libc::munmap(start.cast(), bytes) != 0 {
                libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED);
            }
        }
    }

    /// Has the system back the memory by huge pages where it may (not where its setting is
    /// `never`, nor where it knows none: the memory is then of plain pages).
    ///
    /// # Safety
    /// It must be memory of [`map`], whole pages.
    pub(super) unsafe fn ask_for_huge_pages(start: *mut u8, bytes: usize) {
        // SAFETY: the caller's duty; what the memory holds stays.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    }

    /// Asks for the pages at once instead of one at each first touch. Where the system knows
    /// no such thing (before Linux 5.14) or is short of memory, they come when touched.
    ///
    /// # Safety
    /// It must be memory of [`map`], whole pages.
    pub(super) unsafe fn bring_in(start: *mut u8, bytes: usize) {
        // SAFETY: the caller's duty; what the memory holds stays.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_POPULATE_WRITE) };
    }
}
