//! The two seams: pages for a heap, nodes for a map.

use alloc::alloc::{alloc, dealloc, Layout};
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

/// Gives a map the memory of its nodes.
///
/// Failure is a value: a source never panics and never aborts.
///
/// # Safety
/// A block handed out must be aligned to 8 bytes, be at least as long as asked
/// for, belong to nobody else until released, and have an address below 2^56.
pub unsafe trait NodeSource {
    /// A block of `bytes` (a multiple of 8, at most 4000), or `None` when there is no memory.
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>>;

    /// Takes back a block.
    ///
    /// # Safety
    /// `block` must come from this source; `bytes` must be the size it was
    /// allocated with, or the last one given to [`NodeSource::shrink`].
    unsafe fn release(&self, block: NonNull<u8>, bytes: usize);

    /// Takes back the block that `inside` is an address in; returns how long it was.
    /// `find` gives the block and its length, for which it reads the node: a source that
    /// knows them without does not ask.
    ///
    /// # Safety
    /// As [`NodeSource::release`], for what `find` gives, or would.
    #[inline]
    unsafe fn release_around(
        &self,
        inside: NonNull<u8>,
        find: impl FnOnce() -> (NonNull<u8>, usize),
    ) -> usize
    where
        Self: Sized,
    {
        let _ = inside;
        let (block, bytes) = find();
        // SAFETY: `find` gives a live block of this source, which nobody uses any more.
        unsafe { self.release(block, bytes) };
        bytes
    }

    /// Says that only the first `new_bytes` of a block are still needed. The
    /// block stays where it is. Called only when a smaller block could not be had.
    ///
    /// # Safety
    /// As [`NodeSource::release`], with `new_bytes <= old_bytes`.
    unsafe fn shrink(&self, block: NonNull<u8>, old_bytes: usize, new_bytes: usize);

    /// Makes a block longer where it is; returns whether that could be done.
    /// Where it is done, maps grow without copying and memory stays whole.
    ///
    /// # Safety
    /// As [`NodeSource::release`], with `new_bytes >= old_bytes`.
    #[inline]
    unsafe fn extend(&self, block: NonNull<u8>, old_bytes: usize, new_bytes: usize) -> bool {
        let _ = (block, old_bytes, new_bytes);
        false
    }

    /// Makes a block longer where it is, or allocates a longer one; lets `fill` write what
    /// it has become; releases the old block if it is another. `None`, and nothing filled,
    /// when there is no memory.
    ///
    /// # Safety
    /// As [`NodeSource::extend`].
    #[inline]
    unsafe fn enlarge(
        &self,
        old: NonNull<u8>,
        old_bytes: usize,
        new_bytes: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<NonNull<u8>>
    where
        Self: Sized,
    {
        // SAFETY: the block is a live one of this source, of `old_bytes`.
        unsafe {
            if self.extend(old, old_bytes, new_bytes) {
                fill(old);
                return Some(old);
            }
            self.replace(old, old_bytes, new_bytes, fill)
        }
    }

    /// A count that changes whenever a block of those that `node` is one of is released,
    /// extended where it is, or shrunk, so that a walk knows by it that its nodes are where
    /// they were. `None` where nobody counts, or the count may end before the program.
    ///
    /// # Safety
    /// `node` must be an address in a live block of this source. What implements this must
    /// change the count before the block can be handed out again.
    #[inline]
    unsafe fn changes(&self, node: NonNull<u8>) -> Option<&'static AtomicU64> {
        let _ = node;
        None
    }

    /// Changes the count that [`NodeSource::changes`] has for `node`, where there is one:
    /// something has gone from a tree that was no block.
    ///
    /// # Safety
    /// As [`NodeSource::changes`].
    #[inline]
    unsafe fn count_change(&self, node: NonNull<u8>) {
        let _ = node;
    }

    /// Allocates `new_bytes`, lets `fill` write the new block (the old one is
    /// still whole), then releases the old block.
    ///
    /// # Safety
    /// As [`NodeSource::release`] for the old block.
    #[inline]
    unsafe fn replace(
        &self,
        old: NonNull<u8>,
        old_bytes: usize,
        new_bytes: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<NonNull<u8>>
    where
        Self: Sized,
    {
        let new = self.allocate(new_bytes)?;
        fill(new);
        // SAFETY: `fill` has copied what is wanted of the old block.
        unsafe { self.release(old, old_bytes) };
        Some(new)
    }
}

/// Gives a [`NodeHeap`](super::NodeHeap) its chunks of pages.
///
/// # Safety
/// A chunk must be aligned as asked, `bytes` long, and belong to nobody else
/// until released. Its address must be below 2^56.
pub unsafe trait PageSource {
    /// A chunk of `bytes`, aligned to `bytes` (a power of two), or `None`.
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>>;

    /// `chunks` chunks of `bytes` (powers of two), one behind the other, the first one aligned
    /// to the length of all. They will be used in order, and each is given back by itself. A
    /// source may have them in larger pages than single chunks, and then all of them take
    /// memory once one does. `None` where there is no memory for so many, or the source has
    /// only single chunks.
    fn allocate_region(&self, bytes: usize, chunks: usize) -> Option<NonNull<u8>> {
        let _ = (bytes, chunks);
        None
    }

    /// Takes back a chunk.
    ///
    /// # Safety
    /// `chunk` must come from this source with this size.
    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize);

    /// Takes back several chunks. A source to which this is less work than one after
    /// another may change their order in the list.
    ///
    /// # Safety
    /// As [`PageSource::release_chunk`], for each of them.
    unsafe fn release_chunks(&self, chunks: &mut [NonNull<u8>], bytes: usize) {
        for chunk in chunks {
            // SAFETY: each chunk comes from this source with this size.
            unsafe { self.release_chunk(*chunk, bytes) };
        }
    }

    /// Says that all of a chunk is about to be written to: a source whose memory comes in
    /// page by page may fetch them together. What the chunk holds stays as it is.
    ///
    /// # Safety
    /// `chunk` must come from this source with this size.
    unsafe fn bring_in(&self, chunk: NonNull<u8>, bytes: usize) {
        let _ = (chunk, bytes);
    }
}

/// Chunks from the program's global allocator.
#[derive(Debug, Default, Clone, Copy)]
pub struct GlobalPages;

// SAFETY: the global allocator keeps its own promise of alignment, size and ownership.
unsafe impl PageSource for GlobalPages {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, bytes).ok()?;
        // SAFETY: chunks are never empty.
        NonNull::new(unsafe { alloc(layout) })
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        if let Ok(layout) = Layout::from_size_align(bytes, bytes) {
            // SAFETY: the caller got the chunk from `allocate_chunk` with this size.
            unsafe { dealloc(chunk.as_ptr(), layout) };
        }
    }
}
