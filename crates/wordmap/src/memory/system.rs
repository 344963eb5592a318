//! Chunks from the system itself.

use super::source::PageSource;
use core::ptr::NonNull;

/// Chunks mapped from the system on Linux; elsewhere they come from the global allocator.
///
/// A global allocator's aligned memory costs a page for the allocator's own headers per
/// chunk.
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

// SAFETY: fresh mappings, aligned as requested, belong to nobody else; those of a process are
// below 2^48 unless it asks for others.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe impl PageSource for SystemPages {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        mapping::map_aligned(bytes)
    }

    /// Uses huge pages, where the system has them for programs that ask: with 4 KiB pages, a
    /// lookup in a map of many megabytes misses the processor's TLB at each node.
    fn allocate_region(&self, bytes: usize, chunks: usize) -> Option<NonNull<u8>> {
        let region = mapping::map_aligned(bytes * chunks)?;
        // SAFETY: a mapping just made.
        unsafe { mapping::ask_for_huge_pages(region.as_ptr(), bytes * chunks) };
        Some(region)
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's contract: the chunk is a mapping of ours.
        unsafe { mapping::unmap(chunk.as_ptr(), bytes) };
    }

    /// Releases neighbours in one call, which takes the system less than half the time.
    unsafe fn release_chunks(&self, chunks: &mut [NonNull<u8>], bytes: usize) {
        chunks.sort_unstable();
        let are_neighbours = |low: &NonNull<u8>, high: &NonNull<u8>| {
            low.as_ptr().wrapping_add(bytes) == high.as_ptr()
        };
        for run in chunks.chunk_by(are_neighbours) {
            // SAFETY: the caller's contract: contiguous mappings of ours.
            unsafe { mapping::unmap(run[0].as_ptr(), run.len() * bytes) };
        }
    }

    unsafe fn bring_in(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's contract: a mapping of ours, whose contents do not change.
        unsafe { mapping::bring_in(chunk.as_ptr(), bytes) };
    }
}

// SAFETY: these are the global allocator's chunks, which keep the promise.
#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe impl PageSource for SystemPages {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        super::GlobalPages.allocate_chunk(bytes)
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's contract: a chunk of the global allocator.
        unsafe { super::GlobalPages.release_chunk(chunk, bytes) };
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod mapping {
    use core::ptr::{self, NonNull};

    /// Maps `bytes` of fresh memory, aligned to `bytes`, a power of two. The system puts a
    /// mapping beside the previous one, so most are aligned already.
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
        // SAFETY: a fresh mapping, at an address that the system chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        (start != libc::MAP_FAILED).then_some(start.cast())
    }

    /// # Safety
    /// The memory must be whole pages of [`map`] that nobody uses.
    pub(super) unsafe fn unmap(start: *mut u8, bytes: usize) {
        // SAFETY: whole pages of `map` that nobody uses.
        unsafe {
            // A process may have only a limited number of mappings, and a hole can make two
            // of one. If unmapping fails, the address space is lost, but not the memory.
            if bytes > 0 && libc::munmap(start.cast(), bytes) != 0 {
                libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED);
            }
        }
    }

    /// Asks the system to back the memory by huge pages (it does not where its setting is
    /// `never`, or where it has no huge pages: then it uses plain pages).
    ///
    /// # Safety
    /// The memory must be whole pages of [`map`].
    pub(super) unsafe fn ask_for_huge_pages(start: *mut u8, bytes: usize) {
        // SAFETY: the caller's contract; the contents of the memory stay.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    }

    /// Brings all pages in at once instead of each at its first touch. Where the system
    /// cannot do so (before Linux 5.14) or is short of memory, they come when they are
    /// touched.
    ///
    /// # Safety
    /// The memory must be whole pages of [`map`].
    pub(super) unsafe fn bring_in(start: *mut u8, bytes: usize) {
        // SAFETY: the caller's contract; the contents of the memory stay.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_POPULATE_WRITE) };
    }
}
